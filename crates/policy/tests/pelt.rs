// SPDX-License-Identifier: GPL-2.0-only
//! Compares load tracking with the results of the kernel's arithmetic (kernel/sched/pelt.c).

use paracord_policy::{
    pc_pelt,
    pelt::{decay, update},
};
use proptest::prelude::*;

/// A period: 1024 units of 1024 ns.
const PERIOD: u64 = 1024 * 1024;
const MS: u64 = 1_000_000;

fn run(pelt: &mut pc_pelt, ns: u64, running: bool) {
    let now = pelt.last_ns + ns;
    update(pelt, now, running);
}

#[test]
fn a_task_that_always_runs() {
    let expected = [
        (1, 21),
        (2, 43),
        (4, 85),
        (8, 163),
        (16, 300),
        (32, 512),
        (64, 768),
        (96, 896),
        (128, 960),
    ];
    let mut pelt = pc_pelt::default();
    let mut seen = Vec::new();
    for period in 1..=128 {
        run(&mut pelt, PERIOD, true);
        seen.push((period, pelt.util_avg));
    }
    for pair in expected {
        assert!(seen.contains(&pair), "{pair:?} is not in {seen:?}");
    }
}

#[test]
fn one_jump_is_as_good_as_many_steps() {
    let mut pelt = pc_pelt::default();
    run(&mut pelt, 345 * PERIOD, true);
    assert_eq!(pelt.util_avg, 1023);
    let mut pelt = pc_pelt::default();
    run(&mut pelt, 32 * PERIOD, true);
    assert_eq!(pelt.util_sum, 23_919_616);
}

/// Highest and lowest utilisation of a task that alternately runs for `on` and sleeps for `off`.
fn swing(on: u64, off: u64) -> (u32, u32) {
    let mut pelt = pc_pelt::default();
    let mut peak = 0;
    for _ in 0..200 {
        run(&mut pelt, on, true);
        peak = pelt.util_avg;
        run(&mut pelt, off, false);
    }
    (peak, pelt.util_avg)
}

#[test]
fn a_task_that_runs_at_times() {
    assert_eq!(swing(4 * MS, 6 * MS), (435, 384));
    assert_eq!(swing(66 * MS, 100 * MS), (787, 99));
}

#[test]
fn decay_halves_in_32_periods_and_ends() {
    assert_eq!(decay(1 << 20, 32), (1 << 19) - 1); // y^0 in the table is slightly below 1
    assert_eq!(decay(47742, 0), 47741);
    assert_eq!(decay(u64::from(u32::MAX), 32 * 63), 0);
    assert_eq!(decay(u64::from(u32::MAX), u64::MAX), 0);
}

#[test]
fn a_clock_that_goes_back_starts_anew() {
    let mut pelt = pc_pelt { last_ns: 100 * PERIOD, ..pc_pelt::default() };
    assert!(!update(&mut pelt, PERIOD, true));
    assert_eq!(pelt.last_ns, PERIOD);
    assert!(update(&mut pelt, 2 * PERIOD, true));
    assert_eq!(pelt.util_avg, 21);
}

proptest! {
    /// Whatever a task does, its utilisation is at most 1024. While it does not run, its sum never
    /// rises. (The average may rise later, because it is computed when a period ends.)
    #[test]
    fn utilisation_is_a_share(steps in prop::collection::vec((1u64..400 * MS, any::<bool>()), 1..60)) {
        let mut pelt = pc_pelt::default();
        for (ns, running) in steps {
            let before = pelt.util_sum;
            run(&mut pelt, ns, running);
            prop_assert!(pelt.util_avg <= 1024);
            prop_assert!(running || pelt.util_sum <= before);
        }
    }

    /// The functions accept any bytes.
    #[test]
    fn garbage_is_survived(last_ns: u64, util_sum: u32, util_avg: u32, period_units: u32, now: u64, running: bool) {
        let mut pelt = pc_pelt { last_ns, util_sum, util_avg, period_units, reserved: 0 };
        update(&mut pelt, now, running);
    }
}
