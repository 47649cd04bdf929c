// SPDX-License-Identifier: GPL-2.0-only
//! The natively compiled programs of bpf/ and the simulator's kernel, face to face: operations are called from here,
//! and what they call arrives at [`Kfuncs`].
//!
//! The only place with unsafe code in this crate. What makes it sound: one machine is in place at a time
//! ([`Running`]), operations run on the thread that called them, and a kernel that an operation calls back is lent to
//! it for exactly that long ([`lend`]).

#[cfg(feature = "traced")]
pub mod cost;
mod fiber;
mod globals;
mod helpers;
mod kfuncs;
mod maps;
mod native;
pub mod objects;
mod operations;
mod state;

pub use fiber::{Fiber, Pause, pause};
pub use operations::*;
pub use state::{Native, Running};

use std::ptr::NonNull;

use crate::{machine::CpuSet, mix::KernelVersion};

/// Index of a task's slot. The first ones are the CPUs' idle tasks.
pub type TaskId = usize;
/// Index of a group's slot. 0: the root group.
pub type GroupId = usize;

/// Where an operation runs.
#[derive(Clone, Copy, Debug)]
pub struct At {
    /// The CPU that runs it.
    pub cpu: usize,
    /// The clock.
    pub now_ns: u64,
    /// The task that runs on that CPU.
    pub current: TaskId,
}

/// Operations that are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// `ops.select_cpu()`.
    SelectCpu,
    /// `ops.enqueue()`.
    Enqueue,
    /// `ops.dispatch()`.
    Dispatch,
    /// `ops.running()`.
    Running,
    /// `ops.stopping()`.
    Stopping,
    /// `ops.tick()`.
    Tick,
    /// `ops.quiescent()`.
    Quiescent,
    /// All others.
    Other,
}

/// A place in a dispatch queue that a program iterates over: the words of `struct bpf_iter_scx_dsq`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct DsqCursor {
    /// Queue.
    pub dsq: u64,
    /// Place of the last task that it gave.
    pub key: u64,
    /// The same, among equals.
    pub seq: u64,
    /// Tasks that came later are left out.
    pub newest: u64,
    /// 1: from the end.
    pub reverse: u64,
    /// 0: no such queue; 1: at its start; 2: after `key`, `seq`.
    pub state: u64,
}

/// What programs call: sched_ext's functions, each as the kernel's of the same name (kernel/sched/ext.c,
/// kernel/sched/ext_idle.c).
pub trait Kfuncs {
    /// The machine's native side.
    fn native(&mut self) -> &mut Native;
    /// `scx_bpf_create_dsq()`.
    fn create_dsq(&mut self, dsq: u64) -> i32;
    /// `scx_bpf_select_cpu_dfl()`: the CPU, and whether it was idle.
    fn select_cpu_dfl(&mut self, task: TaskId, prev_cpu: i32, wake_flags: u64) -> (i32, bool);
    /// `scx_bpf_test_and_clear_cpu_idle()`.
    fn test_and_clear_cpu_idle(&mut self, cpu: i32) -> bool;
    /// `scx_bpf_pick_idle_cpu()`; negative: none.
    fn pick_idle_cpu(&mut self, allowed: &CpuSet, flags: u64) -> i32;
    /// `scx_bpf_task_cpu()`.
    fn task_cpu(&self, task: TaskId) -> i32;
    /// `scx_bpf_dsq_insert()`.
    fn dsq_insert(&mut self, task: TaskId, dsq: u64, slice_ns: u64, enq_flags: u64);
    /// `scx_bpf_dsq_insert_vtime()`.
    fn dsq_insert_vtime(
        &mut self,
        task: TaskId,
        dsq: u64,
        slice_ns: u64,
        vtime: u64,
        enq_flags: u64,
    );
    /// `scx_bpf_dsq_move_to_local()`.
    fn dsq_move_to_local(&mut self, dsq: u64) -> bool;
    /// `bpf_iter_scx_dsq_new()`; false: no such queue.
    fn dsq_iter_new(&mut self, cursor: &mut DsqCursor) -> bool;
    /// `bpf_iter_scx_dsq_next()`.
    fn dsq_iter_next(&mut self, cursor: &mut DsqCursor) -> Option<TaskId>;
    /// `scx_bpf_dsq_move()`.
    fn dsq_move(&mut self, cursor: &DsqCursor, task: TaskId, dsq: u64, enq_flags: u64) -> bool;
    /// `scx_bpf_reenqueue_local()`: how many.
    fn reenqueue_local(&mut self) -> u32;
    /// `scx_bpf_reenqueue_local___v2()`: later, when the run queue is unlocked.
    fn reenqueue_local_later(&mut self);
    /// `scx_bpf_kick_cpu()`.
    fn kick_cpu(&mut self, cpu: i32, flags: u64);
    /// `scx_bpf_cpuperf_cap()`.
    fn cpuperf_cap(&self, cpu: i32) -> u32;
    /// `scx_bpf_cpuperf_cur()`.
    fn cpuperf_cur(&self, cpu: i32) -> u32;
    /// `scx_bpf_cpuperf_set()`.
    fn cpuperf_set(&mut self, cpu: i32, perf: u32);
    /// `bpf_cgroup_ancestor()`.
    fn cgroup_ancestor(&self, group: GroupId, level: i32) -> Option<GroupId>;
    /// `bpf_task_from_pid()`.
    fn task_from_pid(&self, pid: i32) -> Option<TaskId>;
    /// `bpf_timer_start()` of the timer with this number: it fires that much later.
    fn timer_start(&mut self, timer: usize, after_ns: u64);
    /// A helper, kfunc or atomic is about to run.
    fn at_point(&mut self);
}

/// The kernel that was lent to the operation that runs.
static mut LENT: Option<NonNull<dyn Kfuncs>> = None;

/// Runs `operation`, in which programs may call the kernel back. `_name`: whose cost it is, where costs are counted.
fn lend<R>(
    kernel: &mut dyn Kfuncs,
    at: At,
    _name: Operation,
    operation: impl FnOnce(&native::Ops) -> R,
) -> R {
    let current = kernel.native().task_pointer(at.current);
    let watched = u32::from(kernel.native().watched);
    let context = native::SimContext { now_ns: at.now_ns, current, cpu: at.cpu as u32, watched };
    // SAFETY: a pointer with its lifetime left out, put back before this function ends.
    let lent: NonNull<dyn Kfuncs> = unsafe {
        std::mem::transmute::<NonNull<dyn Kfuncs + '_>, NonNull<dyn Kfuncs>>(NonNull::from(kernel))
    };
    let place = &raw mut LENT;
    let contexts = &raw mut native::sim_context;
    // SAFETY: this thread alone runs operations (`Running`).
    let outer = unsafe { place.replace(Some(lent)) };
    // SAFETY: as above.
    let outer_context = unsafe { contexts.replace(context) };
    #[cfg(feature = "traced")]
    let begun = cost::begin();
    let result = operation(operations::ops());
    #[cfg(feature = "traced")]
    cost::end(_name, &begun);
    // SAFETY: as above.
    unsafe { contexts.write(outer_context) };
    // SAFETY: as above.
    unsafe { place.write(outer) };
    result
}

/// The kernel, for a function that an operation has called. Two calls may not overlap.
fn lent<'a>() -> &'a mut dyn Kfuncs {
    let place = &raw const LENT;
    // SAFETY: this thread alone runs operations.
    let mut kernel = unsafe { place.read() }.expect("programs run in operations");
    // SAFETY: programs run inside `lend()` only, whose caller waits; helpers do not nest.
    unsafe { kernel.as_mut() }
}

/// Before each helper and kfunc that another CPU's could come between. Those that C defines, and atomics, call
/// `sim_point()`.
fn point() {
    let context = &raw const native::sim_context;
    // SAFETY: written by this thread alone.
    if unsafe { (*context).watched } != 0 {
        lent().at_point();
    }
}

/// The CPU on which the present operation runs.
#[cfg(feature = "traced")]
fn context_cpu() -> usize {
    let context = &raw const native::sim_context;
    // SAFETY: written by this thread alone.
    unsafe { (*context).cpu as usize }
}

/// Which of the names that programs ask for a kernel has.
fn symbols(version: KernelVersion) -> native::Symbols {
    let new = u8::from(version == KernelVersion::V7_3);
    native::Symbols {
        scx_bpf_now: new,
        dsq_insert_v1: new,
        packed_vtime: new,
        dsq_insert_vtime_v1: new,
        dsq_move_to_local_v2: new,
        dsq_move_to_local_v1: new,
        dsq_move_new: new,
        // Since 6.19; the older one is there until 7.3, and not asked for.
        reenqueue_local_v2: new,
        reenqueue_local_v1: 1,
        bpf_preempt_disable: new,
        enq_cpu_selected: new,
    }
}
