// SPDX-License-Identifier: GPL-2.0-only
//! Placement by energy, on Juno r2's figures (lab/boards/juno_r2/juno_r2.c) and on garbage.
#![allow(clippy::unwrap_used)]

use paracord_policy::energy::{self, Cpu, place};
use paracord_policy::{PC_DOMAINS_MAX, PC_POINTS_MAX, pc_domain, pc_energy, pc_point};
use proptest::prelude::*;

const LITTLE: [usize; 4] = [0, 1, 2, 3];
const BIG: [usize; 2] = [4, 5];

/// `(capacity, power in uW)` of each frequency; cost as the kernel has it (energy per unit of work).
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

/// Places tasks that never sleep, again and again until nobody moves; the CPU of each, and the moves.
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

/// Guards: seed 003's first scenario: capped tasks on small CPUs, one on each, at rest.
#[test]
fn four_capped_tasks_take_a_small_cpu_each() {
    let mut cpus = idle();
    let mut tasks = [(200, -1); 4];
    assert_eq!(settle(&mut cpus, &mut tasks, 1), 4);
    assert_eq!(per_cpu(&tasks), [1, 1, 1, 1, 0, 0]);
    assert_eq!(settle(&mut cpus, &mut tasks, 10), 0);
}

/// Guards: the fourth and fifth: eight tasks on four CPUs, two on each, from wherever they come.
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

/// Guards: the second: what asks for more than a small CPU can do goes to a large one.
#[test]
fn a_task_that_needs_a_large_cpu_gets_one() {
    let mut cpus = idle();
    let mut tasks = [(429, 0), (429, 1)];
    cpus[0].sum = 429;
    cpus[1].sum = 429;
    settle(&mut cpus, &mut tasks, 2);
    assert_eq!(per_cpu(&tasks), [0, 0, 0, 0, 1, 1]);
}

/// Guards: nobody is lost where all is full, and who is nowhere better off stays.
#[test]
fn an_overloaded_host_spreads_by_room() {
    let mut cpus = idle();
    let mut tasks = [(1024, -1); 6];
    settle(&mut cpus, &mut tasks, 3);
    assert_eq!(per_cpu(&tasks), [1, 1, 1, 1, 1, 1]);
    assert_eq!(settle(&mut cpus, &mut tasks, 10), 0);
}

/// Guards: a request above what is left of the large CPUs still leaves a small one; it does not go to and fro.
#[test]
fn who_is_cramped_on_a_small_cpu_goes_where_more_room_is() {
    let mut cpus = idle();
    cpus[4].sum = 300;
    cpus[5].sum = 200;
    let mut task = [(900, 0)];
    cpus[0].sum = 900;
    assert_eq!(settle(&mut cpus, &mut task, 10), 1);
    assert_eq!(per_cpu(&task), [0, 0, 0, 0, 0, 1]);
    // Where the large ones leave hardly more than the small one, it stays.
    let mut cpus = idle();
    cpus[0].sum = 900;
    (cpus[4].sum, cpus[5].sum) = (600, 600);
    assert_eq!(settle(&mut cpus, &mut [(900, 0)], 10), 0);
}

/// Guards: affinity.
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

    /// Guards: any model and any load: an allowed CPU or none, no trap; a second look moves nobody.
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
