// SPDX-License-Identifier: GPL-2.0-only
//! Invariants of the pool of perf events, which hold after any sequence of operations. The property
//! tests and the fuzz target share this check.

use crate::pmu::{Allowed, Give, Mode, Pool, Refusal, Take};
use crate::{PC_PMU_COUNTERS, PC_PMU_EVENTS, pc_pmu_key};

const EVENTS: usize = PC_PMU_EVENTS as usize;

/// The events that are open on the host if every decision is carried out: the key of each, and the
/// counter that holds it.
type Host = [Option<(pc_pmu_key, Option<u32>)>; EVENTS];

/// Carries out the operations that `bytes` describes, two bytes per operation. Checks the result of
/// each operation against the events that are open on the host.
///
/// # Panics
/// If an operation breaks an invariant.
pub fn check(mode: Mode, release_slices: u32, bytes: &[u8]) {
    let mut pool = Pool::new(mode, release_slices);
    let mut host: Host = [None; EVENTS];
    for pair in bytes.chunks_exact(2) {
        let (what, which) = (pair[0], pair[1]);
        // The indices include some beyond the last counter.
        let counter = u32::from(which) % (PC_PMU_COUNTERS + 2);
        match what % 8 {
            0..=3 => take(&mut pool, &mut host, counter, what),
            4 | 5 => give(&mut pool, &mut host, mode, counter),
            6 => end_slice(&mut pool, &mut host),
            _ => {
                let event = usize::from(which) % (EVENTS + 2);
                pool.forget(event);
                if let Some(place) = host.get_mut(event) {
                    *place = None;
                }
            }
        }
        same(&pool, &host);
    }
}

fn take(pool: &mut Pool, host: &mut Host, counter: u32, what: u8) {
    let allowed = match what % 4 {
        0 => Allowed::Nothing,
        1 => Allowed::Reuse,
        _ => Allowed::Open,
    };
    // There are more keys than places.
    let key = pc_pmu_key { config: u64::from(what / 4), type_: 1, flags: 0 };
    let had = host.iter().flatten().find(|(_, by)| *by == Some(counter)).map(|(key, _)| *key);
    match pool.take(counter, &key, allowed) {
        Ok(Take::Use(event)) => {
            let (open, by) = host[event].expect("used while open");
            assert_eq!(open, key, "has the key asked for");
            assert!(by.is_none() || by == Some(counter), "no other counter has it");
            host[event] = Some((key, Some(counter)));
        }
        Ok(Take::Open(event)) => {
            assert!(allowed == Allowed::Open && host[event].is_none(), "the place is free");
            host[event] = Some((key, Some(counter)));
        }
        Ok(Take::Replace(event)) => {
            let (_, by) = host[event].expect("replaced while open");
            assert!(allowed == Allowed::Open && by.is_none(), "no counter has it");
            host[event] = Some((key, Some(counter)));
        }
        Err(Refusal::NoSuchCounter) => assert!(counter >= PC_PMU_COUNTERS),
        Err(Refusal::NoBudget) => assert!(allowed < Allowed::Open),
        Err(Refusal::Busy) => assert!(had.is_some_and(|had| had != key)),
        Err(Refusal::NoPlace) => panic!("there are more events than counters"),
    }
}

fn give(pool: &mut Pool, host: &mut Host, mode: Mode, counter: u32) {
    let has = host.iter().position(|place| matches!(place, Some((_, Some(by))) if *by == counter));
    match (pool.give(counter), has) {
        (Give::Nothing, None) => {}
        (Give::Pause(event), Some(has)) if event == has => {
            assert_ne!(mode, Mode::Recreate);
            if let Some((_, by)) = &mut host[event] {
                *by = None;
            }
        }
        (Give::Close(event), Some(has)) if event == has => {
            assert_eq!(mode, Mode::Recreate);
            host[event] = None;
        }
        wrong => panic!("given back: {wrong:?}"),
    }
}

fn end_slice(pool: &mut Pool, host: &mut Host) {
    let was_open = host.iter().flatten().count();
    for event in pool.end_slice() {
        let (_, by) = host[event].take().expect("closed while open");
        assert_eq!(by, None, "a counter has it");
    }
    assert!(was_open == 0 || host.iter().flatten().count() > 0, "the last one stays");
}

/// Checks that the pool's state matches the open events, and that no counter has two events.
fn same(pool: &Pool, host: &Host) {
    let mut seen = 0_u32;
    for (event, open) in pool.state().event.iter().zip(host) {
        let counter = u32::from(event.counter).checked_sub(1);
        assert_eq!((event.open != 0).then_some((event.key, counter)), *open);
        if let Some(counter) = counter {
            assert_eq!(seen & 1 << counter, 0, "counter {counter} has two events");
            seen |= 1 << counter;
        }
    }
}
