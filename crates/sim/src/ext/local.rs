// SPDX-License-Identifier: GPL-2.0-only
//! Waiting tasks move into CPUs' local queues, from other queues and other CPUs. What an operation must leave for later
//! is done here, too: such moves, and kicks.

use super::{class, dsq, exit::eject, flags};
use crate::{
    bpf::{ENQ_PRIQ, TaskId},
    kernel::{Class, Kernel, ext_state::Queue},
};

/// `task_can_run_on_remote_rq()`.
pub fn can_move(k: &Kernel, task: TaskId, cpu: usize) -> bool {
    k.native.task(task).migration_disabled.get() == 0
        && k.tasks[task].cpus.has(cpu)
        && k.rqs[cpu].active
}

/// The same of a task that the scheduler moves itself (`enforce`): it must not move one where it may not run. To a CPU
/// that is gone, it may: nobody tells it in time.
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

/// A waiting task goes into a CPU's local queue, from wherever it is (`move_remote_task_to_local_dsq()`,
/// `move_local_task_to_local_dsq()`).
pub fn move_to_local(k: &mut Kernel, task: TaskId, cpu: usize, enq_flags: u64) {
    let from = k.tasks[task].cpu;
    if from == cpu {
        dsq::unlink(k, from, task);
        dsq::insert(k, cpu, task, enq_flags);
        return;
    }
    // It is nobody's until it arrives: one run queue's lock after the other. CPUs of a core may have the same one.
    dsq::unlink(k, from, task);
    let (held_from, held_to) = (k.holds_rq(from), k.holds_rq(cpu));
    let one_lock = k.share_lock(from, cpu);
    if held_to && !one_lock {
        k.unlock_rq(cpu);
    }
    if !held_from {
        k.lock_rq(from);
    }
    // Nobody is asked: neither class nor scheduler (sticky_cpu).
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

/// `consume_dispatch_q()`: the first task of a queue that may run on the CPU goes into its local queue.
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

/// `reenq_local()`: all tasks of a local queue are enqueued anew; how many.
pub fn reenqueue(k: &mut Kernel, cpu: usize) -> u32 {
    let tasks: Vec<_> = k.rqs[cpu].ext.local.iter().copied().collect();
    for task in &tasks {
        dsq::unlink(k, cpu, *task);
    }
    for task in &tasks {
        class::do_enqueue(k, cpu, *task, flags::ENQ_REENQ, None);
    }
    tasks.len() as u32
}

/// `run_deferred()`: what could not be done while the run queue was locked by an operation.
pub fn run_deferred(k: &mut Kernel, cpu: usize) {
    loop {
        run_deferred_inserts(k, cpu);
        if !std::mem::take(&mut k.rqs[cpu].ext.reenqueue) {
            return;
        }
        reenqueue(k, cpu);
    }
}

/// `process_ddsp_deferred_locals()`: tasks on their way to other CPUs' local queues arrive.
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
