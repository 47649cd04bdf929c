// SPDX-License-Identifier: GPL-2.0-only
//! What the actuator is told, and what it looks at.

use crate::boosts::thread::{Level, Thread};

/// What a message asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Give the thread SCHED_RR, or raise it to this level.
    Boost(Level),
    /// Give it back what it had.
    Unboost,
    /// Forget it: it has ended.
    Gone,
}

/// A decision on its way (`struct pc_msg`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// What to do.
    pub action: Action,
    /// vCPU index, below [`ENTRIES`](crate::boosts::journal_file::ENTRIES).
    pub index: u32,
    /// Thread.
    pub tid: u32,
    /// CLOCK_MONOTONIC of the decision.
    pub decided_ns: u64,
}

/// The sensor's records, as far as the actuator looks at them.
pub trait VcpuTable {
    /// The thread of vCPU `index` while it lives (`PC_VCPU_READY`): it has not
    /// reached its exit, so its tid cannot name another thread.
    fn live_thread(&self, index: u32) -> Option<Thread>;

    /// Whether a control group above the thread has a limit that it would get past as a real-time one.
    fn is_refused(&self, index: u32) -> bool;
}
