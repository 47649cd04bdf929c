// SPDX-License-Identifier: GPL-2.0-only
//! What the ext class keeps of tasks, CPUs and for the machine; what happens to it: crate::ext.

use std::collections::{BTreeMap, VecDeque};

use crate::{bpf::TaskId, machine::CpuSet, time::Ns};

/// Where a task waits (`p->scx.dsq`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Queue {
    /// Nowhere: it runs, sleeps, or is on its way.
    #[default]
    None,
    /// A CPU's local queue.
    Local(usize),
    /// A queue of the scheduler's, or the global one (`SCX_DSQ_GLOBAL`).
    Shared(u64),
    /// It was inserted into another CPU's local queue, and goes there when its own run queue is unlocked
    /// (`rq->scx.ddsp_deferred_locals`).
    Deferred(usize),
}

/// Where `ops.select_cpu()` or `ops.enqueue()` have inserted a task (`p->scx.ddsp_dsq_id`, `ddsp_enq_flags`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Direct {
    /// `SCX_DSQ_*`, or a queue of the scheduler's.
    pub dsq: u64,
    /// `SCX_ENQ_*`.
    pub enq_flags: u64,
}

/// A task's part.
#[derive(Clone, Debug, Default)]
pub struct Entity {
    /// Where it waits.
    pub queue: Queue,
    /// Its place there.
    pub key: (u64, u64),
    /// `SCX_TASK_QUEUED`.
    pub queued: bool,
    /// It was inserted before it was enqueued.
    pub direct: Option<Direct>,
    /// CPU to which the class itself moves it (`p->scx.sticky_cpu`).
    pub sticky_cpu: Option<usize>,
    /// Since when it wants to run (`p->scx.runnable_at`).
    pub runnable_at: Ns,
    /// `SCX_TASK_RESET_RUNNABLE_AT`.
    pub reset_runnable_at: bool,
}

/// A CPU's part (`struct scx_rq`).
#[derive(Default)]
pub struct ExtRq {
    /// The local queue.
    pub local: VecDeque<TaskId>,
    /// Tasks on their way to other CPUs' local queues.
    pub deferred: Vec<TaskId>,
    /// The local queue is to be enqueued anew when the run queue is unlocked (`deferred_reenq_locals`).
    pub reenqueue: bool,
    /// `ops.dispatch()` has moved a task here (`dspc->nr_tasks`).
    pub consumed: bool,
    /// `SCX_RQ_IN_BALANCE`.
    pub in_balance: bool,
    /// A higher class has the CPU, and the scheduler was told.
    pub cpu_released: bool,
}

impl ExtRq {
    /// Whether something waits until the run queue is unlocked.
    #[must_use]
    pub fn has_deferred(&self) -> bool {
        self.reenqueue || !self.deferred.is_empty()
    }
}

/// A queue that is no local one: first in, first out, or by virtual time.
#[derive(Default)]
pub struct Dsq {
    /// By place: virtual time (0: none) and the number of the insertion.
    pub tasks: BTreeMap<(u64, u64), TaskId>,
    /// Insertions so far.
    pub seq: u64,
}

/// The machine's part.
#[derive(Default)]
pub struct Ext {
    /// Queues of the scheduler's, and the global one, by number.
    pub dsqs: BTreeMap<u64, Dsq>,
    /// CPUs that are idle, as the class's own search sees it.
    pub idle: CpuSet,
    /// CPUs of cores that are idle altogether.
    pub idle_cores: CpuSet,
    /// The task that `ops.select_cpu()` or `ops.enqueue()` is asked about, by CPU (`direct_dispatch_task`).
    pub direct_task: Vec<Option<TaskId>>,
    /// The CPU for which `ops.dispatch()` is asked (`scx_dsp_ctx->rq`).
    pub balanced: Option<usize>,
    /// By CPU, those that it is to kick once the operation has returned: flags.
    pub kicks: Vec<Vec<(usize, u64)>>,
    /// `SCX_OPS_*`.
    pub flags: u64,
    /// How long a runnable task may wait.
    pub timeout_ns: Ns,
    /// Why the scheduler was unloaded.
    pub ended: Option<String>,
}
