// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The clock of BPF programs, traces and budgets, and the units of time.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds in a microsecond.
pub const NS_PER_US: u64 = 1_000;
/// Nanoseconds in a millisecond.
pub const NS_PER_MS: u64 = 1_000_000;
/// Nanoseconds in a second.
pub const NS_PER_S: u64 = 1_000_000_000;
/// Microseconds in a millisecond.
pub const US_PER_MS: u64 = 1_000;

/// CLOCK_MONOTONIC in ns, the same clock as BPF's `bpf_ktime_get_ns()`.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // The time is not negative, and 64 bits hold 584 years.
    now.tv_sec as u64 * NS_PER_S + now.tv_nsec as u64
}
