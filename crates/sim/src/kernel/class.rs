// SPDX-License-Identifier: GPL-2.0-only
//! The interface of a scheduling class for ordinary tasks (`struct sched_class`,
//! kernel/sched/sched.h), which fair and ext implement. Each function corresponds to the kernel's
//! function of a similar name. Run queues are those of the given CPU.

use super::{Event, Kernel};
use crate::{
    bpf::{GroupId, TaskId},
    mix::Quota,
    time::Ns,
};

/// Why a task is added to a run queue: the kernel's ENQUEUE_* and WF_*.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Enqueue {
    /// The task wakes (ENQUEUE_WAKEUP).
    pub wakeup: bool,
    /// The class has selected the CPU (ENQUEUE_RQ_SELECTED).
    pub selected: bool,
    /// The task comes from another CPU (ENQUEUE_MIGRATED).
    pub migrated: bool,
    /// The task is new (ENQUEUE_INITIAL).
    pub initial: bool,
    /// The task continues after a change of its attributes (ENQUEUE_RESTORE).
    pub restore: bool,
}

/// Why a class must select a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wake {
    /// The waker is about to sleep (WF_SYNC).
    pub sync: bool,
    /// The task is new (WF_FORK).
    pub fork: bool,
}

/// A change of a group.
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
    /// Called after the machine was made. The machine's groups exist, but no tasks.
    fn begin(&self, k: &mut Kernel);
    /// Selects a CPU for a task that wakes or is new (`select_task_rq`). The task may use several
    /// CPUs.
    fn select_cpu(&self, k: &mut Kernel, task: TaskId, prev_cpu: usize, wake: Wake) -> usize;
    /// Adds a task to a run queue (`enqueue_task`).
    fn enqueue(&self, k: &mut Kernel, cpu: usize, task: TaskId, why: Enqueue);
    /// Removes a task from a run queue, whether it runs or not. `sleep`: the task is no longer
    /// runnable (`dequeue_task`).
    fn dequeue(&self, k: &mut Kernel, cpu: usize, task: TaskId, sleep: bool);
    /// Selects the task that runs next (`pick_task`). This may be `prev`, which has not been put
    /// back yet. The function may take tasks from other CPUs.
    fn pick(&self, k: &mut Kernel, cpu: usize, prev: TaskId) -> Option<TaskId>;
    /// A task of this class stops running, and `next` begins (`put_prev_task`).
    fn put_prev(&self, k: &mut Kernel, cpu: usize, prev: TaskId, next: TaskId);
    /// A task of this class begins to run (`set_next_task`).
    fn set_next(&self, k: &mut Kernel, cpu: usize, task: TaskId);
    /// Charges the running task, which belongs to this class, for another `ran_ns` (`update_curr`).
    fn account(&self, k: &mut Kernel, cpu: usize, task: TaskId, ran_ns: Ns);
    /// Handles the tick while a task of this class runs (`task_tick`). `queued`: this is not the
    /// periodic tick, but the timer that ends a slice.
    fn tick(&self, k: &mut Kernel, cpu: usize, task: TaskId, queued: bool);
    /// The timer that ends a slice fires. Returns false if the timer had been cancelled (`hrtick`).
    fn hrtick(&self, _k: &mut Kernel, _cpu: usize, _seq: u32) -> bool {
        false
    }
    /// Handles the tick, whatever the CPU runs (`sched_balance_trigger`, `scx_tick`).
    fn every_tick(&self, _k: &mut Kernel, _cpu: usize) {}
    /// A task of this class came to a CPU that runs a task of this class. Decides whether it
    /// preempts the running task (`wakeup_preempt`).
    fn wakeup_preempt(&self, k: &mut Kernel, cpu: usize, task: TaskId, wake: Wake);
    /// A task of a higher class came to a CPU that runs a task of this class, or is about to
    /// (`wakeup_preempt`).
    fn taken(&self, _k: &mut Kernel, _cpu: usize) {}
    /// Called after a wakeup (`task_woken`).
    fn woken(&self, _k: &mut Kernel, _cpu: usize) {}
    /// Prepares a new task, which is in no run queue yet (`task_fork`). `parent` is the task that
    /// forks it, or an idle task.
    fn fork(&self, k: &mut Kernel, task: TaskId, parent: TaskId);
    /// A task has ended and is in no run queue (`task_dead`).
    fn dead(&self, k: &mut Kernel, task: TaskId);
    /// A task that is in no run queue enters or leaves this class (`switched_to`, `switched_from`).
    fn switched(&self, _k: &mut Kernel, _task: TaskId, _to: bool) {}
    /// The CPU of a task that is in no run queue is about to change (`migrate_task_rq`).
    fn migrate(&self, _k: &mut Kernel, _task: TaskId, _to_cpu: usize) {}
    /// The running task yields (`yield_task`).
    fn yield_task(&self, k: &mut Kernel, cpu: usize, task: TaskId);
    /// The running task yields to a task that waits on this CPU or on another one, whose run queue
    /// is locked. Returns whether the class has done this (`yield_to_task`).
    fn yield_to(&self, k: &mut Kernel, cpu: usize, task: TaskId, to: TaskId) -> bool;
    /// Whether a task is less urgent than another one, which is on the same CPU or on another
    /// thread of its core (`prio_less`).
    fn is_less_urgent(&self, k: &mut Kernel, task: TaskId, other: TaskId) -> bool;
    /// Moves a task that is in no run queue to another group (`task_change_group`).
    fn move_group(&self, k: &mut Kernel, task: TaskId, from: GroupId, to: GroupId);
    /// A group has changed. Its record in [`Kernel::groups`] contains the new values.
    fn group_changed(&self, k: &mut Kernel, group: GroupId, change: GroupChange);
    /// The CPU becomes idle (`idle`) or busy. `again`: the CPU was already idle
    /// (`scx_update_idle`).
    fn idle(&self, _k: &mut Kernel, _cpu: usize, _idle: bool, _again: bool) {}
    /// A CPU goes online or offline. The kernel moves its tasks afterwards (`rq_online`,
    /// `rq_offline`).
    fn hotplug(&self, _k: &mut Kernel, _cpu: usize, _online: bool) {}
    /// Handles one of the class's own events.
    fn event(&self, _k: &mut Kernel, _event: Event) {}
    /// Does the work that had to wait until the run queues of this CPU were unlocked: deferred
    /// moves and kicks (irq_work).
    fn unlocked(&self, _k: &mut Kernel, _cpu: usize) {}
    /// Whether a task can be moved to a CPU that it may use: the quota of its group must not be
    /// used up there.
    fn may_move_to(&self, _k: &Kernel, _task: TaskId, _cpu: usize) -> bool {
        true
    }
    /// The time until which a runnable task could not run because its quota was used up. `None` if
    /// it still cannot run.
    fn held_back_until(&self, _k: &Kernel, _task: TaskId) -> Option<Ns> {
        Some(0)
    }
}
