// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The events that perf knows by name, and the set of them that guests may count. The set does not
//! depend on the host.

use std::fmt;
use std::str::FromStr;

use paracord_sys::perf::kind;

/// An event that perf knows by name: its type and configuration.
pub(super) struct Known {
    pub(super) name: &'static str,
    pub(super) kind: u32,
    pub(super) config: u64,
}

const fn hardware(name: &'static str, config: u64) -> Known {
    Known { name, kind: kind::HARDWARE, config }
}

const fn software(name: &'static str, config: u64) -> Known {
    Known { name, kind: kind::SOFTWARE, config }
}

/// Reads of a cache (PERF_COUNT_HW_CACHE_OP_READ), or only the reads that miss.
const fn cache(name: &'static str, cache: u64, misses: bool) -> Known {
    Known { name, kind: kind::HW_CACHE, config: cache | (misses as u64) << 16 }
}

/// From `enum perf_hw_id`, `perf_hw_cache_id` and `perf_sw_ids` of include/uapi/linux/perf_event.h.
pub(super) const KNOWN: [Known; 24] = [
    hardware("cycles", 0),
    hardware("instructions", 1),
    hardware("cache-references", 2),
    hardware("cache-misses", 3),
    hardware("branches", 4),
    hardware("branch-misses", 5),
    hardware("bus-cycles", 6),
    hardware("stalled-cycles-frontend", 7),
    hardware("stalled-cycles-backend", 8),
    hardware("ref-cycles", 9),
    cache("L1-dcache-loads", 0, false),
    cache("L1-dcache-load-misses", 0, true),
    cache("L1-icache-load-misses", 1, true),
    cache("LLC-loads", 2, false),
    cache("LLC-load-misses", 2, true),
    cache("dTLB-loads", 3, false),
    cache("dTLB-load-misses", 3, true),
    cache("iTLB-load-misses", 4, true),
    software("cpu-clock", 0),
    software("task-clock", 1),
    software("page-faults", 2),
    software("context-switches", 3),
    software("cpu-migrations", 4),
    software("major-faults", 6),
];

/// A set of the events that perf knows by name. Its text form is their names separated by commas,
/// or `all`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventSet(u32);

const _: () = assert!(KNOWN.len() < u32::BITS as usize);

impl EventSet {
    /// All events.
    pub const ALL: EventSet = EventSet((1 << KNOWN.len()) - 1);

    /// Whether the set contains the event with this index in [`KNOWN`].
    pub(super) fn contains(self, number: usize) -> bool {
        self.0 & 1 << number != 0
    }
}

impl Default for EventSet {
    fn default() -> EventSet {
        EventSet::ALL
    }
}

/// A name that is not the name of any event in [`KNOWN`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{found:?} is not an event: write all, or some of {}", names(EventSet::ALL))]
pub struct UnknownEvent {
    /// The name that was given.
    pub found: String,
}

fn names(set: EventSet) -> String {
    let held = KNOWN.iter().enumerate().filter(|(number, _)| set.contains(*number));
    held.map(|(_, known)| known.name).collect::<Vec<_>>().join(",")
}

impl FromStr for EventSet {
    type Err = UnknownEvent;

    fn from_str(text: &str) -> Result<EventSet, UnknownEvent> {
        if text == "all" {
            return Ok(EventSet::ALL);
        }
        let mut set = EventSet(0);
        for name in text.split(',').map(str::trim) {
            let number = KNOWN.iter().position(|known| known.name == name);
            set.0 |= 1 << number.ok_or_else(|| UnknownEvent { found: name.to_owned() })?;
        }
        Ok(set)
    }
}

impl fmt::Display for EventSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == EventSet::ALL { f.write_str("all") } else { f.write_str(&names(*self)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_set_are_the_same() {
        let set: EventSet = "task-clock, cycles".parse().unwrap();
        assert_eq!(set.to_string(), "cycles,task-clock");
        assert_eq!(set.to_string().parse(), Ok(set));
        assert_eq!("all".parse(), Ok(EventSet::ALL));
        assert_eq!(EventSet::ALL.to_string(), "all");
        assert_eq!(names(EventSet::ALL).parse(), Ok(EventSet::ALL));
        for bad in ["", "cycles,", "Cycles", "cycles,all"] {
            let error = bad.parse::<EventSet>().unwrap_err().to_string();
            assert!(error.contains("is not an event: write all, or some of cycles,"), "{error}");
        }
    }
}
