// SPDX-License-Identifier: GPL-2.0-only
//! Overlapping operations: the seed decides at which helpers, kfuncs and atomic operations CPUs are
//! switched.

use paracord_sim::{
    mix::{Mix, random::Draw, shrink},
    run::{Outcome, Simulation},
};

/// Number of mixes. The operations of each mix are paused thousands of times.
const MIXES: u64 = 12;

fn race(mix: &Mix, plant: bool) -> Outcome {
    let mut simulation = Simulation::new(mix.clone()).expect("memory");
    simulation.with(|kernel| {
        kernel.race();
        kernel.planted.counted_ticks = plant.then_some(0);
    });
    simulation.run_until(mix.run_ns);
    simulation.end();
    simulation.outcome()
}

fn drawn(seed: u64, cpus: usize) -> Mix {
    Draw { vms: false, ..Draw::ALL }.mix(seed, cpus)
}

#[test]
fn a_planted_lost_update_is_found_and_shrunk() {
    let loses =
        |mix: &Mix| race(mix, true).faults.iter().any(|fault| fault.what.contains("has lost"));
    let mix = (1..20).map(|seed| drawn(seed, 8)).find(loses).expect("one mix of twenty finds it");
    let small = shrink::shrink(&mix, loses, 200);
    assert!(loses(&small), "what is left still shows it");
    assert_eq!(small.machine.cpus, 2, "two CPUs are needed, and enough:\n{small}");
    // The smaller mix fails again, also after it was written and read.
    let again = Mix::parse("small", &small.to_string()).expect("what was written is read");
    assert_eq!(format!("{:?}", race(&again, true)), format!("{:?}", race(&small, true)));
}

/// A sleeping task is woken while its CPU is still switching away from it, with the run queue
/// unlocked.
#[test]
fn a_waker_waits_until_the_tasks_cpu_has_left_it() {
    let text = "machine cpus=4\nrun 2s\nqueue work\n\
                task worker count=3 : wait work, run 20us..60us\n\
                task feeder count=6 : run 10us..50us, post work, sleep 20us..100us\n\
                task loop count=3 : run 5us..2ms, sleep 3us..8us\n";
    let mix = Mix::parse("wakes", text).expect("a mix");
    let outcome = race(&mix, false);
    assert!(outcome.faults.is_empty(), "{:?}", outcome.faults);
}

/// Waiting vCPUs are boosted, with messages, kicks and budgets. There is one vCPU per CPU, because
/// several vCPUs cause a known fault (promises.rs).
#[test]
fn boosts_of_several_cpus_overlap() {
    let text = "machine cpus=3\nrun 1s\ntask loop count=6 : run forever\n\
                vm a cpus=0 period=3ms busy=700us exits=5000 guest=periodic\n\
                vm b cpus=1 exits=5000 guest=hold\n\
                vm c cpus=2 period=2ms busy=200us exits=5000 guest=periodic\n";
    let mix = Mix::parse("boosts", text).expect("a mix");
    let outcome = race(&mix, false);
    assert!(outcome.faults.is_empty(), "{:?}", outcome.faults);
}

#[test]
fn nothing_that_must_hold_is_broken_by_overlapping() {
    for seed in 1..=MIXES {
        for cpus in [2, 8] {
            let mix = drawn(seed, cpus);
            let outcome = race(&mix, false);
            assert!(
                outcome.faults.is_empty(),
                "seed {seed}, {cpus} CPUs: {:?}\n{mix}",
                outcome.faults
            );
        }
    }
}
