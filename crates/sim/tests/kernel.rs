// SPDX-License-Identifier: GPL-2.0-only
//! Behaviour of the simulated kernel that a mix alone would rarely show.

use paracord_sim::{
    bpf::{DsqCursor, Kfuncs},
    kernel::{Kernel, ext_state::Queue},
    machine::CpuSet,
    mix::Mix,
    run::Simulation,
};

fn simulation(text: &str) -> Simulation {
    Simulation::new(Mix::parse("kernel", text).expect("a mix")).expect("memory")
}

fn named(k: &Kernel, name: &str) -> usize {
    k.tasks.iter().position(|task| &*task.name == name).expect("a task of this name")
}

#[test]
fn an_endless_phase_stays_endless_when_its_task_moves_to_another_cache() {
    let mut simulation = simulation("machine cpus=2 caches=2\nrun 1s\ntask a : sleep 1s\n");
    simulation.run_until(1_000_000);
    simulation.with(|k| {
        let task = named(k, "a");
        k.tasks[task].work = u64::MAX;
        let other = 1 - k.tasks[task].cpu;
        k.set_task_cpu(task, other);
        assert_eq!(k.tasks[task].work, u64::MAX);
    });
}

/// Two loops run on CPU 0 of a machine with two CPUs. Returns the loop that waits in the
/// scheduler's queue.
fn waiting(simulation: &mut Simulation) -> usize {
    simulation.run_until(50_000_000);
    simulation.with(|k| {
        let waits = |id: &usize| k.tasks[*id].ext.queue == Queue::Shared(0);
        (0..k.tasks.len()).find(waits).expect("one of two loops waits")
    })
}

const LOCAL_ON_1: u64 = 0xc000_0000_0000_0001;

/// `move_task_between_dsqs()`, `task_can_run_on_remote_rq()`.
#[test]
fn a_move_to_a_cpu_that_the_task_may_not_use_ejects_the_scheduler() {
    for allowed in [false, true] {
        let mut simulation =
            simulation("machine cpus=2\nrun 1s\ntask loop count=2 cpus=0 : run forever\n");
        let task = waiting(&mut simulation);
        simulation.with(|k| {
            if allowed {
                k.tasks[task].cpus = CpuSet::first(2);
            }
            let mut cursor = DsqCursor::default();
            assert!(k.dsq_iter_new(&mut cursor));
            assert!(k.dsq_move(&mut cursor, task, LOCAL_ON_1, 0));
            let faults: Vec<_> = k.faults.iter().map(|fault| fault.what.as_str()).collect();
            if allowed {
                assert_eq!(k.tasks[task].ext.queue, Queue::Local(1));
                assert!(faults.is_empty(), "{faults:?}");
            } else {
                assert!(faults[0].contains("target CPU 1 not allowed for loop"), "{faults:?}");
            }
        });
    }
}

/// Since 6.19, kernels enqueue tasks again when the run queue is unlocked. Older kernels do it at
/// once, in `ops.cpu_release()`.
#[test]
fn what_waits_in_a_local_queue_is_enqueued_anew_at_once_or_later() {
    for (kernel, later) in [("6.12", false), ("7.3", true)] {
        let text = format!(
            "machine cpus=2\nkernel {kernel}\nrun 1s\ntask loop count=2 cpus=0 : run forever\n"
        );
        let mut simulation = simulation(&text);
        let task = waiting(&mut simulation);
        simulation.with(|k| {
            let mut cursor = DsqCursor::default();
            assert!(k.dsq_iter_new(&mut cursor));
            assert!(k.dsq_move(&mut cursor, task, 0xc000_0000_0000_0000, 0));
            assert_eq!(k.tasks[task].ext.queue, Queue::Local(0));
            k.this_cpu = 0;
            let at = k.at();
            paracord_sim::bpf::cpu_release(k, at, 0);
            let queue = if later { Queue::Local(0) } else { Queue::Shared(0) };
            assert_eq!(k.tasks[task].ext.queue, queue, "kernel {kernel}");
            let class = k.normal;
            class.unlocked(k, 0);
            assert_eq!(k.tasks[task].ext.queue, Queue::Shared(0), "kernel {kernel}");
        });
    }
}

/// `balance_one()` calls `ops.dispatch()` again if the task that it has taken is gone.
#[test]
fn a_cpu_whose_next_task_is_gone_looks_again() {
    let text =
        "machine cpus=1\nrun 1s\ntask loop : run forever\ntask other : run 1ms, sleep 20ms\n";
    let mut simulation = simulation(text);
    simulation.run_until(50_000_000);
    simulation.with(|k| k.planted.loses_consumed = true);
    simulation.run_until(1_000_000_000);
    simulation.with(|k| {
        assert!(!k.planted.loses_consumed, "the CPU took the task");
        let ran: u64 = (1..k.tasks.len()).map(|id| k.account(id).ran_ns).sum();
        assert!(ran > 999_000_000, "the CPU has run tasks for {ran} ns of a second");
    });
}

/// `__schedule()` clears the request after the selection. A request that comes during the selection
/// causes no further one.
#[test]
fn a_request_during_a_look_is_not_a_second_look() {
    let events = |asks: bool| {
        let mut simulation =
            simulation("machine cpus=1\nrun 1s\ntask loop count=2 : run forever\n");
        simulation.with(|k| k.planted.asks_while_it_looks = asks);
        simulation.run_until(100_000_000);
        simulation.outcome().events
    };
    assert_eq!(events(true), events(false));
}

#[test]
fn a_fork_beyond_the_limit_ends_the_run_with_a_line() {
    let text = "machine cpus=2\nrun 1s\ntask first : run 1us, fork leaf\n\
                task leaf template : sleep 3600s, exit\n";
    let mut simulation = simulation(text);
    simulation.with(|k| k.tasks_max = 100);
    simulation.run_until(1_000_000_000);
    assert!(simulation.stopped());
    let faults = simulation.outcome().faults;
    let what: Vec<_> = faults.iter().map(|fault| fault.what.as_str()).collect();
    assert_eq!(what, ["leaf is not forked: 98 tasks are there, and no more can be"]);
}
