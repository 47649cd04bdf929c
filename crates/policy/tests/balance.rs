// SPDX-License-Identifier: GPL-2.0-only
//! Paces of CPUs, and which CPU pulls a task.

use paracord_policy::balance::{cross_every_ns, cross_wait_ns, node_pace, pace, takes, weight};
use paracord_policy::fair::inverse;
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const SLICE_NS: u32 = 1_400_000;
/// Weights are in 64ths (`PC_FINE_SHIFT`).
const FINE: u64 = 64;
const NICE_0: u64 = 1024 * FINE;
/// 2^28 ns.
const TIME_CONSTANT_NS: f64 = 268_435_456.0;

#[test]
fn weights_are_the_kernels() {
    for (nice, kernels) in [(-20, 88761), (-10, 9548), (0, 1024), (10, 110), (19, 15)] {
        let got = i64::from(weight(inverse(nice)));
        let kernels = kernels * FINE as i64;
        assert!((got - kernels).abs() <= kernels / 500, "nice {nice}: {got}, not {kernels}");
    }
    assert_eq!(weight(0), u32::MAX);
}

#[test]
fn a_pace_comes_to_the_rate_times_its_time_constant() {
    for shared in [NICE_0, 2 * NICE_0, 9548 * FINE, 110 * FINE, 3] {
        let settled = (0..2000).fold(0, |now, _| pace(now, 4 * MS, shared));
        let expected = TIME_CONSTANT_NS * NICE_0 as f64 / shared as f64;
        let off = settled as f64 / expected - 1.0;
        assert!(off.abs() < 0.02, "weight {shared}: {settled}, not {expected}");
    }
}

#[test]
fn a_pace_is_forgotten_while_nothing_is_made() {
    let mut now = 1000 * MS;
    for _ in 0..1000 {
        now = pace(now, 4 * MS, 0);
    }
    assert!(now < MS, "{now}");
}

#[test]
fn nobody_takes_from_a_faster_one() {
    assert!(!takes(0, NICE_0, 2 * NICE_0, SLICE_NS));
    assert!(!takes(-1, NICE_0, 2 * NICE_0, SLICE_NS));
    assert!(!takes(i64::MAX, NICE_0, 0, SLICE_NS), "there is no task on the other CPU");
}

#[test]
fn a_move_that_makes_it_worse_takes_a_longer_wait() {
    let least = |with, there| (1..1000).find(|ms| takes(ms * MS as i64, with, there, SLICE_NS));
    let equal = least(2 * NICE_0, 2 * NICE_0);
    assert_eq!(equal, Some(3), "three slices of a CPU that two tasks share");
    assert!(least(3 * NICE_0, 2 * NICE_0) > equal);
    assert_eq!(least(NICE_0, 2 * NICE_0), equal);
}

#[test]
fn a_task_waits_before_it_leaves_its_node_and_longest_at_home() {
    assert_eq!(cross_wait_ns(None, 0, Some(0)), 0);
    assert_eq!(cross_wait_ns(None, 0, Some(1)), MS);
    assert_eq!(cross_wait_ns(None, 0, None), MS);
    assert_eq!(cross_wait_ns(Some(0), 0, Some(1)), 4 * MS);
    assert_eq!(cross_wait_ns(Some(0), 0, None), 4 * MS);
    assert_eq!(cross_wait_ns(Some(1), 0, Some(1)), 0, "the task returns to its home node");
    assert_eq!(cross_wait_ns(Some(2), 0, Some(1)), MS);
}

#[test]
fn nodes_that_differ_more_settle_it_sooner() {
    assert_eq!(cross_every_ns(1000, 1000), None);
    assert_eq!(cross_every_ns(1000, 1001), None);
    assert_eq!(cross_every_ns(1000, 975), None, "the paces differ by less than 3 %");
    let every = |theirs: u64| cross_every_ns(1024 << 20, theirs << 20);
    assert_eq!(every(1024 - 32), Some(100 * MS));
    assert_eq!(every(1024 - 64), Some(25 * MS));
    assert!(every(0).is_some_and(|every| every < MS));
}

/// One CPU of a node runs only a busy loop with the lowest weight. The pace of this CPU is
/// thousands of times that of the other CPUs.
#[test]
fn no_cpu_makes_its_nodes_pace_alone() {
    let (usual, wild) = (100 * MS, 1 << 44);
    for cpus in [4, 32] {
        let told = |now, cpu| node_pace(now, if cpu % cpus == 0 { wild } else { usual });
        let settled = (0..4000).fold(0, told);
        assert!(settled < usual * 2 && settled > usual / 2, "{cpus} CPUs: {settled}");
    }
}

/// Many CPUs see the same slow CPU. None of them may pull a task if the pull would make the pulling
/// CPU much slower than the slow CPU was.
#[test]
fn nobody_becomes_slower_by_more_than_a_half() {
    let there = 1000 * FINE;
    assert!(takes(i64::MAX, there * 3 / 2, there, 2_800_000));
    assert!(!takes(i64::MAX, there * 3 / 2 + 1, there, 2_800_000));
}

/// Simulates busy loops on CPUs whose slices end at the same time, and returns each loop's share of
/// CPU time. After each slice, each CPU compares its pace with the pace of another CPU, and may
/// pull a loop from that CPU. Then it runs its loop with the least virtual time.
fn shares(weights: &[u64], cpus: usize, slices: usize) -> Vec<f64> {
    let mut on: Vec<usize> = (0..weights.len()).map(|task| task % cpus).collect();
    let (mut made, mut ran) = (vec![0.0f64; weights.len()], vec![0usize; weights.len()]);
    let mut paces = vec![0u64; cpus];
    let mut last = vec![usize::MAX; cpus];
    for slice in 0..slices {
        for cpu in 0..cpus {
            let all = |cpu: usize, on: &[usize]| -> u64 {
                (0..weights.len()).filter(|task| on[*task] == cpu).map(|task| weights[task]).sum()
            };
            let here = all(cpu, &on);
            paces[cpu] = pace(paces[cpu], u64::from(SLICE_NS), here);
            let other = (cpu + 1 + slice % (cpus - 1)) % cpus;
            let ahead = paces[cpu] as i64 - paces[other] as i64;
            let there = all(other, &on);
            let waits = |task: &usize| on[*task] == other && last[other] != *task;
            let taken = (0..weights.len())
                .filter(waits)
                .filter(|task| takes(ahead, here + weights[*task], there, SLICE_NS))
                .min_by(|a, b| made[*a].total_cmp(&made[*b]));
            if let Some(task) = taken {
                on[task] = cpu;
                paces[cpu] = paces[other];
                let mine = (0..weights.len()).filter(|t| on[*t] == cpu && *t != task);
                let base = mine.map(|t| made[t]).fold(f64::INFINITY, f64::min);
                made[task] = if base.is_finite() { base } else { made[task] };
            }
            let next = (0..weights.len())
                .filter(|task| on[*task] == cpu)
                .min_by(|a, b| made[*a].total_cmp(&made[*b]));
            last[cpu] = next.unwrap_or(usize::MAX);
            if let Some(next) = next {
                made[next] += 1.0 / weights[next] as f64;
                ran[next] += 1;
            }
        }
    }
    ran.iter().map(|n| *n as f64 / slices as f64).collect()
}

#[test]
fn loops_have_what_their_weights_are_worth_on_all_cpus() {
    for (weights, cpus, expected) in [
        (vec![1024, 1024, 1024], 2, vec![0.667, 0.667, 0.667]),
        (vec![1024, 1024, 110, 110], 2, vec![0.903, 0.903, 0.097, 0.097]),
        (vec![9548, 1024, 1024], 2, vec![1.0, 0.5, 0.5]),
        (vec![3072, 2048, 2048], 2, vec![0.857, 0.571, 0.571]),
    ] {
        let fine: Vec<u64> = weights.iter().map(|weight| weight * FINE).collect();
        let got = shares(&fine, cpus, 20_000);
        for (got_one, expected_one) in got.iter().zip(&expected) {
            assert!((got_one - expected_one).abs() < 0.1, "{weights:?}: {got:?}");
        }
    }
}

proptest! {
    #[test]
    fn any_paces_of_nodes_are_survived(node: u64, cpu: u64, theirs: u64) {
        let _ = (node_pace(node, cpu), cross_every_ns(node, theirs));
    }

    #[test]
    fn a_pace_is_bounded_by_what_was_made(now in 0..1u64 << 40, ns: u64, shared in 0..1u64 << 32) {
        let after = pace(now, ns, shared);
        prop_assert!(after <= now + (1 << 28) * NICE_0);
    }

    #[test]
    fn any_numbers_are_survived(ahead: i64, with in 0..1u64 << 44, there in 0..1u64 << 44, slice: u32) {
        let _ = takes(ahead, with, there, slice);
    }
}
