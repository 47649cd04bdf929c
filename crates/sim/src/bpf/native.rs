// SPDX-License-Identifier: GPL-2.0-only
//! Declarations of what crates/sim/native/ defines.

use std::ffi::{c_char, c_void};

use paracord_policy::{pc_group, pc_rq, pc_vcpu, pc_vm};

use super::objects::{GroupSlot, InitTaskArgs, TaskStruct};
use crate::mix::KernelVersion;

/// `struct sim_context`.
#[repr(C)]
pub(super) struct SimContext {
    pub now_ns: u64,
    pub current: *const TaskStruct,
    pub cpu: u32,
    pub watched: u32,
}

/// `struct sim_kernel`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Symbols {
    pub scx_bpf_now: u8,
    pub dsq_insert_v1: u8,
    pub packed_vtime: u8,
    pub dsq_insert_vtime_v1: u8,
    pub dsq_move_to_local_v2: u8,
    pub dsq_move_to_local_v1: u8,
    pub dsq_move_new: u8,
    pub dsq_move_vtime_new: u8,
    pub reenqueue_local_v2: u8,
    pub reenqueue_local_v1: u8,
    pub bpf_preempt_disable: u8,
    pub bpf_local_irq_save: u8,
    pub enq_cpu_selected: u8,
    pub enq_immed: u8,
    pub task_reenq_immed: u8,
    pub task_states_apart: u8,
}

/// `struct sched_ext_ops` of bpf/scx.h.
#[repr(C)]
pub(super) struct Ops {
    pub core_sched_before: unsafe extern "C" fn(*const TaskStruct, *const TaskStruct) -> bool,
    pub select_cpu: unsafe extern "C" fn(*const TaskStruct, i32, u64) -> i32,
    pub enqueue: unsafe extern "C" fn(*const TaskStruct, u64),
    pub dispatch: unsafe extern "C" fn(i32, *const TaskStruct),
    pub tick: unsafe extern "C" fn(*const TaskStruct),
    pub running: unsafe extern "C" fn(*const TaskStruct),
    pub stopping: unsafe extern "C" fn(*const TaskStruct, bool),
    pub quiescent: unsafe extern "C" fn(*const TaskStruct, u64),
    pub yield_to: unsafe extern "C" fn(*const TaskStruct, *const TaskStruct) -> bool,
    pub cpu_release: unsafe extern "C" fn(i32, *const u32),
    pub cpu_online: unsafe extern "C" fn(i32),
    pub cpu_offline: unsafe extern "C" fn(i32),
    pub init_task: unsafe extern "C" fn(*const TaskStruct, *const InitTaskArgs) -> i32,
    pub disable: unsafe extern "C" fn(*const TaskStruct),
    pub cgroup_init: unsafe extern "C" fn(*const GroupSlot, *const u32) -> i32,
    pub cgroup_exit: unsafe extern "C" fn(*const GroupSlot),
    pub cgroup_move: unsafe extern "C" fn(*const TaskStruct, *const GroupSlot, *const GroupSlot),
    pub cgroup_set_weight: unsafe extern "C" fn(*const GroupSlot, u32),
    pub init: unsafe extern "C" fn() -> i32,
    pub exit: unsafe extern "C" fn(*const ExitInfo),
    pub flags: u64,
    pub timeout_ms: u32,
    pub name: [c_char; 128],
}

/// `struct scx_exit_info` of bpf/scx.h.
#[repr(C)]
pub(super) struct ExitInfo {
    pub kind: u32,
    pub exit_code: i64,
    pub reason: *const c_char,
    pub message: *const c_char,
}

unsafe extern "C" {
    pub(super) static mut sim_context: SimContext;
    pub(super) static mut sim_kernel: Symbols;
    pub(super) fn sim_ops() -> *const Ops;
    pub(super) fn sim_set_cpus(count: u32);
    pub(super) fn sim_rq(cpu: u32) -> *mut pc_rq;
    pub(super) fn sim_group(index: u32) -> *mut pc_group;
    pub(super) fn sim_group_index(group: *const GroupSlot) -> u32;
    pub(super) fn sim_vcpu(index: u32) -> *mut pc_vcpu;
    pub(super) fn sim_vm(index: u32) -> *mut pc_vm;
    pub(super) fn sim_own_boosts();
    pub(super) fn sim_free_indices() -> *const c_void;
    pub(super) fn sim_messages() -> *const c_void;
    pub(super) fn sim_globals(section: u32, bytes: *mut u64) -> *mut u8;
    pub(super) static sim_planted: u64;
    pub(super) static sim_bad_step: u64;
    pub(super) fn sim_plant();
    pub(super) fn sim_failed_read() -> i64;
    pub(super) fn sim_read_string(fits: bool) -> i64;
    pub(super) fn sim_ten_points(task: *const TaskStruct);
    pub(super) fn sim_restart_timer(after_ns: u64) -> i64;
    pub(super) fn sim_update_array(key: u32, value: u64) -> i64;
    pub(super) fn sensor_exit(context: *const c_void) -> i32;
    pub(super) fn sensor_kick(arguments: *const u64) -> i32;
    pub(super) fn sensor_switch(
        preempt: bool,
        prev: *const TaskStruct,
        next: *const TaskStruct,
    ) -> i32;
    pub(super) fn sensor_gone(task: *const TaskStruct) -> i32;
    #[cfg(test)]
    static sim_layout: u32;
    #[cfg(test)]
    static sim_layout_count: u32;
}

/// The names of kernel symbols that exist in a kernel version, among those that programs ask for.
pub(super) fn symbols(version: KernelVersion) -> Symbols {
    let new = u8::from(version == KernelVersion::V7_3);
    Symbols {
        scx_bpf_now: new,
        dsq_insert_v1: new,
        packed_vtime: new,
        dsq_insert_vtime_v1: new,
        dsq_move_to_local_v2: new,
        dsq_move_to_local_v1: new,
        dsq_move_new: new,
        dsq_move_vtime_new: new,
        // The new function exists since 6.19. The old one exists until 7.3, but programs do not
        // look for it if the new one exists.
        reenqueue_local_v2: new,
        reenqueue_local_v1: 1,
        bpf_preempt_disable: new,
        bpf_local_irq_save: new,
        enq_cpu_selected: new,
        enq_immed: new,
        task_reenq_immed: new,
        task_states_apart: 1 - new,
    }
}

/// The CPU that executes the present operation.
#[cfg(feature = "traced")]
pub(super) fn context_cpu() -> usize {
    let context = &raw const sim_context;
    // SAFETY: only this thread writes the variable.
    unsafe { (*context).cpu as usize }
}

/// Sizes and offsets of kernel objects, as the C compiler computes them.
#[cfg(test)]
pub(super) fn layout() -> &'static [u32] {
    // SAFETY: the variable is a constant.
    let count = unsafe { sim_layout_count } as usize;
    // SAFETY: the array has this many constants.
    unsafe { std::slice::from_raw_parts(&raw const sim_layout, count) }
}
