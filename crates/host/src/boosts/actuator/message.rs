// SPDX-License-Identifier: GPL-2.0-only
//! The messages that the actuator receives, and the part of the sensor's records that it reads.

use crate::boosts::thread::{Level, Process, Thread};

/// The action that a message requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Boost the thread to this level, or raise its boost to this level.
    Boost(Level),
    /// End the boost of the thread, and restore its attributes.
    Unboost,
    /// Forget the thread, which has ended.
    Gone,
    /// End the boost of the thread, restore its attributes, and forget the thread. The thread has
    /// called execve(2), so it is no longer a vCPU. The message contains the ID that the thread has
    /// after that call.
    Exec,
}

/// A message about a decision (`struct pc_msg`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The action to carry out.
    pub action: Action,
    /// vCPU index, below [`ENTRIES`](crate::boosts::journal_file::ENTRIES).
    pub index: u32,
    /// Thread ID.
    pub tid: u32,
    /// Time of the decision, CLOCK_MONOTONIC.
    pub decided_ns: u64,
}

/// The part of the sensor's records that the actuator reads.
pub trait VcpuTable {
    /// The thread of vCPU `index`, if the record of the vCPU is ready (`PC_VCPU_READY`). Such a
    /// thread has not exited yet, so its tid names no other thread. The exception is a thread that
    /// is calling execve(2) at this moment ([`Action::Exec`]).
    fn live_thread(&self, index: u32) -> Option<Thread>;

    /// The process of a live thread.
    fn process(&self, index: u32) -> Process;

    /// Whether the thread must not be boosted, for example because a real-time thread would bypass
    /// a CPU limit of the control groups above it.
    fn is_refused(&self, index: u32) -> bool;
}
