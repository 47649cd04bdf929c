// SPDX-License-Identifier: GPL-2.0-only
//! vCPUs: the sensor finds them, boosts them, meters their boosted time, and forgets them.

use paracord_policy::{PC_MODE_OFF, pc_vm};
use paracord_sim::{
    kernel::{Kernel, Program, record_of},
    mix::Mix,
    run::{Outcome, Simulation},
};

const PERIODIC: &str = "machine cpus=1\nrun 2s warmup=100ms\ntask loop count=3 : run forever\n\
                        vm audio period=10ms busy=3500us guest=periodic\n";
const HOLD: &str = "machine cpus=1\nrun 2s\ntask loop : run forever\nvm greedy guest=hold\n";
const TAKEN: &str = "machine cpus=2\nrun 5s warmup=100ms\ntask loop count=2 : run forever\n\
                     task even cpus=0 policy=fifo prio=1 start=200ms : run 40ms, sleep 80ms\n\
                     task odd cpus=1 policy=fifo prio=1 start=260ms : run 40ms, sleep 80ms\n\
                     vm audio period=10ms busy=2ms guest=periodic\n";

const TAKEN_BESIDE_IDLE: &str = "machine cpus=2\nrun 5s warmup=100ms\n\
                                 task even cpus=0 policy=fifo prio=1 start=203ms : run 40ms, sleep 80ms\n\
                                 task odd cpus=1 policy=fifo prio=1 start=263ms : run 40ms, sleep 80ms\n\
                                 vm audio period=10ms busy=6ms guest=periodic\n";
/// A real-time task and the vCPU wake at the same time, on the same idle CPU.
const TAKEN_AT_ONCE: &str = "machine cpus=2\nrun 5s warmup=100ms\n\
                             task even cpus=0 policy=fifo prio=1 start=200ms : run 40ms, sleep 80ms\n\
                             task odd cpus=1 policy=fifo prio=1 start=260ms : run 40ms, sleep 80ms\n\
                             vm audio period=10ms busy=2ms guest=periodic\n";
const OFTEN_TAKEN: &str = "machine cpus=2\nrun 5s warmup=100ms\ntask loop count=2 : run forever\n\
                           task even cpus=0 policy=fifo prio=1 : run 50us, sleep 950us\n\
                           task odd cpus=1 policy=fifo prio=1 start=500us : run 50us, sleep 950us\n\
                           vm audio period=10ms busy=6ms guest=periodic\n";

fn run(text: &str, boosts: bool) -> (Simulation, Outcome) {
    let mix = Mix::parse("guests", text).expect("a mix");
    let until = mix.run_ns;
    let mut simulation = Simulation::new(mix).expect("memory");
    // The daemon has set up the VM. The VM is then switched off before its vCPU is found.
    simulation.run_until(1);
    if !boosts {
        simulation.with(|kernel| {
            let mut off = record_of(0);
            for threads in &mut off.threads {
                threads.config.mode = PC_MODE_OFF;
            }
            kernel.native.write_vm(0, &off);
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

/// Real-time tasks take the two CPUs in turn. The other CPU runs a loop, which the vCPU may preempt.
#[test]
fn a_boosted_vcpu_leaves_a_cpu_that_a_real_time_task_takes() {
    let (_, outcome) = run(TAKEN, true);
    assert!(outcome.faults.is_empty(), "{:?}", outcome.faults);
    let latency_ns = outcome.tasks.iter().find_map(|had| had.latency_ns);
    let (_, longest_ns) = latency_ns.expect("a vCPU that wakes");
    assert!(longest_ns < 1_000_000, "the vCPU has run {longest_ns} ns after its timer");
}

/// Real-time tasks take the two CPUs in turn. The other CPU is idle.
#[test]
fn a_boosted_vcpu_leaves_a_taken_cpu_for_an_idle_one() {
    let (_, outcome) = run(TAKEN_BESIDE_IDLE, true);
    assert!(outcome.faults.is_empty(), "{:?}", outcome.faults);
    let vcpu = outcome.tasks.iter().find(|had| had.latency_ns.is_some()).expect("a vCPU");
    let waited_ns = vcpu.account.longest_wait_ns;
    assert!(waited_ns < 1_000_000, "the vCPU has waited for {waited_ns} ns");
}

/// A real-time task takes an idle CPU before the vCPU that was sent there runs. The kernel does not
/// tell the scheduler so, because the CPU was idle.
#[test]
fn a_vcpu_leaves_an_idle_cpu_that_is_taken_before_it_runs() {
    for boosts in [false, true] {
        let (_, outcome) = run(TAKEN_AT_ONCE, boosts);
        assert!(outcome.faults.is_empty(), "boosts {boosts}: {:?}", outcome.faults);
        let vcpu = outcome.tasks.iter().find(|had| had.latency_ns.is_some()).expect("a vCPU");
        let waited_ns = vcpu.account.longest_wait_ns;
        assert!(waited_ns < 1_000_000, "boosts {boosts}: the vCPU has waited for {waited_ns} ns");
    }
}

/// Real-time tasks take both CPUs each millisecond. The vCPU moves at most once in 10 ms.
#[test]
fn a_boosted_vcpu_does_not_move_at_each_real_time_task() {
    let (_, outcome) = run(OFTEN_TAKEN, true);
    assert!(outcome.faults.is_empty(), "{:?}", outcome.faults);
    let vcpu = outcome.tasks.iter().find(|had| had.latency_ns.is_some()).expect("a vCPU");
    let moves = vcpu.account.migrations;
    assert!(moves < 500, "{moves} migrations in 4.9 s");
}

/// A vCPU may run boosted for at most three quarters of a period (policy/boost_defaults.h).
#[test]
fn a_guest_that_is_always_urgent_uses_up_its_budget() {
    let (mut simulation, outcome) = run(HOLD, true);
    assert!(outcome.faults.is_empty(), "{:?}", outcome.faults);
    let share = boosted_ns(&mut simulation) as f64 / 2e9;
    assert!((0.005..=0.77).contains(&share), "it has run boosted for {share} of the time");
}

/// Two periodic VMs sleep and wake beside idle CPUs of both nodes, so only their home nodes can
/// make them move. In the middle of the run, `rewrite` replaces the records of the VMs. Returns the
/// nodes of the vCPUs before this and at the end.
fn nodes_before_and_after(rewrite: impl Fn(&[u32]) -> [pc_vm; 2]) -> (Vec<u32>, Vec<u32>) {
    const TWO_NODES: &str = "machine cpus=8 caches=2 nodes=2\nrun 1s\n\
                             vm audio count=2 period=10ms busy=1ms guest=periodic\n";
    let nodes = |kernel: &mut Kernel| -> Vec<u32> {
        let vcpus = kernel.tasks.iter().filter(|t| matches!(t.program, Program::Guest(_)));
        vcpus.map(|vcpu| u32::try_from(vcpu.cpu / 4).expect("a node")).collect()
    };
    let mut simulation =
        Simulation::new(Mix::parse("home", TWO_NODES).expect("a mix")).expect("memory");
    simulation.run_until(500_000_000);
    let before = simulation.with(|kernel| {
        let now = nodes(kernel);
        for (vm, record) in (0..).zip(rewrite(&now)) {
            kernel.native.write_vm(vm, &record);
        }
        now
    });
    simulation.run_until(1_000_000_000);
    simulation.end();
    assert!(simulation.outcome().faults.is_empty());
    (before, simulation.with(nodes))
}

#[test]
fn vcpus_that_wake_away_from_home_go_there() {
    // The second VM stays, whatever the first one does.
    let (before, after) = nodes_before_and_after(|now| {
        [pc_vm { home: 1 - now[0] + 1, ..record_of(0) }, pc_vm { home: now[1] + 1, ..record_of(1) }]
    });
    assert_eq!(after, [1 - before[0], before[1]]);
}

/// Slots of VMs that have ended, and records that are not set up, do not determine a home node.
#[test]
fn the_home_of_another_process_is_nobodys() {
    let (before, after) = nodes_before_and_after(|now| {
        [0, 1].map(|vm| pc_vm { home: 1 - now[vm as usize] + 1, tgid: 4711, ..record_of(vm) })
    });
    assert_eq!(after, before);
}

/// A task that wakes another one and then sleeps hands over its CPU, even if other CPUs are idle. The
/// kernel calls such a CPU idle, but the woken task has to wait there for a moment.
#[test]
fn a_task_that_is_woken_on_its_wakers_cpu_stays_there() {
    let text = "machine cpus=4\nrun 2s\nqueue there\nqueue back\n\
                task ping cpus=0 : run 50us, post there sync, wait back\n\
                task pong cpus=0 : wait there, run 50us, post back sync\n\
                at 50ms task ping cpus=0-3\nat 50ms task pong cpus=0-3\n";
    let (_, outcome) = run(text, true);
    assert!(outcome.faults.is_empty(), "{:?}", outcome.faults);
    let moves: u64 = outcome.tasks.iter().map(|had| had.account.migrations).sum();
    assert_eq!(moves, 0, "migrations");
}
