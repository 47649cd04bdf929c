// SPDX-License-Identifier: GPL-2.0-only
//! Whose turn it is on a core whose threads tasks of different cookies do not share (policy/core.h).

unsafe extern "C" {
    fn paracord_core_comes_after(
        core: *mut Core,
        vtime: u64,
        inverse: u32,
        other: *mut Core,
        other_vtime: u64,
        other_inverse: u32,
        now: u64,
    ) -> core::ffi::c_int;
}

/// A CPU's part of its core (`pc_core`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Core {
    /// Where the CPUs were equal, of the virtual time of this one's queue.
    pub zero: u64,
    /// When one of its tasks was compared last.
    pub compared_ns: u64,
}

/// A task: its virtual time, of its CPU's queue, and its inverse ([`crate::fair::inverse`]).
pub type Task = (u64, u32);

/// Whether a task comes after one of another CPU of its core (`pc_core_comes_after`).
pub fn comes_after(
    core: &mut Core,
    (vtime, inverse): Task,
    other: &mut Core,
    (other_vtime, other_inverse): Task,
    now: u64,
) -> bool {
    // SAFETY: two records, for the length of the call.
    let after = unsafe {
        paracord_core_comes_after(core, vtime, inverse, other, other_vtime, other_inverse, now)
    };
    after != 0
}
