// SPDX-License-Identifier: GPL-2.0-only
//! What CPU quotas leave for boosts (policy/reserve.h).

unsafe extern "C" {
    fn paracord_reserve_next(left_ns: i64, granted_ns: u64, used_ns: u64, most_ns: u64) -> i64;
}

/// What there is after a look (`pc_reserve_next`), all in nanoseconds: `left` after the one before, `granted` of the quota and
/// `used` by all threads since, `most` that may lie there.
#[must_use]
pub fn next(left: i64, granted: u64, used: u64, most: u64) -> i64 {
    // SAFETY: plain integers.
    unsafe { paracord_reserve_next(left, granted, used, most) }
}
