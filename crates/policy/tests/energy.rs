// SPDX-License-Identifier: GPL-2.0-only
//! Placement by energy, with the values of the board Juno r2 (lab/boards/juno_r2/juno_r2.c) and
//! with random values.
#![allow(clippy::unwrap_used)]

use paracord_policy::energy::{self, Cpu, place};
use paracord_policy::{PC_DOMAINS_MAX, PC_POINTS_MAX, pc_domain, pc_energy, pc_point};
use proptest::prelude::*;

const LITTLE: [usize; 4] = [0, 1, 2, 3];
const BIG: [usize; 2] = [4, 5];

/// A domain from `(capacity, power in uW)` of each frequency. The cost is computed as in the
/// kernel: energy per unit of work.
fn domain(points: &[(u32, u64)]) -> pc_domain {
    let point = |&(capacity, uw): &(u32, u64)| pc_point {
        cost: uw * 10 / u64::from(capacity),
        capacity,
        reserved: 0,
    };
    energy::domain(&points.iter().map(point).collect::<Vec<_>>())
}

fn juno() -> pc_energy {
    let mut model = pc_energy { cpus: 6, ..Default::default() };
    model.domain[0] = domain(&[(181, 42_361), (322, 90_720), (383, 133_000)]);
    model.domain[1] = domain(&[(512, 181_548), (853, 364_500), (1024, 540_000)]);
    model
}

fn idle() -> [Cpu; 6] {
    let little = Cpu { domain: 0, capacity: 383, sum: 0, allowed: true };
    let big = Cpu { domain: 1, capacity: 1024, ..little };
    [little, little, little, little, big, big]
}

/// Places tasks that never sleep. In each of `rounds` rounds, places each task once. Updates the
/// CPU of each task, and returns the number of moves.
fn settle(cpus: &mut [Cpu; 6], tasks: &mut [(u32, i32)], rounds: usize) -> usize {
    let mut moves = 0;
    for _ in 0..rounds {
        for (request, cpu) in tasks.iter_mut() {
            if let Ok(at) = usize::try_from(*cpu) {
                cpus[at].sum -= *request;
            }
            let chosen = place(&juno(), cpus, *request, *cpu);
            moves += usize::from(chosen != *cpu);
            *cpu = chosen;
            cpus[usize::try_from(chosen).unwrap()].sum += *request;
        }
    }
    moves
}

fn per_cpu(tasks: &[(u32, i32)]) -> [usize; 6] {
    let mut count = [0; 6];
    for (_, cpu) in tasks {
        count[usize::try_from(*cpu).unwrap()] += 1;
    }
    count
}

/// Guards the first scenario of the patches "uclamp sum aggregation": capped tasks stay on small
/// CPUs, one on each.
#[test]
fn four_capped_tasks_take_a_small_cpu_each() {
    let mut cpus = idle();
    let mut tasks = [(200, -1); 4];
    assert_eq!(settle(&mut cpus, &mut tasks, 1), 4);
    assert_eq!(per_cpu(&tasks), [1, 1, 1, 1, 0, 0]);
    assert_eq!(settle(&mut cpus, &mut tasks, 10), 0);
}

/// Guards the fourth and fifth scenario: eight tasks share four CPUs, two on each, wherever the
/// tasks start.
#[test]
fn eight_capped_tasks_share_small_cpus_evenly() {
    for start in [0, 4, 5] {
        let mut cpus = idle();
        let mut tasks = [(120, start); 8];
        cpus[usize::try_from(start).unwrap()].sum = 8 * 120;
        settle(&mut cpus, &mut tasks, 3);
        assert_eq!(per_cpu(&tasks), [2, 2, 2, 2, 0, 0], "from {start}");
        assert_eq!(settle(&mut cpus, &mut tasks, 10), 0);
    }
}

/// Guards the second scenario: a task that requests more than a small CPU can provide gets a large
/// one.
#[test]
fn a_task_that_needs_a_large_cpu_gets_one() {
    let mut cpus = idle();
    let mut tasks = [(429, 0), (429, 1)];
    cpus[0].sum = 429;
    cpus[1].sum = 429;
    settle(&mut cpus, &mut tasks, 2);
    assert_eq!(per_cpu(&tasks), [0, 0, 0, 0, 1, 1]);
}

/// Guards an overloaded host: every task gets a CPU, and a task that would gain nothing elsewhere
/// stays.
#[test]
fn an_overloaded_host_spreads_by_room() {
    let mut cpus = idle();
    let mut tasks = [(1024, -1); 6];
    settle(&mut cpus, &mut tasks, 3);
    assert_eq!(per_cpu(&tasks), [1, 1, 1, 1, 1, 1]);
    assert_eq!(settle(&mut cpus, &mut tasks, 10), 0);
}

/// Guards a request that is larger than the free capacity of the large CPUs: the task still leaves
/// its small CPU, and it does not move back.
#[test]
fn who_is_cramped_on_a_small_cpu_goes_where_more_room_is() {
    let mut cpus = idle();
    cpus[4].sum = 300;
    cpus[5].sum = 200;
    let mut task = [(900, 0)];
    cpus[0].sum = 900;
    assert_eq!(settle(&mut cpus, &mut task, 10), 1);
    assert_eq!(per_cpu(&task), [0, 0, 0, 0, 0, 1]);
    // If the large CPUs have hardly more free capacity than the small one, the task stays.
    let mut cpus = idle();
    cpus[0].sum = 900;
    (cpus[4].sum, cpus[5].sum) = (600, 600);
    assert_eq!(settle(&mut cpus, &mut [(900, 0)], 10), 0);
}

/// Guards affinity.
#[test]
fn only_allowed_cpus_are_chosen() {
    let mut cpus = idle();
    for cpu in LITTLE {
        cpus[cpu].allowed = false;
    }
    assert!(BIG.contains(&usize::try_from(place(&juno(), &cpus, 10, 0)).unwrap()));
    for cpu in BIG {
        cpus[cpu].allowed = false;
    }
    assert_eq!(place(&juno(), &cpus, 10, 0), -1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Guards against invalid models and loads: the result is an allowed CPU or none, no code
    /// traps, and a second placement does not move the task.
    #[test]
    fn any_model_gives_an_allowed_cpu_and_rest(
        points in prop::collection::vec((any::<u64>(), any::<u32>()), (PC_DOMAINS_MAX * PC_POINTS_MAX) as usize),
        counts in prop::collection::vec(any::<u32>(), PC_DOMAINS_MAX as usize),
        loads in prop::collection::vec((0..10u32, any::<u32>(), any::<u32>(), any::<bool>()), 0..64),
        request in any::<u32>(), prev in -1i32..64, sane in any::<bool>(),
    ) {
        let mut model = if sane { juno() } else { pc_energy::default() };
        if !sane {
            for (n, domain) in model.domain.iter_mut().enumerate() {
                domain.points = counts[n];
                for (m, point) in domain.point.iter_mut().enumerate() {
                    let (cost, capacity) = points[n * PC_POINTS_MAX as usize + m];
                    *point = pc_point { cost, capacity, reserved: 0 };
                }
            }
        }
        let cpus: Vec<Cpu> = loads
            .iter()
            .map(|&(domain, capacity, sum, allowed)| Cpu { domain, capacity, sum, allowed })
            .collect();
        let chosen = place(&model, &cpus, request, prev);
        let legal = |at: i32| usize::try_from(at).ok().and_then(|at| cpus.get(at)).is_some_and(|cpu| cpu.allowed);
        prop_assert!(chosen == -1 || legal(chosen), "{chosen}");
        if chosen >= 0 {
            prop_assert_eq!(place(&model, &cpus, request, chosen), chosen);
        }
    }
}
