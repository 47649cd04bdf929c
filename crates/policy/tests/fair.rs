// SPDX-License-Identifier: GPL-2.0-only
//! Virtual time: tasks get shares by weight, and their credit is limited.

use paracord_policy::balance::weight;
use paracord_policy::fair::{
    batches, forgive, group_factor, in_group, inverse, may_be_called, place, preempts, rescale,
    slice_ns, virtual_ns,
};
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const SLICE_NS: u32 = 2_800_000;
const SLICE: u64 = SLICE_NS as u64;
/// Some weights of sched_prio_to_weight (kernel/sched/core.c), including both ends.
const WEIGHTS: [(i32, f64); 5] =
    [(-20, 88761.0), (-10, 9548.0), (0, 1024.0), (10, 110.0), (19, 15.0)];

fn shares(nice: &[i32], slices: usize) -> Vec<f64> {
    shares_of(&nice.iter().map(|nice| inverse(*nice)).collect::<Vec<_>>(), slices)
}

/// Shares of CPU time of tasks that want to run all the time. In each of `slices` slices, the task
/// with the least virtual time runs.
fn shares_of(inverses: &[u32], slices: usize) -> Vec<f64> {
    let mut vtime = vec![0u64; inverses.len()];
    let mut ran = vec![0u64; inverses.len()];
    for _ in 0..slices {
        let next = (0..inverses.len()).min_by_key(|&n| vtime[n]).unwrap_or(0);
        vtime[next] += virtual_ns(SLICE, inverses[next]);
        ran[next] += SLICE;
    }
    let total: u64 = ran.iter().sum();
    ran.iter().map(|&ns| ns as f64 / total as f64).collect()
}

#[test]
fn shares_are_the_weights() {
    for (nice, weight) in WEIGHTS {
        for (other, other_weight) in WEIGHTS {
            let share = shares(&[nice, other], 200_000)[0];
            let expected = weight / (weight + other_weight);
            assert!((share - expected).abs() < 0.001, "nice {nice} beside {other}: {share}");
        }
    }
}

/// Two groups have the weights 100 and 300. The first group contains three tasks. The second group
/// contains one task and a subgroup with two tasks. One more task is in no group.
#[test]
fn groups_share_by_their_weights_whatever_is_in_them() {
    const ONE: u64 = 1 << 20;
    let first = group_factor(ONE, 3 * 1024, 100);
    // The second group contains a task with nice 0 and a group of weight 100, with a weight of 1024
    // each.
    let second = group_factor(ONE, 2 * 1024, 300);
    let inner = group_factor(second, 2 * 1024, 100);
    let inverses: Vec<u32> = [first, first, first, second, inner, inner, ONE]
        .into_iter()
        .map(|factor| in_group(inverse(0), factor))
        .collect();
    let got = shares_of(&inverses, 200_000);
    let expected = [1.0 / 15.0, 1.0 / 15.0, 1.0 / 15.0, 0.3, 0.15, 0.15, 0.2];
    for (got, expected) in got.iter().zip(expected) {
        assert!((got - expected).abs() < 0.002, "{got} instead of {expected}");
    }
}

#[test]
fn levels_beyond_the_table_are_its_ends() {
    assert_eq!(inverse(i32::MIN), inverse(-20));
    assert_eq!(inverse(i32::MAX), inverse(19));
}

#[test]
fn slices_are_the_kernels() {
    let slices = [1, 2, 3, 4, 7, 8, 9, 256].map(slice_ns);
    assert_eq!(slices, [700, 1400, 1400, 2100, 2100, 2800, 2800, 2800].map(|us| us * 1000));
}

#[test]
fn a_long_sleep_is_worth_one_slice() {
    let base = 1_000_000 * MS;
    let place = |vtime, base| place(vtime, base, SLICE_NS);
    assert_eq!(place(0, base), base - SLICE);
    assert_eq!(place(base - MS, base), base - MS);
    assert_eq!(place(base + MS, base), base + MS);
    // Virtual times wrap around.
    assert_eq!(place(u64::MAX - MS, MS), u64::MAX - MS);
}

/// Guards against the wrap-around of virtual time: at the lowest weight, the sign of a difference
/// changes after a day and a half of running. Without this guard, a task that has slept for longer
/// than that would run last.
#[test]
fn a_sleep_so_long_that_numbers_come_around_is_worth_one_slice() {
    for slept in [1 << 53, 1 << 62, (1 << 63) + 1, u64::MAX - (1 << 53)] {
        let base = 1000 * MS;
        assert_eq!(place(base.wrapping_sub(slept), base, SLICE_NS), base - SLICE, "{slept}");
    }
}

#[test]
fn a_debt_is_the_same_time_at_another_weight() {
    let base = u64::MAX - MS;
    let (light, heavy) = (inverse(19), inverse(-10));
    let debt = |ms: u64, own| base.wrapping_add(virtual_ns(ms * MS, own));
    for (before, after) in [(light, heavy), (heavy, light)] {
        let off = rescale(debt(40, before), base, before, after).wrapping_sub(debt(40, after));
        assert!((off as i64).abs() < virtual_ns(MS / 10, after) as i64, "{off}");
    }
    assert_eq!(
        rescale(base - MS, base, light, heavy),
        base - MS,
        "a task with credit keeps its virtual time"
    );
    let most = rescale(debt(4000, 1 << 31), base, 1 << 31, u32::MAX).wrapping_sub(base);
    assert!(most <= virtual_ns(4400 * MS, u32::MAX), "{most}");
}

/// Guards the limit of the debt after a boost: the task owes at most one slice of virtual time,
/// because boosted time is already charged to budgets. Without the limit, a task that ran boosted
/// for one second would have to wait at its next wakeup.
#[test]
fn a_boost_leaves_a_debt_of_a_slice_at_most() {
    let slice = slice_ns(2);
    let base = u64::MAX - MS;
    for nice in [-20, 0, 19] {
        let own = inverse(nice);
        let latest = base.wrapping_add(virtual_ns(u64::from(slice), own));
        let after = base.wrapping_add(virtual_ns(1000 * MS, own));
        assert_eq!(forgive(after, base, own, slice), latest, "nice {nice}");
        assert_eq!(forgive(base, base, own, slice), base);
    }
}

/// Guards directed yields to a vCPU whose boost has just ended: vCPUs that wait for it must be able
/// to yield to it. But what such yields add to its share is limited to a slice.
#[test]
fn a_vcpu_can_be_called_right_after_its_boost_and_for_a_slice_more() {
    let slice = slice_ns(2);
    let base = u64::MAX - MS;
    for nice in [-20, 0, 19] {
        let own = inverse(nice);
        let after = base.wrapping_add(virtual_ns(1000 * MS, own));
        let forgiven = forgive(after, base, own, slice);
        let later = |ran_ns| forgiven.wrapping_add(virtual_ns(ran_ns, own));
        assert!(may_be_called(forgiven, base, own, slice), "nice {nice}");
        assert!(may_be_called(later(u64::from(slice) / 2), base, own, slice), "nice {nice}");
        assert!(!may_be_called(later(u64::from(slice) + MS), base, own, slice), "nice {nice}");
    }
}

#[test]
fn who_wakes_preempts_what_is_well_ahead_only() {
    let now = 1000 * MS;
    assert!(preempts(now - SLICE - MS, inverse(0), now, SLICE_NS));
    assert!(!preempts(now - SLICE, inverse(0), now, SLICE_NS));
    // For a light task, the same slice is more virtual time.
    assert!(!preempts(now - SLICE - MS, inverse(10), now, SLICE_NS));
}

#[test]
fn who_wakes_its_equals_has_half_a_millisecond_for_more() {
    let equal = inverse(0);
    assert!(batches(MS / 2 - 1, equal, equal));
    assert!(batches(0, inverse(5), equal));
    assert!(!batches(MS / 2, equal, equal));
    assert!(!batches(0, inverse(-5), equal));
}

/// Together, 192 tasks in a group with cpu.idle have the weight 3. A single task in such a group
/// has the same weight.
#[test]
fn many_tasks_of_an_idle_group_weigh_what_one_does() {
    const ONE: u64 = 1 << 20;
    let alone = in_group(inverse(0), group_factor(ONE, 1024, 0));
    let crowd = in_group(inverse(0), group_factor(ONE, 192 * 1024, 0));
    let together = 192.0 * f64::from(weight(crowd)) / f64::from(weight(alone));
    assert!((together - 1.0).abs() < 0.02, "{together}");
}

proptest! {
    /// A longer running time is more virtual time, at any weight, without wrapping around.
    #[test]
    fn virtual_time_grows(ran in 0u64..10_000 * MS, more in 0u64..10_000 * MS, nice in -25i32..25) {
        let own = inverse(nice);
        prop_assert!(virtual_ns(ran + more, own) >= virtual_ns(ran, own));
        prop_assert!(virtual_ns(u64::MAX, own) < 1 << 62);
    }

    /// Any sums and weights give a usable factor.
    #[test]
    fn groups_survive_garbage(parents: u64, active: i64, weight: u32, any: u32) {
        let factor = group_factor(parents, active, weight);
        prop_assert!(factor >= 1);
        prop_assert!(in_group(any, factor) >= 1);
    }
}
