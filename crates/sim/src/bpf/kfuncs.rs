// SPDX-License-Identifier: GPL-2.0-only
//! sched_ext's functions under the names that bpf/scx.h uses, for older and newer kernels. They
//! convert pointers to numbers and call the kernel ([`super::Kfuncs`]).

use std::ptr;

use super::{
    interface::{CURSOR_REVERSE, CURSOR_START, CURSOR_VTIME, DsqCursor, ENQ_PRIQ},
    lend::{lent, point},
    native,
    objects::{GroupSlot, TaskStruct},
};
use crate::machine::CpuSet;

fn id(task: *const TaskStruct) -> usize {
    lent().native().task_id(task)
}

#[unsafe(no_mangle)]
extern "C" fn scx_bpf_now() -> u64 {
    point();
    let context = &raw const native::sim_context;
    // SAFETY: as above.
    unsafe { (*context).now_ns }
}

#[unsafe(no_mangle)]
extern "C" fn scx_bpf_create_dsq(dsq: u64, _node: i32) -> i32 {
    lent().create_dsq(dsq)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn scx_bpf_select_cpu_dfl(
    task: *const TaskStruct,
    prev_cpu: i32,
    wake_flags: u64,
    is_idle: *mut bool,
) -> i32 {
    point();
    let task = id(task);
    let (cpu, idle) = lent().select_cpu_dfl(task, prev_cpu, wake_flags);
    // SAFETY: the pointer is to the program's variable.
    unsafe { is_idle.write(idle) };
    cpu
}

#[unsafe(no_mangle)]
extern "C" fn scx_bpf_test_and_clear_cpu_idle(cpu: i32) -> bool {
    point();
    lent().test_and_clear_cpu_idle(cpu)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn scx_bpf_pick_idle_cpu(allowed: *const CpuSet, flags: u64) -> i32 {
    point();
    // SAFETY: the pointer is to the mask of a task, or to one that was made here.
    lent().pick_idle_cpu(unsafe { &*allowed }, flags)
}

#[unsafe(no_mangle)]
extern "C" fn scx_bpf_get_idle_smtmask() -> *const CpuSet {
    point();
    lent().idle_smtmask()
}

#[unsafe(no_mangle)]
extern "C" fn scx_bpf_put_idle_cpumask(_set: *const CpuSet) {}

/// The mask is in the machine's memory, and exists as long as the machine.
#[unsafe(no_mangle)]
extern "C" fn bpf_cpumask_create() -> *mut CpuSet {
    let made = lent().native().allocate(size_of::<CpuSet>(), 64);
    made.map_or(ptr::null_mut(), |made| made.cast().as_ptr())
}

#[unsafe(no_mangle)]
extern "C" fn bpf_cpumask_release(_set: *mut CpuSet) {}

#[unsafe(no_mangle)]
unsafe extern "C" fn bpf_cpumask_set_cpu(cpu: u32, set: *mut CpuSet) {
    // SAFETY: the mask was made here, and no other code uses it while a program runs.
    unsafe { &mut *set }.insert(cpu as usize);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn bpf_cpumask_and(
    to: *mut CpuSet,
    one: *const CpuSet,
    other: *const CpuSet,
) -> bool {
    point();
    // SAFETY: each pointer is to the mask of a task, or to one that was made here.
    let both = unsafe { *one }.and(unsafe { &*other });
    // SAFETY: the mask was made here.
    unsafe { to.write(both) };
    !both.is_empty()
}

#[unsafe(no_mangle)]
extern "C" fn scx_bpf_task_cpu(task: *const TaskStruct) -> i32 {
    point();
    let task = id(task);
    lent().task_cpu(task)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn bpf_cpumask_test_cpu(cpu: u32, set: *const CpuSet) -> bool {
    point();
    // SAFETY: as above.
    unsafe { &*set }.has(cpu as usize)
}

#[unsafe(no_mangle)]
extern "C" fn scx_bpf_dsq_insert___v1(
    task: *const TaskStruct,
    dsq: u64,
    slice_ns: u64,
    flags: u64,
) {
    point();
    let task = id(task);
    lent().dsq_insert(task, dsq, slice_ns, flags);
}

#[unsafe(no_mangle)]
extern "C" fn scx_bpf_dispatch___old(task: *const TaskStruct, dsq: u64, slice_ns: u64, flags: u64) {
    scx_bpf_dsq_insert___v1(task, dsq, slice_ns, flags);
}

/// `struct scx_bpf_dsq_insert_vtime_args`.
#[repr(C)]
struct VtimeArgs {
    dsq_id: u64,
    slice: u64,
    vtime: u64,
    enq_flags: u64,
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __scx_bpf_dsq_insert_vtime(
    task: *const TaskStruct,
    args: *const VtimeArgs,
) -> bool {
    // SAFETY: the pointer is to the program's variable.
    let args = unsafe { &*args };
    scx_bpf_dsq_insert_vtime___v1(task, args.dsq_id, args.slice, args.vtime, args.enq_flags);
    true
}

#[unsafe(no_mangle)]
extern "C" fn scx_bpf_dsq_insert_vtime___v1(
    task: *const TaskStruct,
    dsq: u64,
    slice_ns: u64,
    vtime: u64,
    flags: u64,
) {
    point();
    let task = id(task);
    lent().dsq_insert_vtime(task, dsq, slice_ns, vtime, flags);
}

#[unsafe(no_mangle)]
extern "C" fn scx_bpf_dispatch_vtime___old(
    task: *const TaskStruct,
    dsq: u64,
    slice_ns: u64,
    vtime: u64,
    flags: u64,
) {
    scx_bpf_dsq_insert_vtime___v1(task, dsq, slice_ns, vtime, flags);
}

#[unsafe(no_mangle)]
extern "C" fn scx_bpf_dsq_move_to_local___v2(dsq: u64, _flags: u64) -> bool {
    point();
    lent().dsq_move_to_local(dsq)
}

#[unsafe(no_mangle)]
extern "C" fn scx_bpf_dsq_move_to_local___v1(dsq: u64) -> bool {
    scx_bpf_dsq_move_to_local___v2(dsq, 0)
}

#[unsafe(no_mangle)]
extern "C" fn scx_bpf_consume___old(dsq: u64) -> bool {
    scx_bpf_dsq_move_to_local___v2(dsq, 0)
}

#[unsafe(no_mangle)]
extern "C" fn scx_bpf_dsq_nr_queued(dsq: u64) -> i32 {
    point();
    lent().dsq_nr_queued(dsq)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn bpf_iter_scx_dsq_new(cursor: *mut DsqCursor, dsq: u64, flags: u64) -> i32 {
    point();
    /// `SCX_DSQ_ITER_REV`.
    const REVERSE: u64 = 1 << 16;
    // SAFETY: the pointer is to the program's variable, which has six words.
    let cursor = unsafe { &mut *cursor };
    let reverse = if flags & REVERSE != 0 { CURSOR_REVERSE } else { 0 };
    *cursor = DsqCursor { dsq, state: CURSOR_START | reverse, ..DsqCursor::default() };
    if lent().dsq_iter_new(cursor) {
        return 0;
    }
    cursor.state = 0;
    -2
}

#[unsafe(no_mangle)]
unsafe extern "C" fn bpf_iter_scx_dsq_next(cursor: *mut DsqCursor) -> *const TaskStruct {
    point();
    // SAFETY: as above.
    let cursor = unsafe { &mut *cursor };
    if cursor.state == 0 {
        return ptr::null();
    }
    let next = lent().dsq_iter_next(cursor);
    next.map_or(ptr::null(), |task| lent().native().task_pointer(task))
}

#[unsafe(no_mangle)]
extern "C" fn bpf_iter_scx_dsq_destroy(_cursor: *mut DsqCursor) {}

#[unsafe(no_mangle)]
unsafe extern "C" fn scx_bpf_dsq_move___new(
    cursor: *mut DsqCursor,
    task: *const TaskStruct,
    dsq: u64,
    flags: u64,
) -> bool {
    point();
    let task = id(task);
    // SAFETY: as above.
    lent().dsq_move(unsafe { &mut *cursor }, task, dsq, flags)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn scx_bpf_dsq_move_set_vtime___new(cursor: *mut DsqCursor, vtime: u64) {
    // SAFETY: as above.
    let cursor = unsafe { &mut *cursor };
    cursor.vtime = vtime;
    cursor.state |= CURSOR_VTIME;
}

#[unsafe(no_mangle)]
unsafe extern "C" fn scx_bpf_dispatch_from_dsq_set_vtime___old(cursor: *mut DsqCursor, vtime: u64) {
    // SAFETY: the caller guarantees what the called function requires.
    unsafe { scx_bpf_dsq_move_set_vtime___new(cursor, vtime) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn scx_bpf_dispatch_from_dsq___old(
    cursor: *mut DsqCursor,
    task: *const TaskStruct,
    dsq: u64,
    flags: u64,
) -> bool {
    // SAFETY: the caller guarantees what the called function requires.
    unsafe { scx_bpf_dsq_move___new(cursor, task, dsq, flags) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn scx_bpf_dsq_move_vtime___new(
    cursor: *mut DsqCursor,
    task: *const TaskStruct,
    dsq: u64,
    flags: u64,
) -> bool {
    // SAFETY: the caller guarantees what the called function requires.
    unsafe { scx_bpf_dsq_move___new(cursor, task, dsq, flags | ENQ_PRIQ) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn scx_bpf_dispatch_vtime_from_dsq___old(
    cursor: *mut DsqCursor,
    task: *const TaskStruct,
    dsq: u64,
    flags: u64,
) -> bool {
    // SAFETY: the caller guarantees what the called function requires.
    unsafe { scx_bpf_dsq_move_vtime___new(cursor, task, dsq, flags) }
}

#[unsafe(no_mangle)]
extern "C" fn scx_bpf_reenqueue_local___v1() -> u32 {
    point();
    lent().reenqueue_local()
}

#[unsafe(no_mangle)]
extern "C" fn scx_bpf_reenqueue_local___v2___compat() {
    point();
    lent().reenqueue_local_later();
}

#[unsafe(no_mangle)]
extern "C" fn scx_bpf_kick_cpu(cpu: i32, flags: u64) {
    point();
    lent().kick_cpu(cpu, flags);
}

#[unsafe(no_mangle)]
extern "C" fn scx_bpf_cpuperf_cap(cpu: i32) -> u32 {
    point();
    lent().cpuperf_cap(cpu)
}

#[unsafe(no_mangle)]
extern "C" fn scx_bpf_cpuperf_cur(cpu: i32) -> u32 {
    point();
    lent().cpuperf_cur(cpu)
}

#[unsafe(no_mangle)]
extern "C" fn scx_bpf_cpuperf_set(cpu: i32, perf: u32) {
    point();
    lent().cpuperf_set(cpu, perf);
}

#[unsafe(no_mangle)]
extern "C" fn bpf_cgroup_ancestor(group: *const GroupSlot, level: i32) -> *const GroupSlot {
    let kernel = lent();
    let group = kernel.native().group_id(group);
    kernel
        .cgroup_ancestor(group, level)
        .map_or(ptr::null(), |ancestor| kernel.native().group(ancestor))
}

/// Returns null, because clamps are not set in the simulator.
#[unsafe(no_mangle)]
extern "C" fn bpf_cgroup_from_id(_id: u64) -> *const GroupSlot {
    ptr::null()
}

#[unsafe(no_mangle)]
extern "C" fn bpf_cgroup_release(_group: *const GroupSlot) {}

#[unsafe(no_mangle)]
extern "C" fn bpf_task_from_pid(pid: i32) -> *const TaskStruct {
    let kernel = lent();
    let task = kernel.task_from_pid(pid);
    task.map_or(ptr::null(), |task| kernel.native().task_pointer(task))
}

#[unsafe(no_mangle)]
extern "C" fn bpf_task_release(_task: *const TaskStruct) {}
