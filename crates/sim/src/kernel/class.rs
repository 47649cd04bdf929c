// SPDX-License-Identifier: GPL-2.0-only
//! What a scheduling class of ordinary tasks does (`struct sched_class`, kernel/sched/sched.h): fair or ext.
//! Each function is the kernel's of about the same name. Run queues are the given CPU's.

use super::{Event, Kernel};
use crate::{
    bpf::{GroupId, TaskId},
    mix::Quota,
    time::Ns,
};

/// Why a task comes to a run queue: the kernel's ENQUEUE_* and WF_*.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Enqueue {
    /// It wakes (ENQUEUE_WAKEUP).
    pub wakeup: bool,
    /// The class was asked for a CPU (ENQUEUE_RQ_SELECTED).
    pub selected: bool,
    /// It comes from another CPU (ENQUEUE_MIGRATED).
    pub migrated: bool,
    /// It is new (ENQUEUE_INITIAL).
    pub initial: bool,
    /// It goes on as before a change of its attributes (ENQUEUE_RESTORE).
    pub restore: bool,
}

/// Why a class is asked for a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wake {
    /// Who wakes it is about to sleep (WF_SYNC).
    pub sync: bool,
    /// It is new (WF_FORK).
    pub fork: bool,
}

/// What changed about a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupChange {
    /// `cpu.weight`.
    Weight(u32),
    /// `cpu.max`.
    Quota(Option<Quota>),
    /// `cpu.idle`.
    Idle(bool),
}

/// A class of ordinary tasks.
pub trait SchedClass {
    /// The machine is made: its groups are there, its tasks are not.
    fn begin(&self, k: &mut Kernel);
    /// A CPU for a task that wakes or is new (`select_task_rq`). The task may run on several.
    fn select_cpu(&self, k: &mut Kernel, task: TaskId, prev_cpu: usize, wake: Wake) -> usize;
    /// A task comes to a run queue (`enqueue_task`).
    fn enqueue(&self, k: &mut Kernel, cpu: usize, task: TaskId, why: Enqueue);
    /// A task leaves it, running or not; `sleep`: it does not want to run any more (`dequeue_task`).
    fn dequeue(&self, k: &mut Kernel, cpu: usize, task: TaskId, sleep: bool);
    /// Who runs next (`pick_task`), `prev` perhaps, which is not put back yet. It may take tasks over from other CPUs.
    fn pick(&self, k: &mut Kernel, cpu: usize, prev: TaskId) -> Option<TaskId>;
    /// A task of this class stops running, for `next` (`put_prev_task`).
    fn put_prev(&self, k: &mut Kernel, cpu: usize, prev: TaskId, next: TaskId);
    /// A task of this class begins to run (`set_next_task`).
    fn set_next(&self, k: &mut Kernel, cpu: usize, task: TaskId);
    /// The task that runs, of this class, has run for that long more (`update_curr`).
    fn account(&self, k: &mut Kernel, cpu: usize, task: TaskId, ran_ns: Ns);
    /// The tick, while a task of this class runs (`task_tick`). `queued`: it is not the periodic one, but the timer that
    /// ends a slice.
    fn tick(&self, k: &mut Kernel, cpu: usize, task: TaskId, queued: bool);
    /// A timer that ends a slice fires: whether it was not cancelled (`hrtick`).
    fn hrtick(&self, _k: &mut Kernel, _cpu: usize, _seq: u32) -> bool {
        false
    }
    /// The tick, whatever runs (`sched_balance_trigger`, `scx_tick`).
    fn every_tick(&self, _k: &mut Kernel, _cpu: usize) {}
    /// A task of this class came to a CPU where one of this class runs: does it take the CPU (`wakeup_preempt`)?
    fn wakeup_preempt(&self, k: &mut Kernel, cpu: usize, task: TaskId, wake: Wake);
    /// After a wakeup (`task_woken`).
    fn woken(&self, _k: &mut Kernel, _cpu: usize) {}
    /// A task begins, not yet in a run queue (`task_fork`). `parent`: who forks it, an idle task perhaps.
    fn fork(&self, k: &mut Kernel, task: TaskId, parent: TaskId);
    /// A task has ended, and is in no run queue (`task_dead`).
    fn dead(&self, k: &mut Kernel, task: TaskId);
    /// A task that is in no run queue becomes one of this class's, or is none any more (`switched_to`, `switched_from`).
    fn switched(&self, _k: &mut Kernel, _task: TaskId, _to: bool) {}
    /// A task's CPU is about to change; it is in no run queue (`migrate_task_rq`).
    fn migrate(&self, _k: &mut Kernel, _task: TaskId, _to_cpu: usize) {}
    /// The task that runs gives way (`yield_task`).
    fn yield_task(&self, k: &mut Kernel, cpu: usize, task: TaskId);
    /// The same, for a task that waits on this CPU or another one, whose run queue is locked: whether it does
    /// (`yield_to_task`).
    fn yield_to(&self, k: &mut Kernel, cpu: usize, task: TaskId, to: TaskId) -> bool;
    /// Whether a task comes after another one, of this CPU or of another thread of its core (`prio_less`).
    fn is_less_urgent(&self, k: &mut Kernel, task: TaskId, other: TaskId) -> bool;
    /// A task that is in no run queue moves to another group (`task_change_group`).
    fn move_group(&self, k: &mut Kernel, task: TaskId, from: GroupId, to: GroupId);
    /// A group has changed; its record in [`Kernel::groups`] says how it is now.
    fn group_changed(&self, k: &mut Kernel, group: GroupId, change: GroupChange);
    /// The CPU begins (`idle`) or ends to be idle; `again`: it was idle before (`scx_update_idle`).
    fn idle(&self, _k: &mut Kernel, _cpu: usize, _idle: bool, _again: bool) {}
    /// A CPU comes or goes; its tasks are moved by the kernel afterwards (`rq_online`, `rq_offline`).
    fn hotplug(&self, _k: &mut Kernel, _cpu: usize, _online: bool) {}
    /// One of the class's own events.
    fn event(&self, _k: &mut Kernel, _event: Event) {}
    /// What is to be done once the run queues are unlocked, on this CPU: deferred moves, kicks (irq_work).
    fn unlocked(&self, _k: &mut Kernel, _cpu: usize) {}
    /// Whether a task may be moved to a CPU that it may use: its group's quota is not spent there.
    fn may_move_to(&self, _k: &Kernel, _task: TaskId, _cpu: usize) -> bool {
        true
    }
    /// Until when a runnable task could not have run, as the quota was spent; `None`: it cannot now.
    fn held_back_until(&self, _k: &Kernel, _task: TaskId) -> Option<Ns> {
        Some(0)
    }
}
