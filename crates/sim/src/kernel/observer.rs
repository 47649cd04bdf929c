// SPDX-License-Identifier: GPL-2.0-only
//! Who is told what happens.

use super::Task;
use crate::{bpf::TaskId, time::Ns};

/// What tells a trace what happens.
pub trait Observer {
    /// A CPU switches; an idle task's number is below the number of CPUs.
    fn switched(&mut self, now: Ns, cpu: usize, prev: TaskId, next: &Task, next_id: TaskId);
    /// A task wakes; `cpu` is the one that wakes it.
    fn woken(&mut self, now: Ns, cpu: usize, task: &Task, id: TaskId);
    /// The task that ran on a CPU stops running there; its state says why. Before the switch.
    fn stopping(&mut self, _now: Ns, _cpu: usize, _task: &Task, _id: TaskId) {}
    /// A task comes to a CPU's run queue.
    fn enqueued(&mut self, _now: Ns, _cpu: usize, _task: &Task, _id: TaskId) {}
    /// The ext class has put a task where the scheduler wants it to wait.
    fn placed(&mut self, _now: Ns, _place: Place, _task: &Task, _id: TaskId) {}
    /// Nothing more happens: the run is over.
    fn ended(&mut self, _now: Ns) {}
}

/// Where the ext class lets a task wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a CPU's local queue.
    Local {
        /// The CPU.
        cpu: usize,
        /// Before all others there (`SCX_ENQ_HEAD`, `SCX_ENQ_PREEMPT`).
        front: bool,
        /// The task that runs there has to go.
        preempts: bool,
    },
    /// In a queue of the scheduler's, or the global one.
    Shared(u64),
}
