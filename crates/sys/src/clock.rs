// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The clock that BPF programs, traces and budgets go by.

use rustix::time::{ClockId, clock_gettime};

/// CLOCK_MONOTONIC, ns; BPF's `bpf_ktime_get_ns()`.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // Positive, and 584 years fit.
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
