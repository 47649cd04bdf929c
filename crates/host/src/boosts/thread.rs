// SPDX-License-Identifier: GPL-2.0-only
//! A boosted thread: which one it is, and how far its boost goes.

/// How far a boost goes (`PC_LEVEL_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Before normal threads, behind those with a full boost: see [`priority_at`](crate::boosts::journal::Entry::priority_at).
    Interrupt,
    /// The configured priority.
    Full,
}

/// A thread as the sensor's record has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Thread.
    pub tid: u32,
    /// Start, clock ticks since boot.
    pub start_ticks: u64,
}
