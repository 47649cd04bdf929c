// SPDX-License-Identifier: GPL-2.0-only
//! vCPUs: the sensor finds them, boosts them, meters that, and forgets them.

use paracord_policy::{PC_MODE_OFF, pc_vm, pc_vm_threads};
use paracord_sim::{
    kernel::{Kernel, Program},
    mix::Mix,
    run::{Outcome, Simulation},
};

const PERIODIC: &str = "machine cpus=1\nrun 2s warmup=100ms\ntask loop count=3 : run forever\n\
                        vm audio period=10ms busy=3500us guest=periodic\n";
const HOLD: &str = "machine cpus=1\nrun 2s\ntask loop : run forever\nvm greedy guest=hold\n";

fn run(text: &str, boosts: bool) -> (Simulation, Outcome) {
    let mix = Mix::parse("guests", text).expect("a mix");
    let until = mix.run_ns;
    let mut simulation = Simulation::new(mix).expect("memory");
    // The daemon has set up the VM, and switches it off before its vCPU is found.
    simulation.run_until(1);
    if !boosts {
        simulation.with(|kernel| {
            let mut config = paracord_policy::defaults();
            config.mode = PC_MODE_OFF;
            let threads = [pc_vm_threads { config, ..pc_vm_threads::default() }; 2];
            kernel.native.write_vm(0, &pc_vm { threads, tgid: 1, ..pc_vm::default() });
        });
    }
    simulation.run_until(until);
    simulation.end();
    let outcome = simulation.outcome();
    (simulation, outcome)
}

fn boosted_ns(simulation: &mut Simulation) -> u64 {
    simulation.with(|kernel| {
        let guests = kernel.tasks.iter().filter_map(|task| match &task.program {
            Program::Guest(vcpu) => Some(vcpu.boosted_ns),
            _ => None,
        });
        guests.sum()
    })
}

fn latency_ns(outcome: &Outcome) -> u64 {
    let guest = outcome.tasks.iter().find_map(|had| had.latency_ns);
    guest.expect("a vCPU that wakes").0
}

#[test]
fn a_boosted_vcpu_runs_when_it_wakes() {
    let (mut with, boosted) = run(PERIODIC, true);
    let (mut without, plain) = run(PERIODIC, false);
    assert!(boosted.faults.is_empty() && plain.faults.is_empty(), "{:?}", boosted.faults);
    assert!(boosted_ns(&mut with) > 50_000_000, "{} ns boosted", boosted_ns(&mut with));
    assert_eq!(boosted_ns(&mut without), 0);
    let (boosted, plain) = (latency_ns(&boosted), latency_ns(&plain));
    assert!(plain > 4 * boosted, "boosted it waits {boosted} ns, without {plain} ns");
}

/// Three quarters of a period at most (policy/boost_defaults.h).
#[test]
fn a_guest_that_is_always_urgent_uses_up_its_budget() {
    let (mut simulation, outcome) = run(HOLD, true);
    assert!(outcome.faults.is_empty(), "{:?}", outcome.faults);
    let share = boosted_ns(&mut simulation) as f64 / 2e9;
    assert!((0.005..=0.77).contains(&share), "it has run boosted for {share} of the time");
}

/// It sleeps and wakes beside idle CPUs of either node: nothing but its home makes it move.
#[test]
fn a_vcpu_that_wakes_away_from_home_goes_there() {
    const TWO_NODES: &str = "machine cpus=4 caches=2 nodes=2\nrun 1s\n\
                             vm audio period=10ms busy=1ms guest=periodic\n";
    let node_of = |kernel: &mut Kernel| {
        let mut vcpus = kernel.tasks.iter().filter(|t| matches!(t.program, Program::Guest(_)));
        u32::try_from(vcpus.next().expect("a vCPU").cpu / 2).expect("a node")
    };
    let mut simulation =
        Simulation::new(Mix::parse("home", TWO_NODES).expect("a mix")).expect("memory");
    simulation.run_until(500_000_000);
    let first = simulation.with(|kernel| {
        let node = node_of(kernel);
        let of = |config| pc_vm_threads { config, ..pc_vm_threads::default() };
        let threads = [of(paracord_policy::defaults()), of(paracord_policy::io_defaults())];
        let home = 1 - node + 1;
        kernel.native.write_vm(0, &pc_vm { threads, tgid: 1, home });
        node
    });
    simulation.run_until(1_000_000_000);
    simulation.end();
    assert_eq!(simulation.with(node_of), 1 - first);
    assert!(simulation.outcome().faults.is_empty());
}
