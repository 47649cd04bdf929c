// SPDX-License-Identifier: GPL-2.0-only
//! Weighted fairness (policy/fair.h).

unsafe extern "C" {
    fn paracord_fair_inverse(nice: i32) -> u32;
    fn paracord_fair_virtual(ran_ns: u64, inverse: u32) -> u64;
    fn paracord_fair_slice_ns(cpus: u32) -> u32;
    fn paracord_fair_place(vtime: u64, base: u64, slice_ns: u32) -> u64;
    fn paracord_group_factor(parents_factor: u64, active: i64, weight: u32) -> u64;
    fn paracord_fair_in_group(inverse: u32, factor: u64) -> u32;
    fn paracord_fair_forgive(vtime: u64, base: u64, inverse: u32, slice_ns: u32) -> u64;
    fn paracord_fair_may_be_called(
        vtime: u64,
        base: u64,
        inverse: u32,
        slice_ns: u32,
    ) -> core::ffi::c_int;
    fn paracord_fair_rescale(vtime: u64, base: u64, before: u32, after: u32) -> u64;
    fn paracord_fair_preempts(
        vtime: u64,
        inverse: u32,
        running_vtime: u64,
        slice_ns: u32,
    ) -> core::ffi::c_int;
    fn paracord_fair_batches(ran_ns: u64, inverse: u32, wakers_inverse: u32) -> core::ffi::c_int;
}

/// Inverse of the weight of a nice level (`pc_fair_inverse`).
#[must_use]
pub fn inverse(nice: i32) -> u32 {
    // SAFETY: the call takes and returns plain integers only.
    unsafe { paracord_fair_inverse(nice) }
}

/// Virtual time by which a task advances when it runs for `ran_ns` (`pc_fair_virtual`).
#[must_use]
pub fn virtual_ns(ran_ns: u64, inverse: u32) -> u64 {
    // SAFETY: the call takes and returns plain integers only.
    unsafe { paracord_fair_virtual(ran_ns, inverse) }
}

/// Virtual time of a task that is enqueued on a run queue (`pc_fair_place`).
#[must_use]
pub fn place(vtime: u64, base: u64, slice_ns: u32) -> u64 {
    // SAFETY: the call takes and returns plain integers only.
    unsafe { paracord_fair_place(vtime, base, slice_ns) }
}

/// Slice on a host with this many CPUs, in ns (`pc_fair_slice_ns`).
#[must_use]
pub fn slice_ns(cpus: u32) -> u32 {
    // SAFETY: the call takes and returns plain integers only.
    unsafe { paracord_fair_slice_ns(cpus) }
}

/// A task's virtual time after it has run with a boost (`pc_fair_forgive`).
#[must_use]
pub fn forgive(vtime: u64, base: u64, inverse: u32, slice_ns: u32) -> u64 {
    // SAFETY: the call takes and returns plain integers only.
    unsafe { paracord_fair_forgive(vtime, base, inverse, slice_ns) }
}

/// Whether the target of a directed yield may run next (`pc_fair_may_be_called`).
#[must_use]
pub fn may_be_called(vtime: u64, base: u64, inverse: u32, slice_ns: u32) -> bool {
    // SAFETY: the call takes and returns plain integers only.
    unsafe { paracord_fair_may_be_called(vtime, base, inverse, slice_ns) != 0 }
}

/// A task's virtual time after a change of its weight (`pc_fair_rescale`).
#[must_use]
pub fn rescale(vtime: u64, base: u64, before: u32, after: u32) -> u64 {
    // SAFETY: the call takes and returns plain integers only.
    unsafe { paracord_fair_rescale(vtime, base, before, after) }
}

/// Whether a task that wakes preempts the running task (`pc_fair_preempts`).
#[must_use]
pub fn preempts(vtime: u64, inverse: u32, running_vtime: u64, slice_ns: u32) -> bool {
    // SAFETY: the call takes and returns plain integers only.
    unsafe { paracord_fair_preempts(vtime, inverse, running_vtime, slice_ns) != 0 }
}

/// Whether a task keeps its CPU after it woke another task with a sync wakeup (`pc_fair_batches`).
#[must_use]
pub fn batches(ran_ns: u64, inverse: u32, wakers_inverse: u32) -> bool {
    // SAFETY: the call takes and returns plain integers only.
    unsafe { paracord_fair_batches(ran_ns, inverse, wakers_inverse) != 0 }
}

/// Factor of the tasks in a control group (`pc_group_factor`). The factor of the root group is
/// `1 << 20`.
#[must_use]
pub fn group_factor(parents_factor: u64, active: i64, weight: u32) -> u64 {
    // SAFETY: the call takes and returns plain integers only.
    unsafe { paracord_group_factor(parents_factor, active, weight) }
}

/// Inverse of a task's weight in a control group (`pc_fair_in_group`).
#[must_use]
pub fn in_group(inverse: u32, factor: u64) -> u32 {
    // SAFETY: the call takes and returns plain integers only.
    unsafe { paracord_fair_in_group(inverse, factor) }
}
