// SPDX-License-Identifier: GPL-2.0-only
//! The interface of observers.

use super::Task;
use crate::{bpf::TaskId, time::Ns};

/// An observer of a run.
pub trait Observer {
    /// A CPU switches to another task. The numbers of idle tasks are below the number of CPUs.
    fn switched(&mut self, now: Ns, cpu: usize, prev: TaskId, next: &Task, next_id: TaskId);
    /// A task wakes. `cpu` is the CPU that wakes it.
    fn woken(&mut self, now: Ns, cpu: usize, task: &Task, id: TaskId);
    /// The running task of a CPU is about to stop. Its state says why. This comes before the
    /// switch.
    fn stopping(&mut self, _now: Ns, _cpu: usize, _task: &Task, _id: TaskId) {}
    /// A task comes to a CPU's run queue.
    fn enqueued(&mut self, _now: Ns, _cpu: usize, _task: &Task, _id: TaskId) {}
    /// The ext class has put a task where the scheduler wants it to wait.
    fn placed(&mut self, _now: Ns, _place: Place, _task: &Task, _id: TaskId) {}
    /// The run has ended.
    fn ended(&mut self, _now: Ns) {}
}

/// Where a task of the ext class waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a CPU's local queue.
    Local {
        /// The CPU.
        cpu: usize,
        /// Whether the task is put before all others there (`SCX_ENQ_HEAD`, `SCX_ENQ_PREEMPT`).
        front: bool,
        /// Whether the task preempts the running task.
        preempts: bool,
    },
    /// In a queue of the scheduler, or in the global one.
    Shared(u64),
}
