// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The PMU area of a slot, and the table of events that guests may count (since 1.2).

use core::mem::{offset_of, size_of};

use crate::layout::{
    self, paracord_event, paracord_header, paracord_pmu_count, paracord_pmu_guest,
    paracord_pmu_host, paracord_pmu_want, paracord_slot,
};
use crate::{RegionLayout, read_field, write_field};

/// Number of counters of a vCPU.
pub const COUNTERS: usize = layout::PARACORD_COUNTERS as usize;
/// Size of the guest's lines of the area.
pub const PMU_GUEST_BYTES: usize = size_of::<paracord_pmu_guest>();
/// Size of the host's lines of the area.
pub const PMU_HOST_BYTES: usize = size_of::<paracord_pmu_host>();
/// Offset of the guest's lines in a slot.
pub const PMU_GUEST_OFFSET: usize = offset_of!(paracord_slot, pmu);
/// Offset of the host's lines in a slot.
pub const PMU_HOST_OFFSET: usize = offset_of!(paracord_slot, pmu_host);
/// Offset, in the host's lines, of the number of the last batch that the host has served. The host
/// writes this number last.
pub const PMU_SERVED_OFFSET: usize = offset_of!(paracord_pmu_host, served);

/// What a guest requests from one counter. The guest may have written any values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterWant {
    /// Index of the event; `None`: the counter is off.
    pub event: Option<u16>,
    /// Whether to count in user mode.
    pub user: bool,
    /// Whether to count in kernel mode.
    pub kernel: bool,
    /// The event overflows after each `period` counts; 0: it only counts.
    pub period: u64,
    /// The part of the first period that has already passed, in units of `period` / 2^32.
    pub elapsed: u32,
}

/// What a guest requests from all counters of a vCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PmuAsk {
    /// Number of the batch; 0: there was no batch yet.
    pub asked: u32,
    /// Mask of the counters whose counts the guest requests.
    pub read: u16,
    /// The requests, by counter.
    pub wants: [CounterWant; COUNTERS],
}

impl PmuAsk {
    /// Converts a copy of the guest's lines.
    pub fn from_bytes(copy: &[u8; PMU_GUEST_BYTES]) -> PmuAsk {
        let mut wants = [CounterWant::default(); COUNTERS];
        let words = copy[offset_of!(paracord_pmu_guest, want)..]
            .chunks_exact(size_of::<paracord_pmu_want>());
        for (want, word) in wants.iter_mut().zip(words) {
            let flags = u32::from(read_field!(word, u16, paracord_pmu_want, flags));
            *want = CounterWant {
                event: read_field!(word, u16, paracord_pmu_want, event).checked_sub(1),
                user: flags & layout::PARACORD_WANT_USER != 0,
                kernel: flags & layout::PARACORD_WANT_KERNEL != 0,
                period: read_field!(word, u64, paracord_pmu_want, period),
                elapsed: read_field!(word, u32, paracord_pmu_want, elapsed),
            };
        }
        PmuAsk {
            asked: read_field!(copy, u32, paracord_pmu_guest, asked),
            read: read_field!(copy, u32, paracord_pmu_guest, read) as u16,
            wants,
        }
    }
}

/// The counts of a counter so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterCounts {
    /// The count.
    pub count: u64,
    /// Time that the vCPU's thread ran while the counter was on.
    pub enabled_ns: u64,
    /// The part of `enabled_ns` in which the event was counted.
    pub running_ns: u64,
    /// Number of overflows; wraps.
    pub overflows: u32,
}

/// What the host reports about the counters of a vCPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PmuAnswer {
    /// Number of the batch that was served. It is stored last, at [`PMU_SERVED_OFFSET`].
    pub served: u32,
    /// Mask of the counters that do not count, although the guest has requested an event for them.
    pub refused: u16,
    /// For a region in the guest's own memory: a number that changes when another host or daemon
    /// begins to count. For the region of a device: 0.
    pub service: u32,
    /// For a region in the guest's own memory: the events on offer; bit n stands for event n of
    /// [`known_events`]. For the region of a device: 0.
    pub offered: u64,
    /// The counts, by counter.
    pub counters: [CounterCounts; COUNTERS],
}

impl PmuAnswer {
    /// Converts a copy of the host's lines. They may contain any values, because a guest can write
    /// them.
    pub fn from_bytes(copy: &[u8; PMU_HOST_BYTES]) -> PmuAnswer {
        let mut counters = [CounterCounts::default(); COUNTERS];
        let places = copy[offset_of!(paracord_pmu_host, counter)..]
            .chunks_exact(size_of::<paracord_pmu_count>());
        for (counter, place) in counters.iter_mut().zip(places) {
            *counter = CounterCounts {
                count: read_field!(place, u64, paracord_pmu_count, count),
                enabled_ns: read_field!(place, u64, paracord_pmu_count, enabled_ns),
                running_ns: read_field!(place, u64, paracord_pmu_count, running_ns),
                overflows: read_field!(place, u32, paracord_pmu_count, overflows),
            };
        }
        PmuAnswer {
            served: read_field!(copy, u32, paracord_pmu_host, served),
            refused: read_field!(copy, u32, paracord_pmu_host, refused) as u16,
            service: read_field!(copy, u32, paracord_pmu_host, service),
            offered: read_field!(copy, u64, paracord_pmu_host, offered),
            counters,
        }
    }

    /// The bytes of the host's lines, as they are in the slot.
    pub fn to_bytes(&self) -> [u8; PMU_HOST_BYTES] {
        let mut bytes = [0u8; PMU_HOST_BYTES];
        write_field!(bytes, self.served, paracord_pmu_host, served);
        write_field!(bytes, u32::from(self.refused), paracord_pmu_host, refused);
        write_field!(bytes, self.service, paracord_pmu_host, service);
        write_field!(bytes, self.offered, paracord_pmu_host, offered);
        let places = bytes[offset_of!(paracord_pmu_host, counter)..]
            .chunks_exact_mut(size_of::<paracord_pmu_count>());
        for (place, counter) in places.zip(&self.counters) {
            write_field!(place, counter.count, paracord_pmu_count, count);
            write_field!(place, counter.enabled_ns, paracord_pmu_count, enabled_ns);
            write_field!(place, counter.running_ns, paracord_pmu_count, running_ns);
            write_field!(place, counter.overflows, paracord_pmu_count, overflows);
        }
        bytes
    }
}

/// The names of the events that guests without a device may count, in the order of their numbers.
pub fn known_events() -> impl Iterator<Item = &'static str> {
    let list = layout::PARACORD_EVENT_LIST.strip_suffix(b"\0").unwrap_or_default();
    std::str::from_utf8(list).unwrap_or_default().split(' ')
}

/// An event that a guest may count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventOffer<'a> {
    /// Name of the event, which becomes a file name in the guest.
    pub name: &'a str,
    /// The shortest period; 0: the event only counts.
    pub min_period: u64,
}

/// Why events cannot be offered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// More events than the table holds.
    #[error("{found} events, at most {} fit", layout::PARACORD_EVENTS_MAX)]
    Count {
        /// Number of events.
        found: usize,
    },
    /// The name cannot be a file name in the guest.
    #[error("event {found:?}: a name has 1 to {NAME_MAX} letters, digits and \"-\"")]
    Name {
        /// The name.
        found: String,
    },
    /// The region was created by an older version and has no room for events.
    #[error("the region has no room for a table of events: create it anew")]
    NoRoom,
}

const EVENT_BYTES: usize = layout::PARACORD_EVENT_STRIDE_BYTES as usize;
const EVENT_OFFSET: usize = layout::PARACORD_EVENT_OFFSET_BYTES as usize;
/// Longest name, without the terminating NUL.
const NAME_MAX: usize = layout::PARACORD_EVENT_NAME_BYTES as usize - 1;
/// Number of bytes at the start of a region that [`offer_events`] may change.
pub const OFFER_BYTES: usize = EVENT_OFFSET + EVENT_BYTES * layout::PARACORD_EVENTS_MAX as usize;

/// Who serves the PMU areas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServedAt {
    /// The VMM serves them when the guest writes the doorbell register.
    Doorbell,
    /// The daemon serves them when the guest sends a kick.
    Kick,
}

/// Writes two things into a region's first bytes: which events are on offer, and who serves the PMU
/// areas. If `events` is empty, no PMU is offered. Call this before the guest starts.
///
/// # Errors
/// Any [`EventError`], in which case nothing was changed.
pub fn offer_events(
    first: &mut [u8; OFFER_BYTES],
    region: &RegionLayout,
    events: &[EventOffer<'_>],
    served: ServedAt,
) -> Result<(), EventError> {
    if events.len() > layout::PARACORD_EVENTS_MAX as usize {
        return Err(EventError::Count { found: events.len() });
    }
    if let Some(bad) = events.iter().find(|event| !is_name(event.name)) {
        return Err(EventError::Name { found: bad.name.to_owned() });
    }
    let domains = u64::from(region.domain_offset_bytes)
        + u64::from(region.domain_count) * u64::from(region.domain_stride_bytes);
    let has_room = domains <= EVENT_OFFSET as u64
        && region.slot_offset_bytes as usize >= OFFER_BYTES
        && region.slot_stride_bytes as usize >= size_of::<paracord_slot>();
    if !has_room && !events.is_empty() {
        return Err(EventError::NoRoom);
    }
    let pmu = layout::PARACORD_F_PMU | layout::PARACORD_F_PMU_DOORBELL;
    let mut features = region.host_features & !pmu;
    if !events.is_empty() {
        features |= layout::PARACORD_F_PMU;
        if served == ServedAt::Doorbell {
            features |= layout::PARACORD_F_PMU_DOORBELL;
        }
        let minor = region.abi_minor.max(layout::PARACORD_ABI_MINOR as u16);
        write_field!(first, minor, paracord_header, abi_minor);
        write_field!(first, EVENT_OFFSET as u32, paracord_header, event_offset_bytes);
        write_field!(first, EVENT_BYTES as u16, paracord_header, event_stride_bytes);
        for (place, event) in first[EVENT_OFFSET..].chunks_exact_mut(EVENT_BYTES).zip(events) {
            place.fill(0);
            place[offset_of!(paracord_event, name)..][..event.name.len()]
                .copy_from_slice(event.name.as_bytes());
            write_field!(place, event.min_period, paracord_event, min_period);
        }
    }
    write_field!(first, events.len() as u16, paracord_header, event_count);
    write_field!(first, features, paracord_header, host_features);
    Ok(())
}

/// The names of the events in a region's first bytes. A guest can write these bytes, so the list
/// ends at the first name that is not valid.
pub fn event_names(first: &[u8; OFFER_BYTES]) -> Vec<String> {
    let count = usize::from(read_field!(first, u16, paracord_header, event_count));
    let places = first[EVENT_OFFSET..].chunks_exact(EVENT_BYTES).take(count);
    let names = places.map(|place| {
        let name = &place[offset_of!(paracord_event, name)..][..NAME_MAX];
        name.split(|byte| *byte == 0)
            .next()
            .map_or_else(String::new, |name| String::from_utf8_lossy(name).into_owned())
    });
    names.take_while(|name| is_name(name)).collect()
}

fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(plain)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{new_region, region_bytes};

    fn region(host_features: u32) -> ([u8; OFFER_BYTES], RegionLayout) {
        let bytes = new_region(4, host_features, 0, &[]).unwrap();
        let layout = RegionLayout::check(&bytes, region_bytes(4)).unwrap();
        (*bytes.first_chunk().unwrap(), layout)
    }

    #[test]
    fn events_are_offered_and_taken_back() {
        let (mut first, layout) = region(1);
        let empty = first;
        let events = [("cycles", 9), ("L1-dcache-load-misses", 0)]
            .map(|(name, min_period)| EventOffer { name, min_period });
        offer_events(&mut first, &layout, &events, ServedAt::Doorbell).unwrap();
        let offered = RegionLayout::check(&first, region_bytes(4)).unwrap();
        assert_eq!(offered.host_features, 1 | 1 << 5 | 1 << 6);
        let count = read_field!(first, u16, paracord_header, event_count);
        assert_eq!(event_names(&first), ["cycles", "L1-dcache-load-misses"]);
        assert!(event_names(&[0xff; OFFER_BYTES]).is_empty());
        let at = read_field!(first, u32, paracord_header, event_offset_bytes) as usize;
        assert_eq!((count, &first[at..at + 7]), (2, &b"cycles\0"[..]));
        assert_eq!((first[at + 24], first[at + 56]), (9, 0));
        assert_eq!(&first[at + 32..at + 54], b"L1-dcache-load-misses\0");
        offer_events(&mut first, &offered, &events, ServedAt::Kick).unwrap();
        let kicked = RegionLayout::check(&first, region_bytes(4)).unwrap();
        assert_eq!(kicked.host_features, 1 | 1 << 5);
        offer_events(&mut first, &offered, &[], ServedAt::Kick).unwrap();
        assert_eq!(RegionLayout::check(&first, region_bytes(4)), Ok(layout));
        assert_eq!(read_field!(first, u16, paracord_header, event_count), 0);
        assert_eq!(first[..40], empty[..40]);
    }

    #[test]
    fn what_cannot_be_offered_changes_nothing() {
        let (mut first, layout) = region(0);
        let before = first;
        let mut refused = |region: &RegionLayout, names: &[&'static str]| {
            let event = |name: &&'static str| EventOffer { name, min_period: 1 };
            let events: Vec<EventOffer<'_>> = names.iter().map(event).collect();
            offer_events(&mut first, region, &events, ServedAt::Kick).unwrap_err()
        };
        assert_eq!(refused(&layout, &["a"; 29]), EventError::Count { found: 29 });
        for name in ["", "a/b", "ä", "has space", "123456789012345678901234"] {
            assert_eq!(refused(&layout, &[name]), EventError::Name { found: name.to_owned() });
        }
        let domains = RegionLayout {
            domain_offset_bytes: 256,
            domain_stride_bytes: 192,
            domain_count: 16,
            ..layout
        };
        let small = RegionLayout { slot_stride_bytes: 128, ..layout };
        for region in [domains, small] {
            assert_eq!(refused(&region, &["cycles"]), EventError::NoRoom);
        }
        assert!(first == before);
    }

    #[test]
    fn a_guests_lines_are_read_whatever_they_hold() {
        let none = PmuAsk::from_bytes(&[0; PMU_GUEST_BYTES]);
        assert_eq!((none.asked, none.read, none.wants[15].event), (0, 0, None));
        let all = PmuAsk::from_bytes(&[0xff; PMU_GUEST_BYTES]);
        let want = CounterWant {
            event: Some(u16::MAX - 1),
            user: true,
            kernel: true,
            period: u64::MAX,
            elapsed: u32::MAX,
        };
        assert_eq!((all.asked, all.read, all.wants), (u32::MAX, u16::MAX, [want; COUNTERS]));
        // The second counter counts in user mode only.
        let mut bytes = [0; PMU_GUEST_BYTES];
        bytes[64 + 16..64 + 32].copy_from_slice(&[7, 0, 0, 0, 0, 0, 0, 0, 3, 0, 1, 0, 9, 0, 0, 0]);
        let want = CounterWant { event: Some(2), user: true, kernel: false, period: 7, elapsed: 9 };
        assert_eq!(PmuAsk::from_bytes(&bytes).wants[1], want);
    }

    #[test]
    fn an_answer_lies_where_the_header_says() {
        let mut answer =
            PmuAnswer { served: 1, refused: 2, service: 7, offered: 8, ..PmuAnswer::default() };
        answer.counters[15] =
            CounterCounts { count: 3, enabled_ns: 4, running_ns: 5, overflows: 6 };
        let bytes = answer.to_bytes();
        assert_eq!(PmuAnswer::from_bytes(&bytes), answer);
        let set: Vec<_> = bytes
            .iter()
            .enumerate()
            .filter(|(_, byte)| **byte != 0)
            .map(|(at, b)| (at, *b))
            .collect();
        let counts = [(544, 3), (552, 4), (560, 5), (568, 6)];
        assert_eq!(set, [&[(0, 1), (4, 2), (8, 7), (16, 8)][..], &counts].concat());
    }

    #[test]
    fn the_events_of_the_header_are_names() {
        let names: Vec<_> = known_events().collect();
        assert_eq!((names[0], names[23], names.len()), ("cycles", "major-faults", 24));
        assert!(names.iter().all(|name| is_name(name)) && names.len() <= 64);
    }
}
