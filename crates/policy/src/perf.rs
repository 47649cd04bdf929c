// SPDX-License-Identifier: GPL-2.0-only
//! The performance policy (policy/perf.h).

use crate::{pc_clamp, pc_perf_cpu, pc_perf_task};

unsafe extern "C" {
    fn paracord_perf_wake(
        cpu: *mut pc_perf_cpu,
        home: *mut pc_perf_cpu,
        task: *mut pc_perf_task,
        clamp: *const pc_clamp,
        now_ns: u64,
    );
    fn paracord_perf_account(
        cpu: *mut pc_perf_cpu,
        task: *mut pc_perf_task,
        clamp: *const pc_clamp,
        running: core::ffi::c_int,
        now_ns: u64,
    );
    fn paracord_perf_begin(cpu: *const pc_perf_cpu, task: *mut pc_perf_task, now_ns: u64);
    fn paracord_clamp_effective(
        task: *mut pc_clamp,
        group: *const pc_clamp,
        parent: *const pc_clamp,
    );
    fn paracord_clamp_guest(host: *mut pc_clamp, request: u32, limit: u32);
    fn paracord_request_moved(told: u32, now: u32) -> core::ffi::c_int;
    fn paracord_perf_sleep(
        cpu: *mut pc_perf_cpu,
        task: *mut pc_perf_task,
        clamp: *const pc_clamp,
        now_ns: u64,
    );
    fn paracord_perf_hold(cpu: *mut pc_perf_cpu, request: u32, now_ns: u64) -> u32;
    fn paracord_perf_cpu_request(cpu: *mut pc_perf_cpu, pressure: u32, now_ns: u64) -> u32;
    fn paracord_perf_capped_ns(ran_ns: u64, speed: u32, cap: u32) -> u64;
}

/// The task becomes runnable on the CPU on which it slept (`pc_perf_wake`).
pub fn wake(cpu: &mut pc_perf_cpu, task: &mut pc_perf_task, clamp: pc_clamp, now_ns: u64) {
    let cpu: *mut pc_perf_cpu = cpu;
    // SAFETY: both pointers are valid for the length of the call. The function allows both CPUs to
    // be the same.
    unsafe { paracord_perf_wake(cpu, cpu, task, &raw const clamp, now_ns) };
}

/// The task becomes runnable on a CPU other than `home`, on which it slept (`pc_perf_wake`).
pub fn wake_elsewhere(
    cpu: &mut pc_perf_cpu,
    home: &mut pc_perf_cpu,
    task: &mut pc_perf_task,
    clamp: pc_clamp,
    now_ns: u64,
) {
    // SAFETY: the pointers are valid and exclusive for the length of the call.
    unsafe { paracord_perf_wake(cpu, home, task, &raw const clamp, now_ns) };
}

/// Accounts the time since the last call as running or as waiting (`pc_perf_account`).
pub fn account(
    cpu: &mut pc_perf_cpu,
    task: &mut pc_perf_task,
    clamp: pc_clamp,
    running: bool,
    now_ns: u64,
) {
    // SAFETY: the pointers are valid and exclusive for the length of the call.
    unsafe { paracord_perf_account(cpu, task, &raw const clamp, running.into(), now_ns) };
}

/// Sets the initial demand of a new task (`pc_perf_begin`).
pub fn begin(cpu: &pc_perf_cpu, task: &mut pc_perf_task, now_ns: u64) {
    // SAFETY: the pointers are valid for the length of the call.
    unsafe { paracord_perf_begin(cpu, task, now_ns) };
}

/// The effective clamps of a task in a group that has this parent group (`pc_clamp_within`,
/// `pc_clamp_under`).
#[must_use]
pub fn effective_clamp(mut task: pc_clamp, group: pc_clamp, parent: pc_clamp) -> pc_clamp {
    // SAFETY: the pointers are valid for the length of the call.
    unsafe { paracord_clamp_effective(&raw mut task, &raw const group, &raw const parent) };
    task
}

/// The clamps of a vCPU whose guest has made this request and set this limit (`pc_clamp_guest`).
#[must_use]
pub fn guest_clamp(mut host: pc_clamp, request: u32, limit: u32) -> pc_clamp {
    // SAFETY: the pointer is valid and exclusive for the length of the call.
    unsafe { paracord_clamp_guest(&raw mut host, request, limit) };
    host
}

/// Whether the request has changed so much that the daemon should be told (`pc_request_moved`).
#[must_use]
pub fn request_moved(told: u32, now: u32) -> bool {
    // SAFETY: the call takes and returns plain integers only.
    unsafe { paracord_request_moved(told, now) != 0 }
}

/// The task goes to sleep (`pc_perf_sleep`).
pub fn sleep(cpu: &mut pc_perf_cpu, task: &mut pc_perf_task, clamp: pc_clamp, now_ns: u64) {
    // SAFETY: the pointers are valid and exclusive for the length of the call.
    unsafe { paracord_perf_sleep(cpu, task, &raw const clamp, now_ns) };
}

/// Performance request of the CPU, 0..1024 (`pc_perf_cpu_request`).
pub fn cpu_request(cpu: &mut pc_perf_cpu, pressure: u32, now_ns: u64) -> u32 {
    // SAFETY: the pointer is valid and exclusive for the length of the call.
    unsafe { paracord_perf_cpu_request(cpu, pressure, now_ns) }
}

/// Time charged to a capped task that has run for `ran_ns` while other tasks wait
/// (`pc_perf_capped_ns`).
#[must_use]
pub fn capped_ns(ran_ns: u64, speed: u32, cap: u32) -> u64 {
    // SAFETY: the call takes and returns plain integers only.
    unsafe { paracord_perf_capped_ns(ran_ns, speed, cap) }
}

/// The request, held so that it has no ripple (`pc_perf_hold`).
pub fn hold(cpu: &mut pc_perf_cpu, request: u32, now_ns: u64) -> u32 {
    // SAFETY: the pointer is valid and exclusive for the length of the call.
    unsafe { paracord_perf_hold(cpu, request, now_ns) }
}
