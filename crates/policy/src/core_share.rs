// SPDX-License-Identifier: GPL-2.0-only
//! Core scheduling: which task runs next on an SMT core where tasks with different cookies must not
//! share the core (policy/core.h).

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
    /// Virtual time of the CPU's run queue at which the CPUs of the core were equal.
    pub zero: u64,
    /// When a task of this CPU was last compared.
    pub compared_ns: u64,
}

/// A task: its virtual time in the run queue of its CPU, and its inverse
/// ([`crate::fair::inverse`]).
pub type Task = (u64, u32);

/// Whether a task runs after the task of another CPU of its core (`pc_core_comes_after`).
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
