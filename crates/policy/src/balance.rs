// SPDX-License-Identifier: GPL-2.0-only
//! Fairness between CPUs (policy/balance.h).

unsafe extern "C" {
    fn paracord_fair_weight(inverse: u32) -> u32;
    fn paracord_pace(pace: u64, ns: u64, weight: u64) -> u64;
    fn paracord_balance_takes(ahead: i64, with: u64, there: u64, slice_ns: u32)
    -> core::ffi::c_int;
}

/// Weight of an inverse, in 64ths; 65536: that of nice 0 (`pc_fair_weight`).
#[must_use]
pub fn weight(inverse: u32) -> u32 {
    // SAFETY: plain integers.
    unsafe { paracord_fair_weight(inverse) }
}

/// A CPU's pace after `ns` for tasks that weigh `weight` 64ths together; 0: for none (`pc_pace`).
#[must_use]
pub fn pace(pace: u64, ns: u64, weight: u64) -> u64 {
    // SAFETY: plain integers.
    unsafe { paracord_pace(pace, ns, weight) }
}

/// Whether a CPU takes over a task (`pc_balance_takes`).
#[must_use]
pub fn takes(ahead: i64, with: u64, there: u64, slice_ns: u32) -> bool {
    // SAFETY: plain integers.
    unsafe { paracord_balance_takes(ahead, with, there, slice_ns) != 0 }
}
