// SPDX-License-Identifier: GPL-2.0-only
//! Quotas of control groups (policy/quota.h).

use crate::pc_quota;

unsafe extern "C" {
    fn paracord_quota_is_set(quota_ns: u64, period_ns: u64) -> core::ffi::c_int;
    fn paracord_quota_refill(q: *mut pc_quota, now_ns: u64);
    fn paracord_quota_take(q: *mut pc_quota, wanted_ns: u64) -> u64;
    fn paracord_quota_give(q: *mut pc_quota, ns: i64);
    fn paracord_quota_portion_ns(q: *const pc_quota) -> u64;
    fn paracord_quota_again_ns(q: *const pc_quota) -> u64;
}

/// Whether a quota and its period are a limit (`pc_quota_is_set`).
#[must_use]
pub fn is_set(quota_ns: u64, period_ns: u64) -> bool {
    // SAFETY: plain integers.
    unsafe { paracord_quota_is_set(quota_ns, period_ns) != 0 }
}

/// What periods that have begun add to the pool (`pc_quota_refill`).
pub fn refill(quota: &mut pc_quota, now_ns: u64) {
    // SAFETY: a valid record.
    unsafe { paracord_quota_refill(quota, now_ns) }
}

/// As much of `wanted_ns` as the pool has (`pc_quota_take`).
pub fn take(quota: &mut pc_quota, wanted_ns: u64) -> u64 {
    // SAFETY: a valid record.
    unsafe { paracord_quota_take(quota, wanted_ns) }
}

/// Time that was not used, or a debt (`pc_quota_give`).
pub fn give(quota: &mut pc_quota, ns: i64) {
    // SAFETY: a valid record.
    unsafe { paracord_quota_give(quota, ns) }
}

/// What a CPU takes at once (`pc_quota_portion_ns`).
#[must_use]
pub fn portion_ns(quota: &pc_quota) -> u64 {
    // SAFETY: a valid record.
    unsafe { paracord_quota_portion_ns(quota) }
}

/// When a pool that is spent has something again (`pc_quota_again_ns`).
#[must_use]
pub fn again_ns(quota: &pc_quota) -> u64 {
    // SAFETY: a valid record.
    unsafe { paracord_quota_again_ns(quota) }
}
