// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Counters of VMs that have ended leave nothing behind. The test is alone in its process, because
//! it would also count the files of other tests.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use paracord_abi::PMU_GUEST_BYTES;
use paracord_devices::pmu::{Area, Budget, EventSet, Mode, Offer, Pool, Quota, Settings};

const VMS: u64 = 1000;
const VCPUS: u64 = 2;
const ASKS: u32 = 6;
const EVENT: &str = "anon_inode:[perf_event]";
/// The offset of the wants, the size of a want, and the offset of the field after its period.
const WANTS_OFFSET: usize = 64;
const WANT_BYTES: usize = 16;
const WANT_EVENT_OFFSET: usize = 8;

#[derive(Debug, PartialEq)]
struct Open {
    files: usize,
    events: usize,
    /// Number of mapped ring buffers. An event whose ring buffer is mapped outlives its file.
    mapped: usize,
}

fn open() -> Open {
    let links: Vec<_> = fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|file| fs::read_link(file.unwrap().path()).ok())
        .collect();
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    Open {
        files: links.len(),
        events: links.iter().filter(|link| link.as_os_str() == EVENT).count(),
        mapped: maps.lines().filter(|line| line.ends_with(EVENT)).count(),
    }
}

/// Random lines of a guest (xorshift). Most of the events that they name exist.
fn random_ask(state: &mut u64, events: u64) -> [u8; PMU_GUEST_BYTES] {
    let mut bytes = [0; PMU_GUEST_BYTES];
    let mut next = || {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state
    };
    for word in bytes.chunks_exact_mut(8) {
        word.copy_from_slice(&next().to_le_bytes());
    }
    for want in bytes[WANTS_OFFSET..].chunks_exact_mut(WANT_BYTES) {
        let random = next();
        if random & 1 != 0 {
            want[..WANT_EVENT_OFFSET].fill(0);
        } else {
            // A period that does not end too soon.
            want[..WANT_EVENT_OFFSET].copy_from_slice(&(1 << 32 | random >> 2).to_le_bytes());
        }
        let event = (random >> 8) % (events + 2);
        want[WANT_EVENT_OFFSET..][..2].copy_from_slice(&(event as u16).to_le_bytes());
    }
    bytes
}

/// Runs the thread of a vCPU from start to end. Returns the number of descriptors and mappings that
/// were open just before the end.
fn live(offer: Arc<Offer>, budget: Arc<Budget>, settings: Settings, seed: u64) -> Open {
    let events = offer.events().count() as u64;
    let mut area = Area::new(Pool::new(offer, budget, settings));
    let mut state = seed;
    for _ in 0..ASKS {
        area.serve(&random_ask(&mut state, events));
        area.overflowed();
        area.end_slice();
    }
    open()
}

#[test]
fn a_thousand_vms_leave_no_event_open() {
    let offer = Arc::new(Offer::probe(EventSet::ALL));
    let calls_per_sec = Duration::from_secs(100);
    let quota = Quota { opens_per_sec: u32::MAX, calls_per_sec };
    let before = open();
    assert_eq!((before.events, before.mapped), (0, 0));
    let mut seen = Open { files: 0, events: 0, mapped: 0 };
    for vm in 0..VMS {
        let mode = [Mode::Keyed, Mode::Last, Mode::Recreate][vm as usize % 3];
        let settings = Settings { mode, ..Settings::default() };
        let budget = Arc::new(Budget::new(quota));
        let vcpus: Vec<_> = (1..=VCPUS)
            .map(|vcpu| {
                let (offer, budget) = (offer.clone(), budget.clone());
                std::thread::spawn(move || live(offer, budget, settings, vm * VCPUS + vcpu))
            })
            .collect();
        for vcpu in vcpus {
            let had = vcpu.join().unwrap();
            seen.events = seen.events.max(had.events);
            seen.mapped = seen.mapped.max(had.mapped);
        }
    }
    assert!(seen.events >= 16 && seen.mapped >= 4, "{seen:?}");
    assert_eq!(open(), before);
}
