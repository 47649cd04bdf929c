// SPDX-License-Identifier: GPL-2.0-only
//! The state of the ext class for tasks, CPUs and the machine. The module crate::ext contains the
//! class itself.

use std::collections::{BTreeMap, VecDeque};

use crate::{bpf::TaskId, machine::CpuSet, time::Ns};

/// Where a task waits (`p->scx.dsq`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Queue {
    /// In no queue: the task runs, sleeps, or is on its way to a queue.
    #[default]
    None,
    /// A CPU's local queue.
    Local(usize),
    /// A queue of the scheduler, or the global one (`SCX_DSQ_GLOBAL`).
    Shared(u64),
    /// The task was inserted into the local queue of another CPU. It goes there when the run queue
    /// of its present CPU is unlocked (`rq->scx.ddsp_deferred_locals`).
    Deferred(usize),
}

/// The queue into which `ops.select_cpu()` or `ops.enqueue()` has inserted a task
/// (`p->scx.ddsp_dsq_id`, `ddsp_enq_flags`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Direct {
    /// `SCX_DSQ_*`, or a queue of the scheduler.
    pub dsq: u64,
    /// `SCX_ENQ_*`.
    pub enq_flags: u64,
}

/// The state of a task.
#[derive(Clone, Debug, Default)]
pub struct Entity {
    /// The queue in which the task waits.
    pub queue: Queue,
    /// The task's position in this queue.
    pub key: (u64, u64),
    /// `SCX_TASK_QUEUED`.
    pub queued: bool,
    /// The queue into which the task was inserted before it was enqueued.
    pub direct: Option<Direct>,
    /// The CPU to which the class itself moves the task (`p->scx.sticky_cpu`).
    pub sticky_cpu: Option<usize>,
    /// The task must run at once or be enqueued again (`SCX_TASK_IMMED`).
    pub immediate: bool,
    /// How often the task was enqueued again since it has run (`p->scx.reenq_cnt`).
    pub reenqueued: u32,
    /// Since when the task has been runnable (`p->scx.runnable_at`).
    pub runnable_at: Ns,
    /// `SCX_TASK_RESET_RUNNABLE_AT`.
    pub reset_runnable_at: bool,
}

/// Which tasks of a local queue are enqueued again (`SCX_REENQ_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reenqueue {
    /// Those that must run at once and cannot.
    Immediate,
    /// All (`SCX_REENQ_ANY`).
    All,
}

/// The state of a CPU (`struct scx_rq`).
#[derive(Default)]
pub struct ExtRq {
    /// The local queue.
    pub local: VecDeque<TaskId>,
    /// Tasks on their way to the local queues of other CPUs.
    pub deferred: Vec<TaskId>,
    /// Whether tasks of the local queue must be enqueued again when the run queue is unlocked
    /// (`deferred_reenq_locals`).
    pub reenqueue: Option<Reenqueue>,
    /// The CPU for which this CPU runs `ops.dispatch()` (`scx_dsp_ctx->rq`).
    pub balances: Option<usize>,
    /// Whether `ops.dispatch()` has moved a task to this CPU (`dspc->nr_tasks`).
    pub consumed: bool,
    /// `SCX_RQ_IN_BALANCE`.
    pub in_balance: bool,
    /// Whether a higher class uses the CPU and the scheduler was told so.
    pub cpu_released: bool,
}

impl ExtRq {
    /// Whether work waits until the run queue is unlocked.
    #[must_use]
    pub fn has_deferred(&self) -> bool {
        self.reenqueue.is_some() || !self.deferred.is_empty()
    }
}

/// A queue that is not local. It is ordered by insertion or by virtual time.
#[derive(Default)]
pub struct Dsq {
    /// The tasks. Their position is the virtual time (0 if the queue has none) and the number of
    /// the insertion.
    pub tasks: BTreeMap<(u64, u64), TaskId>,
    /// Number of insertions so far.
    pub seq: u64,
}

/// The state of the machine.
#[derive(Default)]
pub struct Ext {
    /// The queues of the scheduler and the global queue, by number.
    pub dsqs: BTreeMap<u64, Dsq>,
    /// CPUs that are idle according to the class's own search.
    pub idle: CpuSet,
    /// CPUs of cores on which all CPUs are idle.
    pub idle_cores: CpuSet,
    /// For each CPU, the task for which `ops.select_cpu()` or `ops.enqueue()` is running
    /// (`direct_dispatch_task`).
    pub direct_task: Vec<Option<TaskId>>,
    /// For each CPU, the CPUs to kick when the operation has returned, with flags.
    pub kicks: Vec<Vec<(usize, u64)>>,
    /// `SCX_OPS_*`.
    pub flags: u64,
    /// How long a runnable task may wait before the scheduler is unloaded.
    pub timeout_ns: Ns,
    /// Why the scheduler was unloaded.
    pub ended: Option<String>,
}
