// SPDX-License-Identifier: GPL-2.0-only
//! Each check finds the violation that is planted for it, and no other check reports it.

use paracord_policy::PC_VCPU_READY;
use paracord_sim::{
    kernel::{Kernel, Program},
    mix::{Mix, Ns},
    run::Simulation,
};

const MS: Ns = 1_000_000;
/// A mix without any fault.
const BUSY: &str = "machine cpus=2\nrun 500ms\ngroup web\ntask loop group=web count=3 : run forever\n\
                    vm guest period=10ms busy=1ms guest=periodic\n";

/// Runs a mix, plants a fault at a time, and returns the faults that were found.
fn faults(text: &str, at_ns: Ns, plant: impl FnOnce(&mut Kernel)) -> Vec<String> {
    let mix = Mix::parse("checks", text).expect("a mix");
    let until = mix.run_ns;
    let mut simulation = Simulation::new(mix).expect("memory");
    simulation.run_until(at_ns);
    simulation.with(plant);
    simulation.run_until(until);
    simulation.end();
    simulation.outcome().faults.into_iter().map(|fault| fault.what).collect()
}

/// Checks that the wanted fault is found, and no other one.
#[track_caller]
fn only(faults: &[String], wanted: &str) {
    assert!(!faults.is_empty(), "nothing is found");
    assert!(faults.iter().all(|what| what.contains(wanted)), "{faults:#?}");
}

/// Loops run only on CPU 0 until they may also use CPU 1, on which no task ever runs.
fn beside_an_idle_cpu(tasks: &str) -> Vec<String> {
    let text = format!("machine cpus=2\nrun 500ms\n{tasks}at 100ms task loop cpus=0-1\n");
    faults(&text, 1, |kernel| kernel.plant_idle_cpu(1))
}

#[test]
fn two_tasks_that_alternate_beside_an_idle_cpu_are_found() {
    only(
        &beside_an_idle_cpu("task loop count=2 cpus=0 : run forever\n"),
        "have waited in turn for 50 ms on CPU 0 while CPU 1 idles",
    );
}

#[test]
fn one_task_that_waits_beside_an_idle_cpu_is_found() {
    only(
        &beside_an_idle_cpu(
            "task loop cpus=0 : run forever\n\
             task urgent policy=fifo prio=1 cpus=0 start=50ms : run forever\n",
        ),
        "loop has waited for",
    );
}

/// A quota holds tasks back for a part of each period. This does not excuse waits in the rest of
/// the period. Waits count from the moment at which the group may run again; after it, four loops
/// take turns for 70 ms.
#[test]
fn a_quota_excuses_no_longer_than_it_holds_back() {
    let text = "machine cpus=2 hz=100\nscheduler stock\nrun 500ms\ngroup web quota=70ms/100ms\n\
                task loop group=web count=4 cpus=0 : run forever\nat 100ms task loop cpus=0-1\n";
    let found = faults(text, 1, |kernel| kernel.plant_idle_cpu(1));
    only(&found, "have waited in turn for 50 ms");
}

/// While the quota holds tasks back, there is no fault, because no CPU can run them.
#[test]
fn a_quota_that_is_spent_is_no_fault() {
    let text = "machine cpus=2 hz=100\nscheduler stock\nrun 500ms\ngroup web quota=10ms/100ms\n\
                task loop group=web count=2 cpus=0 : run forever\nat 100ms task loop cpus=0-1\n";
    assert_eq!(faults(text, 1, |kernel| kernel.plant_idle_cpu(1)), Vec::<String>::new());
}

/// The scheduler does not learn about the quota.
#[test]
fn a_group_that_runs_longer_than_its_quota_is_found() {
    let text = "machine cpus=2\nrun 500ms\ngroup web quota=10ms/100ms\ntask loop group=web count=2 : run forever\n";
    let found = faults(text, 1, |kernel| kernel.native.set_quota(1, None));
    only(&found, "group web has run");
    assert_eq!(faults(text, 1, |_| ()), Vec::<String>::new());
}

#[test]
fn a_cpu_that_switches_all_the_time_is_found() {
    let found = faults(BUSY, 100 * MS, |kernel| kernel.rqs[1].preemptions += 501);
    only(&found, "CPU 1 has preempted ");
}

/// The kernel's own number of tasks in a run queue is changed.
#[test]
fn a_wrong_number_of_running_tasks_is_found() {
    only(
        &faults(BUSY, 100 * MS, |kernel| kernel.rqs[0].nr_running += 1),
        "simulator: CPU 0 counts",
    );
}

#[test]
fn a_wrong_number_of_queued_tasks_is_found() {
    let found = faults(BUSY, 100 * MS, |kernel| kernel.native.edit_rq(1, |rq| rq.queued += 1));
    only(&found, "pc_rq.queued of CPU 1 is ");
}

/// A running task gets a state from which no step to the next state is valid. The error is found
/// when the task stops and is enqueued.
#[test]
fn a_step_that_no_state_allows_is_found() {
    let found = faults(BUSY, 100 * MS, |kernel| {
        let task = kernel.rqs[0].curr;
        kernel.native.edit_task(task, |task| task.at = 7 << 16);
    });
    only(&found, "a task went from state none to NOWHERE");
}

#[test]
fn a_wrong_sum_of_weights_is_found() {
    let found = faults(BUSY, 100 * MS, |kernel| {
        let index = kernel.native.group_index(1);
        kernel.native.edit_group(index, |group| group.active += 1024);
    });
    only(&found, "pc_group.active of web is ");
}

#[test]
fn a_record_of_a_vcpu_that_is_gone_is_found() {
    let found = faults(BUSY, 100 * MS, |kernel| {
        kernel.native.edit_vcpu(77, |vcpu| vcpu.life = PC_VCPU_READY);
    });
    only(&found, "2 records of vCPUs are in use, and 1 vCPUs are there");
}

/// Without a server, a real-time task leaves no time for ordinary tasks.
#[test]
fn a_task_that_never_runs_is_found_by_the_watchdog() {
    let text = "machine cpus=1\nkernel 6.12\nrun 50s\ntask urgent policy=fifo prio=1 : run forever\n\
                task starved : run forever\n";
    only(&faults(text, 1, |_| ()), "the kernel unloads the scheduler: starved failed to run for");
}

#[test]
fn a_cpu_that_keeps_no_time_for_others_is_found() {
    // Of a period of 100 ms, 75 ms may be boosted, plus three ticks.
    let boosted = |ns| faults(BUSY, 100 * MS + 1, |kernel| kernel.rqs[0].boosted_ns += ns);
    only(&boosted(88 * MS), "CPU 0 has run boosted vCPUs for ");
    assert_eq!(boosted(60 * MS), Vec::<String>::new());
}

#[test]
fn a_vcpu_that_is_boosted_beyond_its_budget_is_found() {
    let found = faults(BUSY, 100 * MS, |kernel| {
        for task in &mut kernel.tasks {
            if let Program::Guest(vcpu) = &mut task.program {
                vcpu.boosted_ns += 600 * MS;
            }
        }
    });
    only(&found, "guest.0/0 has run boosted for ");
}

#[test]
fn a_task_that_has_ended_and_is_still_counted_is_found() {
    let text = "machine cpus=1\nrun 500ms\ntask loop : run forever\ntask brief start=200ms : run 1ms, exit\n";
    let found = faults(text, 100 * MS, |kernel| kernel.planted.leftovers = true);
    only(&found, "brief has ended, and is still counted in a queue or group");
}

#[test]
fn tasks_of_two_cookies_that_share_a_core_are_found() {
    for tasks in [
        "task red cookie=1 cpus=0 : run forever\ntask blue cookie=2 cpus=1 : run forever\n",
        "task red cookie=1 cpus=0 : run 1ms, sleep 1ms\ntask blue cookie=2 cpus=1 : run 2ms, sleep 500us\n",
    ] {
        for scheduler in ["ext", "stock"] {
            let text = format!("machine cpus=2 smt=2\nscheduler {scheduler}\nrun 500ms\n{tasks}");
            let found = faults(&text, 100 * MS, |kernel| kernel.planted.ignores_cookies = true);
            only(&found, "core ran tasks of different cookies");
            assert_eq!(faults(&text, 100 * MS, |_| ()), Vec::<String>::new());
        }
    }
}

#[test]
fn nothing_is_found_where_nothing_is_planted() {
    assert_eq!(faults(BUSY, 100 * MS, |_| ()), Vec::<String>::new());
}
