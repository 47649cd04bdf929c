// SPDX-License-Identifier: GPL-2.0-only
//! Tasks become runnable, run, stop running and sleep: `enqueue_task_scx()` and related functions.

use super::{dsq, exit::eject, flags};
use crate::{
    bpf::{self, At, TaskId},
    kernel::{
        Class, Enqueue, Kernel, Wake,
        ext_state::{Direct, Queue},
    },
};

/// `select_task_rq_scx()`.
pub fn select_task_rq(k: &mut Kernel, task: TaskId, prev_cpu: usize, wake: Wake) -> usize {
    let mut wake_flags = if wake.fork { flags::WAKE_FORK } else { flags::WAKE_TTWU };
    if wake.sync {
        wake_flags |= flags::WAKE_SYNC;
    }
    let here = k.this_cpu;
    k.ext.direct_task[here] = Some(task);
    let at = k.at();
    let cpu = bpf::select_cpu(k, at, task, prev_cpu, wake_flags);
    k.ext.direct_task[here] = None;
    match usize::try_from(cpu).ok().filter(|cpu| *cpu < k.machine.cpus) {
        Some(cpu) => cpu,
        None => {
            eject(k, flags::EXIT_ERROR, &format!("invalid CPU {cpu} from ops.select_cpu()"));
            prev_cpu
        }
    }
}

/// `enqueue_task_scx()`.
pub fn enqueue_task(k: &mut Kernel, cpu: usize, task: TaskId, why: Enqueue) {
    let mut enq_flags = 0;
    if why.wakeup {
        enq_flags |= flags::ENQ_WAKEUP;
    }
    if why.selected {
        enq_flags |= flags::ENQ_CPU_SELECTED;
    }
    let running = k.rqs[cpu].curr == task;
    let sticky = if why.restore && running { Some(cpu) } else { None };
    enqueue_with_flags(k, cpu, task, enq_flags, sticky);
}

/// `enqueue_task_scx()` with flags of the class itself. If `sticky_cpu` is given, the class moves
/// the task there, and the scheduler is not asked.
pub fn enqueue_with_flags(
    k: &mut Kernel,
    cpu: usize,
    task: TaskId,
    enq_flags: u64,
    sticky: Option<usize>,
) {
    set_runnable(k, task);
    set_queued(k, task, true);
    do_enqueue(k, cpu, task, enq_flags, sticky);
}

fn set_queued(k: &mut Kernel, task: TaskId, queued: bool) {
    k.tasks[task].ext.queued = queued;
    let object = &k.native.task(task).scx.flags;
    object.set(if queued {
        object.get() | flags::TASK_QUEUED
    } else {
        object.get() & !flags::TASK_QUEUED
    });
}

/// `set_task_runnable()`.
fn set_runnable(k: &mut Kernel, task: TaskId) {
    let now = k.now;
    let entity = &mut k.tasks[task].ext;
    if entity.reset_runnable_at {
        entity.runnable_at = now;
        entity.reset_runnable_at = false;
    }
}

/// `do_enqueue_task()` for a task that has not run since it was enqueued, or was preempted.
/// `why`: `SCX_TASK_REENQ_*`.
pub fn enqueue_again(k: &mut Kernel, cpu: usize, task: TaskId, why: u32) {
    k.tasks[task].ext.reenqueued += 1;
    let times = k.tasks[task].ext.reenqueued;
    if times > flags::REENQ_MAX_REPEAT {
        let name = k.tasks[task].name.clone();
        let what = format!("{name} reenqueued {times} times without running");
        eject(k, flags::EXIT_ERROR, &what);
    }
    set_reason(k, task, why);
    do_enqueue(k, cpu, task, flags::ENQ_REENQ, None);
    set_reason(k, task, 0);
}

fn set_reason(k: &mut Kernel, task: TaskId, why: u32) {
    let object = &k.native.task(task).scx.flags;
    object.set(object.get() & !flags::TASK_REENQ_REASON | why);
}

/// `do_enqueue_task()`.
fn do_enqueue(k: &mut Kernel, cpu: usize, task: TaskId, enq_flags: u64, sticky: Option<usize>) {
    if sticky == Some(cpu) {
        dsq::insert(k, cpu, task, enq_flags);
        return;
    }
    k.tasks[task].ext.immediate = false;
    if !k.rqs[cpu].active {
        refill_and_insert(k, cpu, task, enq_flags);
        return;
    }
    if k.tasks[task].ext.direct.is_none() {
        // The scheduler does not set SCX_OPS_ENQ_MIGRATION_DISABLED.
        if k.native.task(task).migration_disabled.get() != 0 {
            refill_and_insert(k, cpu, task, enq_flags);
            return;
        }
        let here = k.this_cpu;
        let outer = k.ext.direct_task[here].replace(task);
        let at = k.at();
        bpf::enqueue(k, at, task, enq_flags);
        k.ext.direct_task[here] = outer;
    }
    match k.tasks[task].ext.direct.take() {
        Some(direct) => direct_dispatch(k, cpu, task, direct, enq_flags),
        None => eject(
            k,
            flags::EXIT_ERROR,
            "ops.enqueue() has kept a task: the simulator has no such queues",
        ),
    }
}

fn refill_and_insert(k: &mut Kernel, cpu: usize, task: TaskId, enq_flags: u64) {
    k.native.task(task).scx.slice_ns.set(flags::SLICE_DFL_NS);
    k.tasks[task].ext.direct = None;
    dsq::insert(k, cpu, task, enq_flags);
}

/// `direct_dispatch()`.
fn direct_dispatch(k: &mut Kernel, cpu: usize, task: TaskId, direct: Direct, enq_flags: u64) {
    let enq_flags = direct.enq_flags | enq_flags;
    match dsq::destination(k, direct.dsq, cpu) {
        Some(to) if to == cpu => dsq::insert(k, cpu, task, enq_flags),
        Some(to) => {
            // Only this run queue is locked, so the task is moved to the other CPU later.
            k.tasks[task].ext.queue = Queue::Deferred(to);
            k.tasks[task].ext.direct = Some(Direct { dsq: direct.dsq, enq_flags });
            k.rqs[cpu].ext.deferred.push(task);
        }
        None => dsq::insert_shared(k, direct.dsq, task, enq_flags),
    }
}

/// `dequeue_task_scx()`.
pub fn dequeue_task(k: &mut Kernel, cpu: usize, task: TaskId, sleep: bool) {
    if !k.tasks[task].ext.queued {
        return;
    }
    let at = k.at();
    let migrating = k.tasks[task].ext.sticky_cpu.is_some();
    if k.rqs[cpu].curr == task {
        bpf::stopping(k, at, task, false);
    }
    if !migrating {
        bpf::quiescent(k, at, task, if sleep { flags::DEQ_SLEEP } else { 0 });
    }
    set_queued(k, task, false);
    dsq::unlink(k, cpu, task);
    k.tasks[task].ext.direct = None;
}

/// `set_next_task_scx()`.
pub fn set_next_task(k: &mut Kernel, cpu: usize, task: TaskId) {
    if k.tasks[task].ext.queued {
        dsq::unlink(k, cpu, task);
        let at = k.at();
        bpf::running(k, at, task);
    }
    k.tasks[task].ext.reset_runnable_at = true;
    k.tasks[task].ext.reenqueued = 0;
}

/// `put_prev_task_scx()`.
pub fn put_prev_task(k: &mut Kernel, cpu: usize, prev: TaskId, next: TaskId) {
    if k.tasks[prev].ext.queued {
        let at = k.at();
        bpf::stopping(k, at, prev, true);
        set_runnable(k, prev);
        let has_slice = k.native.task(prev).scx.slice_ns.get() > 0;
        let lower = k.tasks[next].class() < Class::Normal;
        if has_slice && k.tasks[prev].ext.immediate {
            enqueue_again(k, cpu, prev, flags::TASK_REENQ_PREEMPTED);
        } else if has_slice {
            dsq::insert(k, cpu, prev, flags::ENQ_HEAD);
        } else if lower && k.ext.flags & flags::OPS_ENQ_LAST != 0 {
            do_enqueue(k, cpu, prev, flags::ENQ_LAST, None);
        } else {
            do_enqueue(k, cpu, prev, 0, None);
        }
    }
    if next != prev && k.tasks[next].class() > Class::Normal {
        switch_class(k, cpu);
    }
}

/// `switch_class()`: a higher class takes the CPU.
fn switch_class(k: &mut Kernel, cpu: usize) {
    if !k.rqs[cpu].ext.cpu_released {
        k.rqs[cpu].ext.cpu_released = true;
        let at = At { cpu, now_ns: k.now, current: k.rqs[cpu].curr };
        bpf::cpu_release(k, at, cpu);
    }
}
