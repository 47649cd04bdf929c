// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The clock of BPF programs, traces and budgets.

use rustix::time::{ClockId, clock_gettime};

/// CLOCK_MONOTONIC in ns, the same clock as BPF's `bpf_ktime_get_ns()`.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // The time is not negative, and 64 bits hold 584 years.
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
