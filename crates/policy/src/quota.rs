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

/// Whether this quota and this period limit a group (`pc_quota_is_set`).
#[must_use]
pub fn is_set(quota_ns: u64, period_ns: u64) -> bool {
    // SAFETY: the call takes and returns plain integers only.
    unsafe { paracord_quota_is_set(quota_ns, period_ns) != 0 }
}

/// Adds to the pool the quota of each period that has begun (`pc_quota_refill`).
pub fn refill(quota: &mut pc_quota, now_ns: u64) {
    // SAFETY: the pointer comes from a reference and is valid for the length of the call.
    unsafe { paracord_quota_refill(quota, now_ns) }
}

/// Takes runtime from the pool: as much of `wanted_ns` as the pool has (`pc_quota_take`).
pub fn take(quota: &mut pc_quota, wanted_ns: u64) -> u64 {
    // SAFETY: the pointer comes from a reference and is valid for the length of the call.
    unsafe { paracord_quota_take(quota, wanted_ns) }
}

/// Returns unused runtime to the pool; a negative `ns` adds a debt (`pc_quota_give`).
pub fn give(quota: &mut pc_quota, ns: i64) {
    // SAFETY: the pointer comes from a reference and is valid for the length of the call.
    unsafe { paracord_quota_give(quota, ns) }
}

/// Runtime that a CPU takes from the pool in one step (`pc_quota_portion_ns`).
#[must_use]
pub fn portion_ns(quota: &pc_quota) -> u64 {
    // SAFETY: the pointer comes from a reference and is valid for the length of the call.
    unsafe { paracord_quota_portion_ns(quota) }
}

/// When an exhausted pool has runtime again (`pc_quota_again_ns`).
#[must_use]
pub fn again_ns(quota: &pc_quota) -> u64 {
    // SAFETY: the pointer comes from a reference and is valid for the length of the call.
    unsafe { paracord_quota_again_ns(quota) }
}
