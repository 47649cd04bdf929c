// SPDX-License-Identifier: GPL-2.0-only
//! Core scheduling: which task runs next on an SMT core that tasks with different cookies must not
//! use at the same time (policy/core.h).

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

/// State of one CPU of an SMT core (`pc_core`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Core {
    /// Virtual time from which the advance of the CPU's tasks is measured.
    pub zero: u64,
    /// When a task of this CPU was last compared with a task of another CPU.
    pub compared_ns: u64,
}

/// A task: its virtual time in the run queue of its CPU, and its inverse weight
/// ([`crate::fair::inverse`]).
pub type Task = (u64, u32);

/// Whether a task must run after a task on another CPU of the same core (`pc_core_comes_after`).
pub fn comes_after(
    core: &mut Core,
    (vtime, inverse): Task,
    other: &mut Core,
    (other_vtime, other_inverse): Task,
    now: u64,
) -> bool {
    // SAFETY: both records come from exclusive references, which last for the call.
    let after = unsafe {
        paracord_core_comes_after(core, vtime, inverse, other, other_vtime, other_inverse, now)
    };
    after != 0
}
