// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! A pool with real software events of the kernel, which every machine has. These tests fail where
//! perf events are forbidden (kernel.perf_event_paranoid above 1, and no CAP_PERFMON).
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use paracord_devices::pmu::{
    Budget, COUNTERS, Call, Error, EventSet, Listener, Mode, Offer, Pool, Quota, Settings, Want,
};

const PAGES: usize = 100;
const PAGE_BYTES: usize = 4096;

fn offer() -> Arc<Offer> {
    Arc::new(Offer::probe(EventSet::ALL))
}

fn pool(offer: &Arc<Offer>, mode: Mode) -> Pool {
    let settings = Settings { mode, ..Settings::default() };
    Pool::new(Arc::clone(offer), Arc::new(Budget::new(unlimited())), settings)
}

fn unlimited() -> Quota {
    Quota { opens_per_sec: u32::MAX, calls_per_sec: Duration::from_secs(1000) }
}

fn want(offer: &Offer, name: &str) -> Want {
    Want { event: offer.find(name).unwrap(), user: true, kernel: true, ..Want::default() }
}

/// Touches this many pages for the first time, which causes as many page faults. The memory is too
/// small for a huge page.
fn touch(pages: usize) {
    // The memory is large, so it comes from mmap(2). It is leaked, because if it were freed, malloc
    // would take the next block of this size from its heap.
    let memory = vec![0_u8; pages * PAGE_BYTES].leak();
    for page in memory.chunks_mut(PAGE_BYTES) {
        page[0] = 1;
    }
}

/// Checks that there were at least this many page faults, and only a few more. Code that runs for
/// the first time also causes page faults.
fn assert_touched(count: u64, pages: usize) {
    let pages = pages as u64;
    assert!((pages..pages + 8).contains(&count), "{count} page faults of {pages} pages");
}

#[test]
fn counts_are_right_and_a_counter_that_is_off_stands_still() {
    let offer = offer();
    for mode in [Mode::Keyed, Mode::Last, Mode::Recreate] {
        let mut pool = pool(&offer, mode);
        touch(PAGES);
        pool.start(0, want(&offer, "page-faults")).unwrap();
        touch(PAGES);
        assert_touched(pool.counts(0).unwrap().count, PAGES);
        pool.stop(0).unwrap();
        let counts = pool.counts(0).unwrap();
        assert_touched(counts.count, PAGES);
        assert!(counts.running_ns > 0 && counts.enabled_ns >= counts.running_ns, "{counts:?}");
        touch(PAGES);
        assert_eq!(pool.counts(0).unwrap(), counts, "{mode:?}");
        // The counter continues from its last count, whichever event serves it.
        pool.start(0, want(&offer, "page-faults")).unwrap();
        touch(PAGES);
        assert_touched(pool.counts(0).unwrap().count, counts.count as usize + PAGES);
    }
}

#[test]
fn an_event_used_again_keeps_its_counters_apart() {
    let offer = offer();
    let mut pool = pool(&offer, Mode::Keyed);
    touch(PAGES);
    pool.start(3, want(&offer, "page-faults")).unwrap();
    touch(PAGES);
    pool.stop(3).unwrap();
    let first = pool.counts(3).unwrap();
    pool.start(5, want(&offer, "page-faults")).unwrap();
    touch(2 * PAGES);
    pool.stop(5).unwrap();
    assert_touched(pool.counts(5).unwrap().count, 2 * PAGES);
    assert_eq!(pool.counts(3).unwrap(), first);
    assert_eq!((pool.stats().openings, pool.stats().reuses), (1, 1));
}

#[test]
fn context_switches_and_time_are_counted() {
    let offer = offer();
    let mut pool = pool(&offer, Mode::Keyed);
    pool.start(0, want(&offer, "context-switches")).unwrap();
    pool.start(1, want(&offer, "task-clock")).unwrap();
    (0..10).for_each(|_| std::thread::sleep(Duration::from_millis(1)));
    while pool.counts(1).unwrap().count < 2_000_000 {}
    pool.stop(0).unwrap();
    pool.stop(1).unwrap();
    assert!(pool.counts(0).unwrap().count >= 10);
    let clock = pool.counts(1).unwrap();
    assert!(clock.count >= 2_000_000 && clock.enabled_ns >= clock.running_ns, "{clock:?}");
}

/// Guards keyed mode: a rotation of more configurations than counters opens each event once,
/// whichever counter uses it next.
#[test]
fn a_rotation_opens_nothing_in_keyed_mode() {
    let offer = offer();
    let wants: Vec<Want> = ["task-clock", "cpu-clock", "page-faults"]
        .iter()
        .flat_map(|name| {
            let want = Want { period: 1 << 40, ..want(&offer, name) };
            [want, Want { user: false, ..want }, Want { kernel: false, ..want }]
        })
        .chain([want(&offer, "task-clock")])
        .collect();
    assert_eq!(wants.len(), 10);
    for (mode, openings) in [(Mode::Keyed, 10), (Mode::Last, 200), (Mode::Recreate, 200)] {
        let mut pool = pool(&offer, mode);
        for turn in 0..200_usize {
            pool.start(turn as u32 % 4, wants[turn % 10]).unwrap();
            if turn % 3 == 0 {
                pool.end_slice();
            }
        }
        let stats = pool.stats();
        assert_eq!((stats.openings, stats.cold_openings), (openings, 0), "{mode:?}");
        assert_eq!(stats.openings + stats.reuses, 200);
    }
}

/// Guards lazy release, and the rule that the last event stays open.
#[test]
fn what_nobody_asks_for_is_closed_but_the_last_one() {
    let offer = offer();
    let mut pool = pool(&offer, Mode::Keyed);
    for (counter, name) in ["task-clock", "cpu-clock", "page-faults"].iter().enumerate() {
        pool.start(counter as u32, want(&offer, name)).unwrap();
        pool.stop(counter as u32).unwrap();
    }
    (0..100).for_each(|_| pool.end_slice());
    assert_eq!((pool.stats().openings, pool.stats().closings), (3, 2));
    pool.start(0, want(&offer, "page-faults")).unwrap();
    pool.start(1, want(&offer, "task-clock")).unwrap();
    assert_eq!((pool.stats().openings, pool.stats().cold_openings), (4, 0));
}

#[test]
fn a_guest_may_ask_for_anything() {
    let offer = offer();
    let mut pool = pool(&offer, Mode::Keyed);
    let clock = want(&offer, "task-clock");
    for counter in [COUNTERS, u32::MAX] {
        assert_eq!(pool.start(counter, clock), Err(Error::NoSuchCounter(counter)));
        assert_eq!(pool.stop(counter), Err(Error::NoSuchCounter(counter)));
        assert_eq!(pool.counts(counter), Err(Error::NoSuchCounter(counter)));
    }
    let none = Want { event: u32::MAX, ..clock };
    assert_eq!(pool.start(0, none), Err(Error::NoSuchEvent(u32::MAX)));
    let long = Want { period: u64::MAX, ..clock };
    assert_eq!(pool.start(0, long), Err(Error::Period(u64::MAX)));
    assert_eq!(pool.stop(0), Ok(()), "the counter was never on");
    pool.start(0, Want { period: u64::MAX >> 1, ..clock }).unwrap();
    pool.start(1, Want { user: false, kernel: false, ..clock }).unwrap();
    assert_eq!((pool.stats().refusals, pool.stats().openings), (4, 2));
}

#[test]
fn a_budget_refuses_openings_first() {
    let offer = offer();
    let quota = Quota { opens_per_sec: 10, ..unlimited() };
    let budget = Arc::new(Budget::new(quota));
    let mut pool = Pool::new(Arc::clone(&offer), budget, Settings::default());
    pool.start(0, want(&offer, "task-clock")).unwrap();
    // One opening per tenth of a second is allowed. A slow machine may reach the next tenth, which
    // allows one more.
    let second = pool.start(1, want(&offer, "cpu-clock"));
    let third = pool.start(2, want(&offer, "page-faults"));
    assert!(second == Err(Error::Budget) || third == Err(Error::Budget), "{second:?} {third:?}");
    // Open events can still serve counters.
    pool.start(0, want(&offer, "task-clock")).unwrap();

    let none = Arc::new(Budget::new(Quota { calls_per_sec: Duration::ZERO, ..quota }));
    let mut pool = Pool::new(Arc::clone(&offer), none, Settings::default());
    assert_eq!(pool.start(0, want(&offer, "task-clock")), Err(Error::Budget));
}

#[test]
fn another_threads_events_are_its_own() {
    let offer = offer();
    let (tell, told) = std::sync::mpsc::channel();
    let (go, gone) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        touch(PAGES);
        tell.send(rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()).unwrap();
        gone.recv().unwrap();
        touch(PAGES);
    });
    let tid = told.recv().unwrap();
    let budget = Arc::new(Budget::default());
    let listener = Listener::Thread(tid);
    let mut pool = Pool::of_thread(tid, listener, Arc::clone(&offer), budget, Settings::default());
    pool.start(0, want(&offer, "page-faults")).unwrap();
    touch(10 * PAGES);
    go.send(()).unwrap();
    thread.join().unwrap();
    assert_touched(pool.counts(0).unwrap().count, PAGES);
    pool.stop(0).unwrap();
    // The thread has ended. The pool gets no new events, and nothing worse happens.
    match pool.start(1, want(&offer, "cpu-clock")) {
        Err(Error::Host { event: "cpu-clock", call: Call::Open, refusal }) => {
            assert!(refusal.to_string().contains("thread has ended"), "{refusal}");
        }
        other => panic!("{other:?}"),
    }
}
