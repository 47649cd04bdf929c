// SPDX-License-Identifier: GPL-2.0-only
//! Which event serves which counter: cases for each rule, and invariants over any sequence.
#![allow(clippy::unwrap_used)]

use paracord_policy::pmu::{
    Allowed, Budget, Give, Mode, Pool, Refusal, Take, default_quota, default_release_slices,
};
use paracord_policy::{
    PC_PMU_COUNTERS, PC_PMU_EVENTS, pc_pmu_event, pc_pmu_key, pc_pmu_pool, pc_pmu_quota,
    pmu_invariants,
};
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const SEC: u64 = 1_000 * MS;

fn key(config: u64) -> pc_pmu_key {
    pc_pmu_key { config, type_: 0, flags: 0 }
}

/// An operation, and the expected answer of the pool.
#[derive(Clone, Copy)]
enum Op {
    Takes(u32, u64, Result<Take, Refusal>),
    /// Like `Takes`, but the first field says what the budget allows.
    Within(Allowed, u32, u64, Result<Take, Refusal>),
    Gives(u32, Give),
    /// A slice ends, and these events are closed.
    EndSlice(&'static [usize]),
    Forget(usize),
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn each_rule_of_the_pool() {
    use Op::*;
    let cases: [(&str, Mode, u32, &[Op]); 14] = [
        (
            "another counter uses the same key",
            Mode::Keyed,
            1,
            &[
                Takes(0, 7, Ok(Take::Open(0))),
                Gives(0, Give::Pause(0)),
                Takes(3, 7, Ok(Take::Use(0))),
            ],
        ),
        (
            "an event that one counter holds is not given to another",
            Mode::Keyed,
            1,
            &[Takes(0, 7, Ok(Take::Open(0))), Takes(1, 7, Ok(Take::Open(1)))],
        ),
        (
            "of two events with the key, the one used last",
            Mode::Keyed,
            1,
            &[
                Takes(0, 7, Ok(Take::Open(0))),
                Takes(1, 7, Ok(Take::Open(1))),
                Gives(1, Give::Pause(1)),
                Gives(0, Give::Pause(0)),
                Takes(2, 7, Ok(Take::Use(0))),
            ],
        ),
        (
            "the same key gives the same event; before another key, the event must be given back",
            Mode::Keyed,
            1,
            &[
                Takes(0, 7, Ok(Take::Open(0))),
                Takes(0, 7, Ok(Take::Use(0))),
                Takes(0, 8, Err(Refusal::Busy)),
            ],
        ),
        (
            "a counter beyond the last one",
            Mode::Keyed,
            1,
            &[
                Takes(PC_PMU_COUNTERS, 7, Err(Refusal::NoSuchCounter)),
                Takes(u32::MAX, 7, Err(Refusal::NoSuchCounter)),
                Gives(PC_PMU_COUNTERS, Give::Nothing),
                Gives(u32::MAX, Give::Nothing),
            ],
        ),
        (
            "there is no event to give back",
            Mode::Keyed,
            1,
            &[
                Gives(0, Give::Nothing),
                Takes(0, 7, Ok(Take::Open(0))),
                Gives(0, Give::Pause(0)),
                Gives(0, Give::Nothing),
            ],
        ),
        (
            "idle for more than one slice",
            Mode::Keyed,
            1,
            &[
                Takes(0, 7, Ok(Take::Open(0))),
                Takes(1, 8, Ok(Take::Open(1))),
                Gives(0, Give::Pause(0)),
                EndSlice(&[]),
                EndSlice(&[0]),
                EndSlice(&[]),
                Takes(0, 7, Ok(Take::Open(0))),
            ],
        ),
        (
            "used during the slice",
            Mode::Keyed,
            1,
            &[
                Takes(0, 7, Ok(Take::Open(0))),
                Takes(1, 8, Ok(Take::Open(1))),
                Gives(0, Give::Pause(0)),
                EndSlice(&[]),
                Takes(2, 7, Ok(Take::Use(0))),
                Gives(2, Give::Pause(0)),
                EndSlice(&[]),
                EndSlice(&[0]),
            ],
        ),
        (
            "of idle events, only the one used last stays",
            Mode::Keyed,
            1,
            &[
                Takes(0, 7, Ok(Take::Open(0))),
                Takes(1, 8, Ok(Take::Open(1))),
                Gives(1, Give::Pause(1)),
                Gives(0, Give::Pause(0)),
                EndSlice(&[]),
                EndSlice(&[1]),
                EndSlice(&[]),
                Takes(1, 7, Ok(Take::Use(0))),
            ],
        ),
        (
            "without lazy release",
            Mode::Keyed,
            0,
            &[
                Takes(0, 7, Ok(Take::Open(0))),
                Takes(1, 8, Ok(Take::Open(1))),
                Gives(0, Give::Pause(0)),
                EndSlice(&[]),
                EndSlice(&[]),
                EndSlice(&[]),
            ],
        ),
        (
            "mode last: the counter's own event, or a new one in its place",
            Mode::Last,
            1,
            &[
                Takes(0, 7, Ok(Take::Open(0))),
                Gives(0, Give::Pause(0)),
                Takes(1, 7, Ok(Take::Open(1))),
                Takes(0, 7, Ok(Take::Use(0))),
                Gives(0, Give::Pause(0)),
                Takes(0, 8, Ok(Take::Replace(0))),
            ],
        ),
        (
            "mode recreate: closed when given back",
            Mode::Recreate,
            1,
            &[
                Takes(0, 7, Ok(Take::Open(0))),
                Gives(0, Give::Close(0)),
                Takes(0, 7, Ok(Take::Open(0))),
            ],
        ),
        (
            "near the end of the budget, only open events; then none",
            Mode::Keyed,
            1,
            &[
                Takes(0, 7, Ok(Take::Open(0))),
                Gives(0, Give::Pause(0)),
                Within(Allowed::Reuse, 0, 8, Err(Refusal::NoBudget)),
                Within(Allowed::Reuse, 0, 7, Ok(Take::Use(0))),
                Gives(0, Give::Pause(0)),
                Within(Allowed::Nothing, 0, 7, Err(Refusal::NoBudget)),
            ],
        ),
        (
            "an event that could not be opened",
            Mode::Keyed,
            1,
            &[
                Takes(0, 7, Ok(Take::Open(0))),
                Forget(0),
                Gives(0, Give::Nothing),
                Takes(0, 7, Ok(Take::Open(0))),
                Forget(99),
            ],
        ),
    ];
    for (name, mode, release_slices, ops) in cases {
        let mut pool = Pool::new(mode, release_slices);
        for (n, op) in ops.iter().enumerate() {
            match *op {
                Takes(counter, config, says) => {
                    assert_eq!(
                        pool.take(counter, &key(config), Allowed::Open),
                        says,
                        "{name}, {n}"
                    );
                }
                Within(allowed, counter, config, says) => {
                    assert_eq!(pool.take(counter, &key(config), allowed), says, "{name}, {n}");
                }
                Gives(counter, says) => assert_eq!(pool.give(counter), says, "{name}, {n}"),
                EndSlice(closed) => {
                    assert_eq!(pool.end_slice().collect::<Vec<_>>(), closed, "{name}, {n}");
                }
                Forget(event) => pool.forget(event),
            }
        }
    }
}

/// Guards the key: events that differ in any part of it are different events.
#[test]
fn a_key_is_all_of_its_parts() {
    let mut pool = Pool::new(Mode::Keyed, 0);
    let keys = [
        pc_pmu_key { config: 1, type_: 0, flags: 0 },
        pc_pmu_key { config: 0, type_: 1, flags: 0 },
        pc_pmu_key { config: 0, type_: 0, flags: 1 },
    ];
    for (place, key) in keys.iter().enumerate() {
        assert_eq!(pool.take(0, key, Allowed::Open), Ok(Take::Open(place)));
        pool.give(0);
    }
}

/// Guards that the least recently used event is replaced first.
#[test]
fn a_full_pool_replaces_what_was_used_longest_ago() {
    let mut pool = Pool::new(Mode::Keyed, 0);
    for config in 0..u64::from(PC_PMU_EVENTS) {
        pool.take(0, &key(config), Allowed::Open).unwrap();
        pool.give(0);
    }
    assert_eq!(pool.take(1, &key(0), Allowed::Open), Ok(Take::Use(0)));
    assert_eq!(pool.take(2, &key(99), Allowed::Open), Ok(Take::Replace(1)));
    assert_eq!(pool.take(3, &key(1), Allowed::Open), Ok(Take::Replace(2)));
}

/// Ten configurations rotate over four counters, as in perf: at each turn, one counter gets the
/// next configuration. Returns the number of openings after the first round. `ends` says after
/// which turns a slice ends.
fn rotation(mode: Mode, release_slices: u32, ends: impl Fn(u64) -> bool) -> u64 {
    let mut pool = Pool::new(mode, release_slices);
    let mut openings = 0;
    for turn in 0..1000 {
        let counter = (turn % 4) as u32;
        pool.give(counter);
        let taken = pool.take(counter, &key(turn % 10), Allowed::Open).unwrap();
        openings += u64::from(turn >= 10 && !matches!(taken, Take::Use(_)));
        if ends(turn) {
            pool.end_slice().for_each(drop);
        }
    }
    openings
}

/// Guards keyed mode: in a rotation, the next configuration of a counter is never the one that the
/// counter had last.
#[test]
fn a_rotation_opens_each_event_once() {
    let never = |_| false;
    assert_eq!(rotation(Mode::Keyed, 0, never), 0);
    assert_eq!(rotation(Mode::Last, 0, never), 990);
    assert_eq!(rotation(Mode::Recreate, 0, never), 990);
}

/// Guards PC_PMU_RELEASE_SLICES, with a turn every 4 ms and slices that end every 10 ms or at each
/// turn. Lazy release after one slice, as in KVM, would close the events that the rotation needs
/// again.
#[test]
fn lazy_release_leaves_a_rotation_alone() {
    let each_10_ms = |turn| turn % 5 == 2 || turn % 5 == 4;
    let each_turn = |_| true;
    assert_eq!(rotation(Mode::Keyed, default_release_slices(), each_10_ms), 0);
    assert_eq!(rotation(Mode::Keyed, default_release_slices(), each_turn), 0);
    assert!(rotation(Mode::Keyed, 1, each_10_ms) > 900);
}

#[test]
fn a_budget_is_for_openings_and_for_time() {
    let quota = pc_pmu_quota { calls_ns_per_sec: 50 * MS, opens_per_sec: 100, reserved: 0 };
    let budget = Budget::new(quota);
    let mut now = 1_000 * SEC;
    // The budget allows 100 openings per second, which are 10 in each tenth of a second.
    for _ in 0..10 {
        assert_eq!(budget.allowed(now), Allowed::Open);
        budget.charge(1, 1);
    }
    assert_eq!(budget.allowed(now), Allowed::Reuse);
    budget.charge(0, 5 * MS);
    assert_eq!(budget.allowed(now + 99 * MS), Allowed::Nothing);
    now += 100 * MS;
    assert_eq!(budget.allowed(now), Allowed::Open);
    // A debt is paid in the following periods.
    budget.charge(0, 14 * MS);
    now += 100 * MS;
    assert_eq!(budget.allowed(now), Allowed::Nothing);
    now += 100 * MS;
    assert_eq!(budget.allowed(now), Allowed::Open);
}

#[test]
fn a_vm_may_have_no_openings_or_no_time_at_all() {
    let none = pc_pmu_quota { opens_per_sec: 0, ..default_quota() };
    assert_eq!(Budget::new(none).allowed(SEC), Allowed::Reuse);
    let none = pc_pmu_quota { calls_ns_per_sec: 0, ..default_quota() };
    assert_eq!(Budget::new(none).allowed(SEC), Allowed::Nothing);
}

fn mode() -> impl Strategy<Value = Mode> {
    prop_oneof![Just(Mode::Keyed), Just(Mode::Last), Just(Mode::Recreate)]
}

proptest! {
    #[test]
    fn any_sequence_keeps_the_invariants(
        mode in mode(),
        release_slices in 0..4_u32,
        bytes in proptest::collection::vec(any::<u8>(), 0..2000),
    ) {
        pmu_invariants::check(mode, release_slices, &bytes);
    }

    /// In any state, the code accesses only memory inside its arrays. The C code is compiled with
    /// -fsanitize=undefined, so any other access would trap.
    #[test]
    fn any_state_is_survived(
        fields in any::<(u32, u32, u64)>(),
        events in proptest::collection::vec(any::<([u8; 4], u64, u32, u64)>(), PC_PMU_EVENTS as usize),
        counter in any::<u32>(),
    ) {
        let mut state = pc_pmu_pool { mode: fields.0, release_slices: fields.1, turn: fields.2, ..Default::default() };
        for (event, ([open, counter, had_by, reserved], turn, idle_slices, config)) in
            state.event.iter_mut().zip(events)
        {
            *event = pc_pmu_event { key: key(config), turn, idle_slices, open, counter, had_by, reserved };
        }
        let mut pool = Pool::from_state(state);
        let counter = counter % (PC_PMU_COUNTERS + 1);
        let _ = pool.take(counter, &key(fields.2), Allowed::Open);
        pool.give(counter);
        pool.end_slice().for_each(drop);
    }

    #[test]
    fn any_budget_is_survived(
        quota in any::<(u64, u32)>(),
        charges in proptest::collection::vec(any::<(u32, u64, u64)>(), 0..20),
    ) {
        let budget = Budget::new(pc_pmu_quota { calls_ns_per_sec: quota.0, opens_per_sec: quota.1, reserved: 0 });
        for (opens, used_ns, now_ns) in charges {
            let _ = budget.allowed(now_ns);
            budget.charge(opens, used_ns);
        }
    }

    /// A guest that opens as many events as it can gets at most the openings of its quota, those of
    /// one more period, and one overrun.
    #[test]
    fn openings_stay_within_the_quota(opens_per_sec in 1..5000_u32, step_us in 1..2000_u64) {
        let budget = Budget::new(pc_pmu_quota { opens_per_sec, ..default_quota() });
        let (mut openings, mut now) = (0, 1_000 * SEC);
        let end = now + SEC;
        while now < end {
            if budget.allowed(now) == Allowed::Open {
                budget.charge(1, 0);
                openings += 1;
            }
            now += step_us * 1000;
        }
        prop_assert!(openings <= opens_per_sec + opens_per_sec / 10 + 2, "{openings} of {opens_per_sec}");
    }
}
