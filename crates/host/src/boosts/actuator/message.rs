// SPDX-License-Identifier: GPL-2.0-only
//! The messages to the actuator, and the records that it reads.

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
    /// End the boost of the thread, restore its attributes, and forget the thread: it has called
    /// execve(2), and is no vCPU any more. The message contains the thread's ID since then.
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
    /// The thread of vCPU `index`, if its record is ready (`PC_VCPU_READY`). Such a thread has not
    /// reached its exit, so its tid cannot name another thread, unless it is calling execve(2) at
    /// this moment ([`Action::Exec`]).
    fn live_thread(&self, index: u32) -> Option<Thread>;

    /// The process of a live thread.
    fn process(&self, index: u32) -> Process;

    /// Whether the thread must not be boosted, for example because a control group above it has a
    /// CPU limit that a real-time thread would escape.
    fn is_refused(&self, index: u32) -> bool;
}
