// SPDX-License-Identifier: GPL-2.0-only
//! What core scheduling remembers of cores and their CPUs.

use crate::{bpf::TaskId, time::Ns};

/// A core.
#[derive(Clone, Debug, Default)]
pub struct Core {
    pub cookie: u32,
    /// Changes of its CPUs' run queues (`core_task_seq`).
    pub task_seq: u32,
    /// What `task_seq` was when all CPUs were looked at last (`core_pick_seq`).
    pub pick_seq: u32,
    /// CPUs that are idle although somebody waits (`core_forceidle_count`), and how often that began.
    pub forced: u32,
    pub forced_seq: u32,
    /// While who runs next is looked for: there were some before (`fi_before`).
    pub forced_before: bool,
    /// Since when its threads run tasks of different cookies.
    pub mixed_since: Option<Ns>,
}

/// A CPU's part of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Part {
    /// Who is to run next, as another thread has found (`core_pick`).
    pub pick: Option<TaskId>,
    /// The look that this one followed last (`core_sched_seq`).
    pub seq: u32,
}

/// All cores; none: nobody has a cookie, and each CPU looks for itself.
#[derive(Default)]
pub struct Cores {
    pub cores: Vec<Core>,
    pub parts: Vec<Part>,
}
