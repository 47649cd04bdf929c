// SPDX-License-Identifier: GPL-2.0-only
//! What the simulated kernel does where a mix alone would seldom show it.

use paracord_sim::{kernel::Kernel, mix::Mix, run::Simulation};

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
