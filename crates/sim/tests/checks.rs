// SPDX-License-Identifier: GPL-2.0-only
//! Each check finds the violation that is planted for it, and no other check does.

use paracord_sim::{
    kernel::Kernel,
    mix::{Mix, Ns},
    run::Simulation,
};

const MS: Ns = 1_000_000;

/// Runs a mix with something planted at a time; what went wrong.
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

/// The fault that is wanted is found, and no other one.
#[track_caller]
fn only(faults: &[String], wanted: &str) {
    assert!(!faults.is_empty(), "nothing is found");
    assert!(faults.iter().all(|what| what.contains(wanted)), "{faults:#?}");
}

/// Loops that have CPU 0 alone until they may use CPU 1 too, on which nobody ever runs.
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

#[test]
fn nothing_is_found_where_nothing_is_planted() {
    let text = "machine cpus=2\nrun 500ms\ntask loop count=3 : run forever\n\
                vm guest period=10ms busy=1ms guest=periodic\n";
    assert_eq!(faults(text, 100 * MS, |_| ()), Vec::<String>::new());
}
