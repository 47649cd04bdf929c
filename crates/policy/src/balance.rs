// SPDX-License-Identifier: GPL-2.0-only
//! Fairness between CPUs (policy/balance.h).

unsafe extern "C" {
    fn paracord_fair_weight(inverse: u32) -> u32;
    fn paracord_pace(pace: u64, ns: u64, weight: u64) -> u64;
    fn paracord_balance_takes(ahead: i64, with: u64, there: u64, slice_ns: u32)
    -> core::ffi::c_int;
    fn paracord_cross_wait_ns(home: u32, from: u32, to: u32) -> u64;
    fn paracord_cross_every_ns(ours: u64, theirs: u64) -> u64;
    fn paracord_node_pace(node: u64, cpu: u64) -> u64;
}

/// Weight that has this inverse, in 64ths; 65536 is the weight of nice 0 (`pc_fair_weight`).
#[must_use]
pub fn weight(inverse: u32) -> u32 {
    // SAFETY: the call takes and returns plain integers only.
    unsafe { paracord_fair_weight(inverse) }
}

/// A CPU's pace after a further `ns` nanoseconds (`pc_pace`). `weight` is the sum of the weights of
/// the tasks that shared the CPU during this time, in 64ths; 0: the CPU ran none.
#[must_use]
pub fn pace(pace: u64, ns: u64, weight: u64) -> u64 {
    // SAFETY: the call takes and returns plain integers only.
    unsafe { paracord_pace(pace, ns, weight) }
}

/// Whether a CPU pulls a task that waits on another CPU (`pc_balance_takes`).
#[must_use]
pub fn takes(ahead: i64, with: u64, there: u64, slice_ns: u32) -> bool {
    // SAFETY: the call takes and returns plain integers only.
    unsafe { paracord_balance_takes(ahead, with, there, slice_ns) != 0 }
}

/// How long a task waits before an idle CPU pulls it, in ns (`pc_cross_wait_ns`).
///
/// `home`: home node of the task's VM, if it has one. `from`: node of the CPU on which the task
/// waits. `to`: node of the idle CPU; `None`: any other node.
#[must_use]
pub fn cross_wait_ns(home: Option<u32>, from: u32, to: Option<u32>) -> u64 {
    let number = |node: u32| node + 1;
    // SAFETY: the call takes and returns plain integers only.
    unsafe {
        paracord_cross_wait_ns(home.map_or(u32::MAX, number), number(from), to.map_or(0, number))
    }
}

/// Interval at which a node's busy CPUs together pull a task from another node
/// (`pc_cross_every_ns`); `None`: never.
///
/// `ours`, `theirs`: the paces of the two nodes.
#[must_use]
pub fn cross_every_ns(ours: u64, theirs: u64) -> Option<u64> {
    // SAFETY: the call takes and returns plain integers only.
    let every = unsafe { paracord_cross_every_ns(ours, theirs) };
    (every != u64::MAX).then_some(every)
}

/// A node's pace after one of its CPUs has contributed its own pace (`pc_node_pace`).
#[must_use]
pub fn node_pace(node: u64, cpu: u64) -> u64 {
    // SAFETY: the call takes and returns plain integers only.
    unsafe { paracord_node_pace(node, cpu) }
}
