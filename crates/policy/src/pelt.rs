// SPDX-License-Identifier: GPL-2.0-only
//! Load tracking (policy/pelt.h).

use crate::pc_pelt;

unsafe extern "C" {
    fn paracord_pelt_update(
        pelt: *mut pc_pelt,
        now_ns: u64,
        running: core::ffi::c_int,
    ) -> core::ffi::c_int;
    fn paracord_pelt_decay(value: u64, periods: u64) -> u64;
}

/// Accounts the time since the last update as running or as not running (`pc_pelt_update`). Returns
/// whether a period has ended, so that `util_avg` was updated.
pub fn update(pelt: &mut pc_pelt, now_ns: u64, running: bool) -> bool {
    // SAFETY: the pointer is valid and exclusive for the length of the call.
    unsafe { paracord_pelt_update(pelt, now_ns, running.into()) != 0 }
}

/// `value`, decayed over this many periods of 1024 * 1024 ns (`pc_pelt_decay`).
#[must_use]
pub fn decay(value: u64, periods: u64) -> u64 {
    // SAFETY: the call takes and returns plain integers only.
    unsafe { paracord_pelt_decay(value, periods) }
}
