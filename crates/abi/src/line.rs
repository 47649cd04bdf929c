// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The cache lines of a slot: the guest line, which is read from a copy, and the host line.

use core::mem::{offset_of, size_of};

use crate::layout::{self, paracord_context, paracord_guest_line, paracord_host_line};
use crate::{field_in, read_field, write_field};

/// Size of a cache line.
pub const LINE_BYTES: usize = layout::PARACORD_LINE_BYTES as usize;

/// What runs on a vCPU. The fields have been checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GuestContext {
    /// `PARACORD_TASK_*`; anything unknown becomes `PARACORD_TASK_UNKNOWN`.
    pub task_class: u8,
    /// Effective priority in the guest's kernel, at most 139. Lower values are more urgent.
    pub task_prio: u8,
    /// Whether the vCPU is in a hard interrupt handler.
    pub hardirq: bool,
    /// Whether the vCPU is in a softirq handler.
    pub softirq: bool,
    /// Whether the vCPU is in an NMI handler.
    pub nmi: bool,
    /// Whether preemption is disabled.
    pub critical: bool,
    /// Whether the vCPU is idle and about to halt.
    pub halting: bool,
}

/// A guest line. Each field has been checked and clamped separately. A field that the guest did not
/// declare is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GuestLine {
    /// What runs on the vCPU.
    pub context: Option<GuestContext>,
    /// Guest-physical address and mask of the vCPU's preempt_count, if the guest declared both and
    /// neither is 0.
    pub preempt_count: Option<(u64, u32)>,
    /// Performance request, 0..=1024.
    pub perf_request: Option<u16>,
    /// The highest value that the guest's governor may request, 0..=1024; 0: no limit.
    pub perf_limit: Option<u16>,
    /// Utilisation of the vCPU's run queue in the guest, 0..=1024.
    pub runqueue_util: Option<u16>,
    /// Number of kicks that the guest has sent; wraps.
    pub kicks: Option<u32>,
}

/// Upper end of the capacity scale.
const CAPACITY_MAX: u16 = 1024;
/// The value of the lowest kernel priority (`MAX_PRIO - 1`).
const TASK_PRIO_MAX: u8 = 139;

macro_rules! declared {
    ($bytes:expr, $declared:expr, $type:ty, $field:ident) => {
        field_in(offset_of!(paracord_guest_line, $field), size_of::<$type>(), $declared as usize)
            .then(|| read_field!($bytes, $type, paracord_guest_line, $field))
    };
}

impl GuestLine {
    /// Checks a copied line. The guest has declared that it uses the first `declared_bytes` of the
    /// line.
    pub fn from_bytes(copy: &[u8; LINE_BYTES], declared_bytes: u32) -> GuestLine {
        let context_declared = field_in(0, size_of::<paracord_context>(), declared_bytes as usize);
        let gpa = declared!(copy, declared_bytes, u64, preempt_count_gpa);
        let mask = declared!(copy, declared_bytes, u32, preempt_count_mask);
        let capacity = |value: u16| value.min(CAPACITY_MAX);
        GuestLine {
            context: context_declared.then(|| GuestContext::from_line(copy)),
            preempt_count: gpa.zip(mask).filter(|&(gpa, mask)| gpa != 0 && mask != 0),
            perf_request: declared!(copy, declared_bytes, u16, perf_request).map(capacity),
            perf_limit: declared!(copy, declared_bytes, u16, perf_limit).map(capacity),
            runqueue_util: declared!(copy, declared_bytes, u16, runqueue_util).map(capacity),
            kicks: declared!(copy, declared_bytes, u32, kicks),
        }
    }
}

impl GuestContext {
    fn from_line(copy: &[u8; LINE_BYTES]) -> GuestContext {
        let class = read_field!(copy, u8, paracord_context, task_class);
        let known = u32::from(class) <= layout::PARACORD_TASK_STOP;
        GuestContext {
            task_class: if known { class } else { layout::PARACORD_TASK_UNKNOWN as u8 },
            task_prio: read_field!(copy, u8, paracord_context, task_prio).min(TASK_PRIO_MAX),
            hardirq: read_field!(copy, u8, paracord_context, hardirq) != 0,
            softirq: read_field!(copy, u8, paracord_context, softirq) != 0,
            nmi: read_field!(copy, u8, paracord_context, nmi) != 0,
            critical: read_field!(copy, u8, paracord_context, critical) != 0,
            halting: read_field!(copy, u8, paracord_context, halting) != 0,
        }
    }
}

/// Size of the boost part at the start of the host line.
pub const HOST_BOOST_BYTES: usize = offset_of!(paracord_host_line, capacity);

/// The boost part of a host line: its first [`HOST_BOOST_BYTES`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostBoost {
    /// `PARACORD_BOOST_*`.
    pub state: u8,
    /// Mask of `1 << PARACORD_REASON_*`.
    pub reasons: u8,
    /// `PARACORD_HOST_*`.
    pub flags: u8,
    /// Number of boosts so far; wraps.
    pub boosts: u32,
    /// Number of forced unboosts so far; wraps.
    pub throttles: u32,
}

impl HostBoost {
    /// The bytes of this part, as they are in the region.
    pub fn to_bytes(self) -> [u8; HOST_BOOST_BYTES] {
        let mut bytes = [0u8; HOST_BOOST_BYTES];
        write_field!(bytes, self.state, paracord_host_line, boost_state);
        write_field!(bytes, self.reasons, paracord_host_line, boost_reasons);
        write_field!(bytes, self.flags, paracord_host_line, host_flags);
        write_field!(bytes, self.boosts, paracord_host_line, boosts);
        write_field!(bytes, self.throttles, paracord_host_line, throttles);
        bytes
    }
}

/// Size of the place part of the host line, which follows the boost part.
pub const HOST_PLACE_BYTES: usize =
    offset_of!(paracord_host_line, domain_table) + size_of::<u32>() - HOST_BOOST_BYTES;

/// Size of the place part before ABI 1.5, rounded up to whole words.
pub const HOST_PLACE_MIN_BYTES: usize = (offset_of!(paracord_host_line, domain) + size_of::<u16>())
    .next_multiple_of(4)
    - HOST_BOOST_BYTES;

/// Where a vCPU runs and how fast. This part has the [`HOST_PLACE_BYTES`] that follow the boost
/// part of a host line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostPlace {
    /// Capacity of the physical CPU at its highest frequency, 1..=1024; 0: unknown.
    pub capacity: u16,
    /// The frequency of this CPU relative to its highest frequency, 1..=1024; 0: unknown.
    pub frequency: u16,
    /// Physical CPU; `u32::MAX`: unknown.
    pub physical_cpu: u32,
    /// The CPU's cluster; `u32::MAX`: unknown.
    pub cluster: u32,
    /// Share of time in which other threads had the CPU while the vCPU waited, 0..=1024.
    pub pressure: u16,
    /// Index of the vCPU's performance domain.
    pub domain: Option<u16>,
    /// ID of the table to which `domain` refers; 0: the table in the region.
    pub domain_table: u32,
}

impl HostPlace {
    /// A place about which nothing is known.
    pub const UNKNOWN: HostPlace = HostPlace {
        capacity: 0,
        frequency: 0,
        physical_cpu: u32::MAX,
        cluster: u32::MAX,
        pressure: 0,
        domain: None,
        domain_table: 0,
    };

    /// The bytes of this part, as they are in the region.
    pub fn to_bytes(self) -> [u8; HOST_PLACE_BYTES] {
        let mut line = [0u8; LINE_BYTES];
        let domain = self.domain.map_or(0, |index| index.saturating_add(1));
        write_field!(line, self.capacity, paracord_host_line, capacity);
        write_field!(line, self.frequency, paracord_host_line, frequency);
        write_field!(line, self.physical_cpu, paracord_host_line, physical_cpu);
        write_field!(line, self.cluster, paracord_host_line, cluster);
        write_field!(line, self.pressure, paracord_host_line, pressure);
        write_field!(line, domain, paracord_host_line, domain);
        write_field!(line, self.domain_table, paracord_host_line, domain_table);
        let mut bytes = [0u8; HOST_PLACE_BYTES];
        bytes.copy_from_slice(&line[HOST_BOOST_BYTES..HOST_BOOST_BYTES + HOST_PLACE_BYTES]);
        bytes
    }
}
