// SPDX-License-Identifier: GPL-2.0-only
//! The state of core scheduling for cores and their CPUs.

use crate::{bpf::TaskId, time::Ns};

/// The state of a core.
#[derive(Clone, Debug, Default)]
pub struct Core {
    pub cookie: u32,
    /// Number of changes of the run queues of its CPUs (`core_task_seq`).
    pub task_seq: u32,
    /// The value of `task_seq` when tasks were last selected for all CPUs (`core_pick_seq`).
    pub pick_seq: u32,
    /// Number of CPUs that are forced idle although tasks wait (`core_forceidle_count`), and how
    /// often such a time has begun.
    pub forced: u32,
    pub forced_seq: u32,
    /// While tasks are being selected: whether CPUs were forced idle before (`fi_before`).
    pub forced_before: bool,
    /// Since when the threads of the core have been running tasks with different cookies.
    pub mixed_since: Option<Ns>,
}

/// The state of a CPU of the core.
#[derive(Clone, Copy, Debug, Default)]
pub struct Part {
    /// The task that another thread of the core has selected for this CPU (`core_pick`).
    pub pick: Option<TaskId>,
    /// The last selection that this CPU has followed (`core_sched_seq`).
    pub seq: u32,
}

/// All cores. Empty if no task has a cookie; then each CPU selects tasks for itself.
#[derive(Default)]
pub struct Cores {
    pub cores: Vec<Core>,
    pub parts: Vec<Part>,
}
