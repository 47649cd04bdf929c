// SPDX-License-Identifier: GPL-2.0-only
//! The CPUs of a core take turns if their tasks have different cookies.

use paracord_policy::balance::weight;
use paracord_policy::core_share::{Core, comes_after};
use paracord_policy::fair::{inverse, virtual_ns};
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const TICK_NS: u64 = 4 * MS;

/// Two CPUs of a core, with one task each.
#[derive(Default)]
struct Pair {
    cores: [Core; 2],
    vtimes: [u64; 2],
    now: u64,
}

impl Pair {
    /// Both CPUs have a task to run. Returns the CPU whose task runs for the next tick.
    fn contend(&mut self, inverses: [u32; 2]) -> usize {
        let [one, other] = &mut self.cores;
        let task = |cpu: usize| (self.vtimes[cpu], inverses[cpu]);
        let runs = usize::from(comes_after(one, task(0), other, task(1), self.now));
        self.run(runs, TICK_NS, inverses);
        runs
    }

    fn run(&mut self, cpu: usize, ns: u64, inverses: [u32; 2]) {
        self.now += ns;
        self.vtimes[cpu] += virtual_ns(ns, inverses[cpu]);
    }

    /// Runs this many ticks. Returns the share of ticks in which the first CPU runs its task.
    fn ticks(&mut self, ticks: u32, inverses: [u32; 2]) -> f64 {
        let first = (0..ticks).filter(|_| self.contend(inverses) == 0).count();
        first as f64 / f64::from(ticks)
    }
}

#[test]
fn a_core_is_shared_by_weights() {
    for nices in [[0, 0], [0, 5], [-10, 0], [10, 0], [19, 0], [19, -20]] {
        let inverses = nices.map(inverse);
        let had = Pair::default().ticks(200_000, inverses);
        let [one, other] = inverses.map(|of| f64::from(weight(of)));
        let due = one / (one + other);
        assert!((had - due).abs() < 0.005, "{nices:?}: {had}, not {due}");
    }
}

#[test]
fn equals_take_turns_tick_by_tick() {
    let mut pair = Pair::default();
    let order: Vec<_> = (0..20).map(|_| pair.contend([inverse(0); 2])).collect();
    assert!(order.windows(2).all(|two| two[0] != two[1]), "{order:?}");
}

/// The past does not count: both CPUs begin equal.
#[test]
fn who_had_the_core_alone_for_long_owes_nothing() {
    let mut pair = Pair::default();
    pair.run(0, 10_000 * MS, [inverse(0); 2]);
    let had = pair.ticks(10, [inverse(0); 2]);
    assert!((had - 0.5).abs() < 0.01, "{had}");
}

/// A task that wakes every 10 ms for a short time saves up no credit.
#[test]
fn short_sleeps_are_no_credit_for_later() {
    let (mut pair, inverses) = (Pair::default(), [inverse(0); 2]);
    for _ in 0..1000 {
        pair.contend(inverses);
        pair.run(1, MS, inverses);
        pair.run(0, 5 * MS, inverses);
    }
    let waits = (0..100).take_while(|_| pair.contend(inverses) == 1).count() as u64 * TICK_NS;
    assert!(waits <= 12 * MS, "{waits}");
}

proptest! {
    /// Whatever the records contain, comparisons in the two directions do not contradict each
    /// other.
    #[test]
    fn order_does_not_depend_on_who_is_asked_first(
        zeros in any::<[u64; 2]>(), compared in any::<[u64; 2]>(), vtimes in any::<[u64; 2]>(),
        inverses in any::<[u32; 2]>(), now in any::<u64>()
    ) {
        let core = |of: usize| Core { zero: zeros[of], compared_ns: compared[of] };
        let (mut one, mut other) = (core(0), core(1));
        let task = |of: usize| (vtimes[of], inverses[of]);
        let after = comes_after(&mut one, task(0), &mut other, task(1), now);
        let before = comes_after(&mut other, task(1), &mut one, task(0), now);
        prop_assert!(!(after && before));
    }
}
