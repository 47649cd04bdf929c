// SPDX-License-Identifier: GPL-2.0-only
//! The scheduling class sched_ext (kernel/sched/ext.c, kernel/sched/ext_idle.c), which calls the
//! natively compiled scheduler. Each function names the kernel's function that it follows. Dispatch
//! buffers, sub-schedulers and per-node idle sets are left out, because bpf/ does not use them.

mod class;
mod dispatch;
mod dsq;
mod exit;
mod flags;
mod idle;
mod immediate;
mod kfuncs;
mod load;
mod local;
mod watchdog;

use crate::{
    bpf::{self, GroupId, TaskId},
    kernel::{Class, Enqueue, Event, GroupChange, Kernel, SchedClass, Wake},
    time::Ns,
};

/// The ext class.
pub static EXT: ExtClass = ExtClass;

/// sched_ext with paracord's scheduler loaded.
pub struct ExtClass;

impl SchedClass for ExtClass {
    fn begin(&self, k: &mut Kernel) {
        load::enable(k);
    }

    fn select_cpu(&self, k: &mut Kernel, task: TaskId, prev_cpu: usize, wake: Wake) -> usize {
        class::select_task_rq(k, task, prev_cpu, wake)
    }

    fn enqueue(&self, k: &mut Kernel, cpu: usize, task: TaskId, why: Enqueue) {
        class::enqueue_task(k, cpu, task, why);
    }

    fn dequeue(&self, k: &mut Kernel, cpu: usize, task: TaskId, sleep: bool) {
        class::dequeue_task(k, cpu, task, sleep);
    }

    fn pick(&self, k: &mut Kernel, cpu: usize, prev: TaskId) -> Option<TaskId> {
        dispatch::pick_task(k, cpu, prev)
    }

    fn put_prev(&self, k: &mut Kernel, cpu: usize, prev: TaskId, next: TaskId) {
        class::put_prev_task(k, cpu, prev, next);
    }

    fn set_next(&self, k: &mut Kernel, cpu: usize, task: TaskId) {
        class::set_next_task(k, cpu, task);
    }

    fn account(&self, k: &mut Kernel, _cpu: usize, task: TaskId, ran_ns: Ns) {
        let slice = &k.native.task(task).scx.slice_ns;
        if slice.get() != flags::SLICE_INF {
            slice.set(slice.get().saturating_sub(ran_ns));
        }
    }

    fn tick(&self, k: &mut Kernel, cpu: usize, task: TaskId, _queued: bool) {
        let at = k.at();
        bpf::tick(k, at, task);
        if k.native.task(task).scx.slice_ns.get() == 0 {
            k.resched_curr(cpu);
        }
    }

    /// Preemption consists of a slice of 0 and a new selection of the task, so there is nothing to
    /// do here.
    fn wakeup_preempt(&self, _k: &mut Kernel, _cpu: usize, _task: TaskId, _wake: Wake) {}

    fn taken(&self, k: &mut Kernel, cpu: usize) {
        immediate::reenqueue(k, cpu);
    }

    fn woken(&self, k: &mut Kernel, cpu: usize) {
        local::run_deferred(k, cpu);
    }

    fn fork(&self, k: &mut Kernel, task: TaskId, _parent: TaskId) {
        load::init_task(k, task, true);
        load::set_enabled(k, task, k.tasks[task].class() == Class::Normal);
    }

    fn dead(&self, k: &mut Kernel, task: TaskId) {
        let at = k.at();
        bpf::disable(k, at, task);
        if k.planted.leftovers {
            k.native.edit_task(task, |record| record.counted = 1024);
        }
        if k.native.task_record(task).is_some_and(|record| record.at != 0 || record.counted != 0) {
            let name = k.tasks[task].name.clone();
            k.fault(format!("{name} has ended, and is still counted in a queue or group"));
        }
    }

    fn switched(&self, k: &mut Kernel, task: TaskId, to: bool) {
        load::set_enabled(k, task, to);
        if !to {
            let at = k.at();
            bpf::disable(k, at, task);
        }
    }

    fn yield_task(&self, k: &mut Kernel, _cpu: usize, task: TaskId) {
        let at = k.at();
        bpf::yield_to(k, at, task, None);
    }

    fn yield_to(&self, k: &mut Kernel, _cpu: usize, task: TaskId, to: TaskId) -> bool {
        let at = k.at();
        bpf::yield_to(k, at, task, Some(to))
    }

    /// `scx_prio_less()` as in 7.3, for all kernel versions.
    fn is_less_urgent(&self, k: &mut Kernel, task: TaskId, other: TaskId) -> bool {
        let at = k.at();
        bpf::core_sched_before(k, at, other, task)
    }

    fn move_group(&self, k: &mut Kernel, task: TaskId, from: GroupId, to: GroupId) {
        let at = k.at();
        bpf::cgroup_move(k, at, task, from, to);
    }

    fn group_changed(&self, k: &mut Kernel, group: GroupId, change: GroupChange) {
        // The scheduler is not told about quotas and idle groups, because it has no operations for
        // them.
        if let GroupChange::Weight(weight) = change {
            let at = k.at();
            bpf::cgroup_set_weight(k, at, group, weight);
        }
    }

    fn idle(&self, k: &mut Kernel, cpu: usize, idle: bool, _again: bool) {
        idle::update(k, cpu, idle);
    }

    fn hotplug(&self, k: &mut Kernel, cpu: usize, online: bool) {
        let at = k.at();
        bpf::cpu_online(k, at, cpu, online);
        if !online {
            idle::update(k, cpu, false);
        }
    }

    fn event(&self, k: &mut Kernel, event: Event) {
        if event == Event::Watchdog {
            watchdog::look(k);
        }
    }

    /// A task whose group has a quota may be held back where it waits, while the rest of the quota
    /// belongs to another CPU. Therefore, such waits are no fault here. A comparison with stock
    /// shows whether quotas are reached.
    fn held_back_until(&self, k: &Kernel, task: TaskId) -> Option<Ns> {
        let mut group = k.tasks[task].group;
        let mut since = 0;
        while group != 0 {
            if k.groups[group].quota.is_some() {
                return None;
            }
            since = since.max(k.groups[group].unlimited_since);
            group = k.groups[group].parent;
        }
        Some(since)
    }

    fn unlocked(&self, k: &mut Kernel, cpu: usize) {
        if k.rqs[cpu].ext.has_deferred() {
            k.lock_rq(cpu);
            local::run_deferred(k, cpu);
            k.unlock_rq(cpu);
        }
        local::kick_cpus(k);
    }
}
