// SPDX-License-Identifier: GPL-2.0-only
//! Moves waiting tasks into the local queues of CPUs, from other queues and other CPUs. Also does
//! the work that an operation must leave for later: such moves, and kicks.

use super::{class, dsq, exit::eject, flags, immediate};
use crate::{
    bpf::{ENQ_PRIQ, TaskId},
    kernel::{
        Class, Kernel,
        ext_state::{Queue, Reenqueue},
    },
};

/// `task_can_run_on_remote_rq()`.
pub fn can_move(k: &Kernel, task: TaskId, cpu: usize) -> bool {
    k.native.task(task).migration_disabled.get() == 0
        && k.tasks[task].cpus.has(cpu)
        && k.rqs[cpu].active
}

/// Checks a move that the scheduler itself makes (`enforce`). The scheduler must not move a task to
/// a CPU that the task may not use. It may move a task to a CPU that is offline, because it is not
/// told in time.
pub fn may_move(k: &mut Kernel, task: TaskId, cpu: usize) -> bool {
    if k.tasks[task].cpu == cpu || can_move(k, task, cpu) {
        return true;
    }
    let name = k.tasks[task].name.clone();
    if k.native.task(task).migration_disabled.get() != 0 {
        let from = k.tasks[task].cpu;
        let what = format!(
            "SCX_DSQ_LOCAL[_ON] cannot move migration disabled {name} from CPU {from} to {cpu}"
        );
        eject(k, flags::EXIT_ERROR, &what);
    } else if !k.tasks[task].cpus.has(cpu) {
        let what = format!("SCX_DSQ_LOCAL[_ON] target CPU {cpu} not allowed for {name}");
        eject(k, flags::EXIT_ERROR, &what);
    }
    false
}

/// Moves a waiting task into the local queue of a CPU, from whichever queue it is in
/// (`move_remote_task_to_local_dsq()`, `move_local_task_to_local_dsq()`).
pub fn move_to_local(k: &mut Kernel, task: TaskId, cpu: usize, enq_flags: u64) {
    let from = k.tasks[task].cpu;
    if from == cpu {
        dsq::unlink(k, from, task);
        dsq::insert(k, cpu, task, enq_flags);
        return;
    }
    // The task belongs to no CPU until it arrives, because the locks of the run queues are taken
    // one after the other. CPUs of a core may share a lock.
    dsq::unlink(k, from, task);
    let (held_from, held_to) = (k.holds_rq(from), k.holds_rq(cpu));
    let one_lock = k.share_lock(from, cpu);
    if held_to && !one_lock {
        k.unlock_rq(cpu);
    }
    if !held_from {
        k.lock_rq(from);
    }
    // Neither the class nor the scheduler is asked about this move (sticky_cpu).
    k.tasks[task].ext.sticky_cpu = Some(cpu);
    class::dequeue_task(k, from, task, false);
    k.rqs[from].nr_running -= 1;
    k.core_changes(from);
    k.set_task_cpu(task, cpu);
    if !one_lock {
        k.unlock_rq(from);
        k.lock_rq(cpu);
    }
    k.rqs[cpu].nr_running += 1;
    k.core_changes(cpu);
    class::enqueue_with_flags(k, cpu, task, enq_flags, Some(cpu));
    k.tasks[task].ext.sticky_cpu = None;
    if !held_to {
        k.unlock_rq(cpu);
    }
    if held_from && !one_lock {
        k.lock_rq(from);
    }
}

/// `consume_dispatch_q()`: moves the first task of a queue that may run on the CPU into the CPU's
/// local queue.
pub fn consume(k: &mut Kernel, cpu: usize, dsq: u64) -> bool {
    let Some(queue) = k.ext.dsqs.get(&dsq) else { return false };
    let found = queue
        .tasks
        .values()
        .copied()
        .find(|task| k.tasks[*task].cpu == cpu || can_move(k, *task, cpu));
    if let Some(task) = found {
        move_to_local(k, task, cpu, 0);
        if std::mem::take(&mut k.planted.loses_consumed) {
            dsq::unlink(k, cpu, task);
            dsq::insert_shared(k, dsq, task, ENQ_PRIQ);
        }
    }
    found.is_some()
}

/// `reenq_local()`: enqueues tasks of a local queue again, and returns their number.
pub fn reenqueue(k: &mut Kernel, cpu: usize, which: Reenqueue) -> u32 {
    let open = immediate::is_open(k, cpu, 0);
    let waits = |k: &Kernel, place: usize, task: TaskId| {
        k.tasks[task].ext.immediate && (place > 0 || !open)
    };
    let tasks: Vec<_> = (k.rqs[cpu].ext.local.iter().copied().enumerate())
        .map(|(place, task)| (task, waits(k, place, task)))
        .filter(|(_, waits)| *waits || which == Reenqueue::All)
        .collect();
    for (task, _) in &tasks {
        dsq::unlink(k, cpu, *task);
    }
    for (task, waits) in &tasks {
        let why = if *waits { flags::TASK_REENQ_IMMED } else { flags::TASK_REENQ_KFUNC };
        class::enqueue_again(k, cpu, *task, why);
    }
    tasks.len() as u32
}

/// `run_deferred()`: does the work that an operation could not do while it held the lock of the run
/// queue.
pub fn run_deferred(k: &mut Kernel, cpu: usize) {
    loop {
        run_deferred_inserts(k, cpu);
        let Some(which) = k.rqs[cpu].ext.reenqueue.take() else { return };
        reenqueue(k, cpu, which);
    }
}

/// `process_ddsp_deferred_locals()`: tasks on their way to the local queues of other CPUs arrive.
fn run_deferred_inserts(k: &mut Kernel, cpu: usize) {
    k.assert_rq_held(cpu);
    while let Some(task) = k.rqs[cpu].ext.deferred.first().copied() {
        k.rqs[cpu].ext.deferred.remove(0);
        let Queue::Deferred(to) = k.tasks[task].ext.queue else { continue };
        k.tasks[task].ext.queue = Queue::None;
        let enq_flags = k.tasks[task].ext.direct.take().map_or(0, |direct| direct.enq_flags);
        if may_move(k, task, to) {
            move_to_local(k, task, to, enq_flags);
            if k.tasks[k.rqs[to].curr].class() < Class::Normal {
                k.resched_curr(to);
            }
        } else {
            dsq::insert_shared(k, flags::DSQ_GLOBAL, task, enq_flags);
        }
    }
}

/// `kick_cpus_irq_workfn()`.
pub fn kick_cpus(k: &mut Kernel) {
    let here = k.this_cpu;
    for (cpu, kick) in std::mem::take(&mut k.ext.kicks[here]) {
        k.lock_rq(cpu);
        kick_one(k, cpu, kick);
        k.unlock_rq(cpu);
    }
}

/// `kick_one_cpu()`, `kick_one_cpu_if_idle()`.
fn kick_one(k: &mut Kernel, cpu: usize, kick: u64) {
    k.assert_rq_held(cpu);
    let curr = k.rqs[cpu].curr;
    let class = k.tasks[curr].class();
    if !k.rqs[cpu].active || class > Class::Normal {
        return;
    }
    if kick & flags::KICK_IDLE != 0 && class != Class::Idle {
        return;
    }
    if kick & flags::KICK_PREEMPT != 0 && class == Class::Normal {
        k.native.task(curr).scx.slice_ns.set(0);
    }
    k.resched_curr(cpu);
}
