// SPDX-License-Identifier: GPL-2.0-only
//! Checks that no task waits while a CPU that it may use is idle. Neither may one task wait for
//! long, nor several in turn on one CPU.

use crate::{
    kernel::{Class, Kernel, State, Task},
    machine::CpuSet,
    time::{NS_PER_MS, Ns},
};

/// Time between two checks.
pub const EVERY_NS: Ns = 2_000_000;

/// How long a task may wait while a CPU is idle: two ticks at 100 Hz. Both schedulers search for
/// work at ticks, at wakeups, and when a CPU becomes idle.
const ONE_WAIT_NS: Ns = 20_000_000;
/// The number of checks in a row at which a CPU may have a waiting task that the same idle CPU
/// could run: 50 ms. Tasks that take turns wait for less than a slice each. A task may also wake
/// and wait for a short time, for example behind a waker that is about to sleep. Some checks see
/// such a task, but not this many in a row.
const LOOKS_MAX: u32 = 25;

/// What the checks remember of a CPU on which tasks wait.
///
/// There is no counter for each pair of this CPU and an idle one. `idle` contains the CPUs that
/// were idle at each of the last `looks` checks and could run a task that waited here. When it
/// becomes empty, counting starts again with the idle CPUs of the present check. Therefore, an idle
/// CPU that stays idle is found after at most twice the limit, whatever the other CPUs do.
#[derive(Clone, Copy, Default)]
struct Beside {
    idle: CpuSet,
    looks: u32,
}

/// What the checks remember, by CPU.
#[derive(Default)]
pub struct Waits(Vec<Beside>);

/// Makes the check.
pub fn look(k: &mut Kernel, waits: &mut Waits) {
    waits.0.resize(k.machine.cpus, Beside::default());
    let idle: CpuSet = (0..k.machine.cpus)
        .filter(|cpu| k.rqs[*cpu].active && k.is_idle_task(k.rqs[*cpu].curr))
        .filter(|cpu| !k.is_kept_idle(*cpu))
        .collect();
    if idle.is_empty() {
        waits.0.fill(Beside::default());
        return;
    }
    one_waits_for_long(k, &idle);
    some_wait_in_turn(k, &idle, waits);
}

/// Since when a task has been waiting and could run. `None`: it does not wait, or the quota of its
/// group is used up.
fn waits_since(k: &Kernel, id: usize, task: &Task) -> Option<Ns> {
    let waits = task.on_rq
        && task.state == State::Runnable
        && task.class() != Class::Idle
        && k.rqs[task.cpu].curr != id;
    let since = task.queued_since.filter(|_| waits)?;
    Some(since.max(k.normal.held_back_until(k, id)?))
}

/// The idle CPUs that could run a task.
fn usable_by(k: &Kernel, id: usize, task: &Task, idle: &CpuSet) -> CpuSet {
    task.cpus.and(idle).iter().filter(|cpu| k.normal.may_move_to(k, id, *cpu)).collect()
}

fn is_long(k: &Kernel, since: Ns) -> bool {
    k.now.saturating_sub(since) > ONE_WAIT_NS
}

fn one_waits_for_long(k: &mut Kernel, idle: &CpuSet) {
    let idle: CpuSet = idle.iter().filter(|cpu| is_long(k, k.rqs[*cpu].idle_since)).collect();
    let found = (k.machine.cpus..k.tasks.len()).find_map(|id| {
        let task = &k.tasks[id];
        let since = waits_since(k, id, task).filter(|since| is_long(k, *since))?;
        let cpu = usable_by(k, id, task, &idle).next(0)?;
        Some((task.name.clone(), since, cpu, task.cpu))
    });
    if let Some((name, since, cpu, on)) = found {
        let ms = (k.now - since) / NS_PER_MS;
        k.fault(format!(
            "{name} has waited for {ms} ms on CPU {on} while CPU {cpu} idles, which it may use"
        ));
    }
}

fn some_wait_in_turn(k: &mut Kernel, idle: &CpuSet, waits: &mut Waits) {
    let mut usable = vec![CpuSet::default(); k.machine.cpus];
    for (id, task) in k.tasks.iter().enumerate().skip(k.machine.cpus) {
        // A task that waits for long was already found by the other check.
        let briefly = || waits_since(k, id, task).is_some_and(|since| !is_long(k, since));
        if usable[task.cpu] != *idle && briefly() {
            usable[task.cpu] = usable[task.cpu].or(&usable_by(k, id, task, idle));
        }
    }
    for (on, (usable, beside)) in usable.into_iter().zip(&mut waits.0).enumerate() {
        let stays = beside.idle.and(&usable);
        *beside = match (stays.is_empty(), usable.is_empty()) {
            (true, empty) => Beside { idle: usable, looks: u32::from(!empty) },
            (false, _) => Beside { idle: stays, looks: beside.looks + 1 },
        };
        if beside.looks > LOOKS_MAX {
            let cpu = beside.idle.next(0).unwrap_or(on);
            let ms = EVERY_NS * u64::from(LOOKS_MAX) / NS_PER_MS;
            *beside = Beside::default();
            k.fault(format!(
                "tasks have waited in turn for {ms} ms on CPU {on} while CPU {cpu} idles, which they may use"
            ));
        }
    }
}
