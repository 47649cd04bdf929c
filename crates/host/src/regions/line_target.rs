// SPDX-License-Identifier: GPL-2.0-only
//! The place of a host line, and how the parts of the line are written. A host line is the part of
//! a vCPU's slot that only the host writes: it tells the guest the boost state of the vCPU and the
//! speed of its CPU.

use std::io;
use std::sync::Arc;

use paracord_abi::{HOST_BOOST_BYTES, HostBoost, HostPlace};
use paracord_sensor::{Sensor, Vcpu};

use crate::regions::region::Region;

/// The place of a vCPU's host line, that is, the part of the vCPU's slot that only the host writes.
#[derive(Clone)]
pub enum Target {
    /// The line lies in the file of a region.
    File {
        /// The region.
        region: Arc<Region>,
        /// The slot in the region.
        vcpu_id: u32,
    },
    /// The line lies in the guest's own memory. The daemon stores the place part of the line in the
    /// record of the vCPU. The sensor adds the boost part, and writes the line into the guest's
    /// memory (bpf/host_line.h).
    Memory {
        /// The sensor.
        sensor: Arc<Sensor>,
        /// Index of the vCPU.
        index: u32,
        /// Thread of the vCPU. It distinguishes the vCPU from a later one, because the sensor may
        /// reuse the index of a vCPU that has ended.
        tid: u32,
    },
}

impl Target {
    /// Writes the boost part of the line. For a line in the guest's own memory, the sensor composes
    /// this part, and is only told to write the line again.
    ///
    /// # Errors
    /// As [`Region::write_boost`].
    pub fn write_boost(&self, boost: HostBoost) -> io::Result<()> {
        match self {
            Target::File { region, vcpu_id } => region.write_boost(*vcpu_id, boost),
            Target::Memory { sensor, index, tid } => {
                if let Some(vcpu) = of_line(sensor, *index, *tid) {
                    vcpu.renew_host_line();
                }
                Ok(())
            }
        }
    }

    /// Writes the place part of the line.
    ///
    /// # Errors
    /// As [`Region::write_place`].
    pub fn write_place(&self, place: HostPlace) -> io::Result<()> {
        match self {
            Target::File { region, vcpu_id } => region.write_place(*vcpu_id, place),
            Target::Memory { sensor, index, tid } => {
                if let Some(vcpu) = of_line(sensor, *index, *tid) {
                    vcpu.set_host_line(HOST_BOOST_BYTES, &place.to_bytes());
                }
                Ok(())
            }
        }
    }

    /// Whether the line lies in the file of a region.
    pub fn is_in_file(&self) -> bool {
        matches!(self, Target::File { .. })
    }

    /// Whether `self` and `other` are the same line.
    pub fn is(&self, other: &Target) -> bool {
        match (self, other) {
            (Target::File { region, vcpu_id }, Target::File { region: theirs, vcpu_id: id }) => {
                vcpu_id == id && Arc::ptr_eq(region, theirs)
            }
            (Target::Memory { index, tid, .. }, Target::Memory { index: at, tid: theirs, .. }) => {
                (index, tid) == (at, theirs)
            }
            _ => false,
        }
    }
}

/// The record of a line's vCPU, unless the record belongs to another vCPU by now.
fn of_line(sensor: &Sensor, index: u32, tid: u32) -> Option<Vcpu<'_>> {
    sensor.vcpus().get(index).filter(|vcpu| vcpu.tid() == tid)
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Target::File { region, vcpu_id } => write!(f, "slot {vcpu_id} of {}", region.name),
            Target::Memory { index, .. } => write!(f, "record {index}"),
        }
    }
}
