// SPDX-License-Identifier: GPL-2.0-only
//! The identity of a boosted thread, and the level of its boost.

/// Level of a boost (`PC_LEVEL_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The thread runs ahead of normal threads, but behind threads with a full boost. See
    /// [`priority_at`](crate::boosts::journal::Entry::priority_at).
    Interrupt,
    /// The thread has the configured priority.
    Full,
}

/// A thread. Its start time distinguishes it from a later thread with the same ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Thread ID.
    pub tid: u32,
    /// Start time, clock ticks since boot.
    pub start_ticks: u64,
}

/// The process of a thread. A thread that calls execve(2) takes over the ID and the start time of
/// the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// ID of the process and of its thread group leader.
    pub pid: u32,
    /// Start time, clock ticks since boot.
    pub start_ticks: u64,
}
