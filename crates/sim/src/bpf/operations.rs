// SPDX-License-Identifier: GPL-2.0-only
//! Calls the scheduler's operations (`struct sched_ext_ops`) and the sensor's programs.

use std::{ffi::CString, ptr};

use super::{
    interface::{At, Kfuncs, Operation},
    lend::lend,
    native,
    objects::{GroupId, GroupSlot, InitTaskArgs, TaskId, TaskStruct},
};

fn task(kernel: &mut dyn Kfuncs, id: TaskId) -> *const TaskStruct {
    kernel.native().task_pointer(id)
}

fn group(kernel: &mut dyn Kfuncs, id: GroupId) -> *const GroupSlot {
    kernel.native().group(id)
}

/// Calls an operation of the scheduler.
macro_rules! operation {
    ($kernel:ident, $at:ident, $name:ident, $operation:ident($($argument:expr),*)) => {
        lend($kernel, $at, Operation::$name, || {
            // SAFETY: this calls a compiled program with the same arguments as in the kernel:
            // numbers, and pointers to slots. The slots are in place as long as the machine is.
            unsafe { (ops().$operation)($($argument),*) }
        })
    };
}

/// Calls a program that is not an operation, or a function of native/bpf.c.
macro_rules! program {
    ($kernel:ident, $at:ident, $program:ident($($argument:expr),*)) => {
        lend($kernel, $at, Operation::Other, || {
            // SAFETY: as for operations.
            unsafe { native::$program($($argument),*) }
        })
    };
}

fn ops() -> &'static native::Ops {
    // SAFETY: the function returns the address of a constant.
    let ops = unsafe { native::sim_ops() };
    // SAFETY: the pointer is to this constant.
    unsafe { &*ops }
}

/// The flags `SCX_OPS_*` that the scheduler sets.
#[must_use]
pub fn flags() -> u64 {
    ops().flags
}

/// How long a runnable task may wait, in milliseconds.
#[must_use]
pub fn timeout_ms() -> u32 {
    ops().timeout_ms
}

/// Makes the arrays that have an element per CPU, as the loader does, and the arrays that the
/// simulator reads. Other arrays are made when programs first access them.
pub fn load(kernel: &mut dyn Kfuncs, at: At) {
    let cpus = kernel.native().maps.cpus as u32;
    program!(kernel, at, sim_set_cpus(cpus));
    program!(kernel, at, sim_vm(0));
    program!(kernel, at, sim_vcpu(0));
    program!(kernel, at, sim_group(0));
    program!(kernel, at, sim_own_boosts());
}

/// `ops.init()`. A negative result is an error.
pub fn init(kernel: &mut dyn Kfuncs, at: At) -> i32 {
    operation!(kernel, at, Other, init())
}

/// `ops.exit()`.
pub fn exit(kernel: &mut dyn Kfuncs, at: At, kind: u32, reason: &str, message: &str) {
    let text = |text: &str| CString::new(text.replace('\0', "")).unwrap_or_default();
    let (reason, message) = (text(reason), text(message));
    let info =
        native::ExitInfo { kind, exit_code: 0, reason: reason.as_ptr(), message: message.as_ptr() };
    operation!(kernel, at, Other, exit(&raw const info));
}

/// `ops.select_cpu()`.
pub fn select_cpu(
    kernel: &mut dyn Kfuncs,
    at: At,
    p: TaskId,
    prev_cpu: usize,
    wake_flags: u64,
) -> i32 {
    let p = task(kernel, p);
    operation!(kernel, at, SelectCpu, select_cpu(p, prev_cpu as i32, wake_flags))
}

/// `ops.enqueue()`.
pub fn enqueue(kernel: &mut dyn Kfuncs, at: At, p: TaskId, enq_flags: u64) {
    let p = task(kernel, p);
    operation!(kernel, at, Enqueue, enqueue(p, enq_flags));
}

/// `ops.dispatch()`.
pub fn dispatch(kernel: &mut dyn Kfuncs, at: At, cpu: usize, prev: Option<TaskId>) {
    let prev = prev.map_or(ptr::null(), |prev| task(kernel, prev));
    operation!(kernel, at, Dispatch, dispatch(cpu as i32, prev));
}

/// `ops.tick()`.
pub fn tick(kernel: &mut dyn Kfuncs, at: At, p: TaskId) {
    let p = task(kernel, p);
    operation!(kernel, at, Tick, tick(p));
}

/// `ops.running()`.
pub fn running(kernel: &mut dyn Kfuncs, at: At, p: TaskId) {
    let p = task(kernel, p);
    operation!(kernel, at, Running, running(p));
}

/// `ops.stopping()`.
pub fn stopping(kernel: &mut dyn Kfuncs, at: At, p: TaskId, runnable: bool) {
    let p = task(kernel, p);
    operation!(kernel, at, Stopping, stopping(p, runnable));
}

/// `ops.quiescent()`.
pub fn quiescent(kernel: &mut dyn Kfuncs, at: At, p: TaskId, deq_flags: u64) {
    let p = task(kernel, p);
    operation!(kernel, at, Quiescent, quiescent(p, deq_flags));
}

/// `ops.yield()`. `to`: the task that should run instead.
pub fn yield_to(kernel: &mut dyn Kfuncs, at: At, from: TaskId, to: Option<TaskId>) -> bool {
    let (from, to) = (task(kernel, from), to.map_or(ptr::null(), |to| task(kernel, to)));
    operation!(kernel, at, Other, yield_to(from, to))
}

/// `ops.core_sched_before()`.
pub fn core_sched_before(kernel: &mut dyn Kfuncs, at: At, a: TaskId, b: TaskId) -> bool {
    let (a, b) = (task(kernel, a), task(kernel, b));
    operation!(kernel, at, Other, core_sched_before(a, b))
}

/// `ops.cpu_release()` for a real-time task: the simulator has no other classes above the scheduler.
pub fn cpu_release(kernel: &mut dyn Kfuncs, at: At, cpu: usize) {
    const SCX_CPU_PREEMPT_RT: u32 = 0;
    operation!(kernel, at, Other, cpu_release(cpu as i32, &SCX_CPU_PREEMPT_RT));
}

/// `ops.cpu_online()`, `ops.cpu_offline()`.
pub fn cpu_online(kernel: &mut dyn Kfuncs, at: At, cpu: usize, online: bool) {
    if online {
        operation!(kernel, at, Other, cpu_online(cpu as i32));
    } else {
        operation!(kernel, at, Other, cpu_offline(cpu as i32));
    }
}

/// `ops.init_task()`. A negative result is an error.
pub fn init_task(kernel: &mut dyn Kfuncs, at: At, p: TaskId, fork: bool, in_group: GroupId) -> i32 {
    let p = task(kernel, p);
    let args = InitTaskArgs { fork, cgroup: group(kernel, in_group) };
    operation!(kernel, at, Other, init_task(p, &raw const args))
}

/// `ops.disable()`.
pub fn disable(kernel: &mut dyn Kfuncs, at: At, p: TaskId) {
    let p = task(kernel, p);
    operation!(kernel, at, Other, disable(p));
}

/// `ops.cgroup_init()`. A negative result is an error.
pub fn cgroup_init(kernel: &mut dyn Kfuncs, at: At, g: GroupId, weight: u32) -> i32 {
    let g = group(kernel, g);
    // `struct scx_cgroup_init_args` begins with the weight.
    operation!(kernel, at, Other, cgroup_init(g, &raw const weight))
}

/// `ops.cgroup_move()`.
pub fn cgroup_move(kernel: &mut dyn Kfuncs, at: At, p: TaskId, from: GroupId, to: GroupId) {
    let (p, from, to) = (task(kernel, p), group(kernel, from), group(kernel, to));
    operation!(kernel, at, Other, cgroup_move(p, from, to));
}

/// `ops.cgroup_set_weight()`.
pub fn cgroup_set_weight(kernel: &mut dyn Kfuncs, at: At, g: GroupId, weight: u32) {
    let g = group(kernel, g);
    operation!(kernel, at, Other, cgroup_set_weight(g, weight));
}

/// The tracepoint kvm_exit, in the vCPU's own thread.
pub fn kvm_exit(kernel: &mut dyn Kfuncs, at: At) {
    program!(kernel, at, sensor_exit(ptr::null()));
}

/// kvm_vcpu_kick() for the vCPU that a thread has loaded.
pub fn kvm_kick(kernel: &mut dyn Kfuncs, at: At, vcpu_thread: TaskId) {
    let address = kernel.native().vcpu_address(vcpu_thread);
    program!(kernel, at, sensor_kick(&raw const address));
}

/// The tracepoint sched_switch.
pub fn sched_switch(kernel: &mut dyn Kfuncs, at: At, preempt: bool, prev: TaskId, next: TaskId) {
    let (prev, next) = (task(kernel, prev), task(kernel, next));
    program!(kernel, at, sensor_switch(preempt, prev, next));
}

/// The tracepoint sched_process_exit.
pub fn sched_process_exit(kernel: &mut dyn Kfuncs, at: At, p: TaskId) {
    let p = task(kernel, p);
    program!(kernel, at, sensor_gone(p));
}

/// Increments a counter that several CPUs write without an atomic operation. For tests of races.
pub fn plant(kernel: &mut dyn Kfuncs, at: At) {
    program!(kernel, at, sim_plant());
}

/// The value of that counter.
#[must_use]
pub fn planted() -> u64 {
    let counter = &raw const native::sim_planted;
    // SAFETY: the machine is in place.
    unsafe { counter.read() }
}

/// The first change of a task's state that is not allowed (bpf/sched_state.h): the states before
/// and after.
#[must_use]
pub fn bad_step() -> Option<(u64, u64)> {
    let step = &raw const native::sim_bad_step;
    // SAFETY: the machine is in place.
    let step = unsafe { step.read() };
    (step != 0).then_some((step >> 16 & 0xffff, step & 0xffff))
}

/// The content of the destination after bpf_probe_read_kernel() has failed. For tests of helpers.
pub fn failed_read(kernel: &mut dyn Kfuncs, at: At) -> i64 {
    program!(kernel, at, sim_failed_read())
}

/// The result of bpf_probe_read_kernel_str() for a string of three or ten characters, with a buffer
/// of eight. For tests of helpers.
pub fn read_string(kernel: &mut dyn Kfuncs, at: At, fits: bool) -> i64 {
    program!(kernel, at, sim_read_string(fits))
}

/// Calls ten helpers and functions of sched_ext. For tests of races.
pub fn ten_points(kernel: &mut dyn Kfuncs, at: At, idle_task: TaskId) {
    let p = task(kernel, idle_task);
    program!(kernel, at, sim_ten_points(p));
}

/// Starts the scheduler's timer again, and returns the result of bpf_timer_start(). For tests of
/// helpers.
pub fn restart_timer(kernel: &mut dyn Kfuncs, at: At, after_ns: u64) -> i64 {
    program!(kernel, at, sim_restart_timer(after_ns))
}

/// Writes an element of an array with bpf_map_update_elem(). Returns what a look-up then finds, or
/// the error. For tests of helpers.
pub fn update_array(kernel: &mut dyn Kfuncs, at: At, key: u32, value: u64) -> i64 {
    program!(kernel, at, sim_update_array(key, value))
}

/// Fires a program's timer, unless it has been started again since (`seq`).
pub fn timer(kernel: &mut dyn Kfuncs, at: At, index: usize, seq: u32) {
    let timer = kernel.native().maps.timers[index];
    if timer.seq != seq {
        return;
    }
    let mut key = 0;
    if let Some(callback) = timer.callback {
        lend(kernel, at, Operation::Other, || {
            // SAFETY: the callback is a program's function. Its arguments are its map, a key, and
            // the element of the map, which begins with the timer.
            unsafe { callback(timer.map, &raw mut key, timer.timer) }
        });
    }
}
