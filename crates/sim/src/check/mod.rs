// SPDX-License-Identifier: GPL-2.0-only
//! What must hold in every run, looked at every few milliseconds of simulated time. A look changes nothing.

mod budgets;
mod sums;

use crate::{
    kernel::{Class, Kernel, State, Task},
    machine::CpuSet,
    mix::Ns,
};

/// From look to look.
pub const EVERY_NS: Ns = 2_000_000;
/// A CPU may idle for that long beside a task that it could run: two ticks at 100 Hz. Both schedulers look for work
/// at ticks, wakeups, and when a CPU becomes idle.
const IDLE_BESIDE_WAITING_NS: Ns = 20_000_000;

/// Switches between two looks from tasks that wanted to go on, on one CPU: one each four microseconds. Preemption by
/// wakeups stays below that: those who wake have slept, and run.
const PREEMPTIONS_MAX: u64 = EVERY_NS / 4_000;

/// What looks remember.
#[derive(Default)]
pub struct Seen {
    preemptions: Vec<u64>,
    boosted: budgets::Boosted,
}

/// Looks.
pub fn look(k: &mut Kernel, seen: &mut Seen) {
    nobody_waits_beside_an_idle_cpu(k);
    nobody_takes_turns_all_the_time(k, seen);
    sums::run_queues(k);
    if k.sensed && k.ext.ended.is_none() {
        budgets::kept_share(k, seen);
        sums::scheduler(k);
    }
}

/// Looks at the end of a run.
pub fn look_at_end(k: &mut Kernel) {
    if let Some(ticks) = k.planted.filter(|ticks| *ticks != crate::bpf::planted()) {
        k.fault(format!("a counter has lost {} of {ticks} updates", ticks - crate::bpf::planted()));
    }
    if k.sensed {
        budgets::boosted_time(k);
        sums::vcpus(k);
    }
}

fn waits(k: &Kernel, id: usize, task: &Task) -> bool {
    task.on_rq
        && task.state == State::Runnable
        && task.class() != Class::Idle
        && k.rqs[task.cpu].curr != id
}

fn nobody_takes_turns_all_the_time(k: &mut Kernel, seen: &mut Seen) {
    seen.preemptions.resize(k.machine.cpus, 0);
    for cpu in 0..k.machine.cpus {
        let before = std::mem::replace(&mut seen.preemptions[cpu], k.rqs[cpu].preemptions);
        let count = k.rqs[cpu].preemptions - before;
        if count > PREEMPTIONS_MAX {
            let name = k.tasks[k.rqs[cpu].curr].name.clone();
            let us = EVERY_NS / 1_000;
            k.fault(format!(
                "CPU {cpu} takes itself from {count} tasks in {us} us, {name} one of them"
            ));
        }
    }
}

fn nobody_waits_beside_an_idle_cpu(k: &mut Kernel) {
    let long = |since: Ns| k.now.saturating_sub(since) > IDLE_BESIDE_WAITING_NS;
    let idle: CpuSet = (0..k.machine.cpus)
        .filter(|cpu| {
            k.rqs[*cpu].active && k.is_idle_task(k.rqs[*cpu].curr) && long(k.rqs[*cpu].idle_since)
        })
        .collect();
    if idle.is_empty() {
        return;
    }
    let found = (k.machine.cpus..k.tasks.len()).find_map(|id| {
        let task = &k.tasks[id];
        let since = task.queued_since.filter(|since| long(*since))?;
        let cpu = idle.first_of(&task.cpus)?;
        (waits(k, id, task) && !k.normal.is_held_back(k, id))
            .then(|| (task.name.clone(), since, cpu, task.cpu))
    });
    if let Some((name, since, cpu, on)) = found {
        let ms = (k.now - since) / 1_000_000;
        k.fault(format!(
            "{name} has waited for {ms} ms on CPU {on} while CPU {cpu} idles, which it may use"
        ));
    }
}
