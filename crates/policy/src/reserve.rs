// SPDX-License-Identifier: GPL-2.0-only
//! The part of CPU quotas that is left for boosts (policy/reserve.h).

unsafe extern "C" {
    fn paracord_reserve_next(left_ns: i64, granted_ns: u64, used_ns: u64, most_ns: u64) -> i64;
}

/// The reserve after cpu.stat was read again (`pc_reserve_next`).
///
/// All times are in nanoseconds. `left`: the reserve after the previous reading. `granted`: runtime
/// that the quota has granted since then. `used`: CPU time that all threads of the group have used
/// since then. `most`: the largest value that the reserve may have.
#[must_use]
pub fn next(left: i64, granted: u64, used: u64, most: u64) -> i64 {
    // SAFETY: the call takes and returns plain integers only.
    unsafe { paracord_reserve_next(left, granted, used, most) }
}
