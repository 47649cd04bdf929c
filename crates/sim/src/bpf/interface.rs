// SPDX-License-Identifier: GPL-2.0-only
//! The interface between the programs of bpf/ and the simulated kernel: where an operation runs,
//! and which functions programs call. Objects are passed as numbers.

use super::{
    objects::{GroupId, TaskId},
    state::Native,
};
use crate::machine::CpuSet;

/// Where an operation runs.
#[derive(Clone, Copy, Debug)]
pub struct At {
    /// The CPU that runs it.
    pub cpu: usize,
    /// The time.
    pub now_ns: u64,
    /// The task that runs on this CPU.
    pub current: TaskId,
}

/// Operations that are counted separately.
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
    /// All other operations.
    Other,
}

/// A position in a dispatch queue over which a program iterates: the words of `struct
/// bpf_iter_scx_dsq`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct DsqCursor {
    /// Number of the queue.
    pub dsq: u64,
    /// Key of the last task that was returned.
    pub key: u64,
    /// Sequence number of this task, which orders tasks with equal keys.
    pub seq: u64,
    /// Largest sequence number at the beginning of the walk. Tasks with larger numbers came later
    /// and are skipped.
    pub newest: u64,
    /// `CURSOR_*`. 0: the queue does not exist.
    pub state: u64,
    /// With `CURSOR_VTIME`: the virtual time for the task that is moved next.
    pub vtime: u64,
}

/// The cursor is at the start of the queue. `key` and `seq` have no meaning yet.
pub const CURSOR_START: u64 = 1;
/// The cursor is after `key` and `seq`.
pub const CURSOR_AFTER: u64 = 2;
/// The iteration starts at the end of the queue.
pub const CURSOR_REVERSE: u64 = 4;
/// The next move changes the task's virtual time.
pub const CURSOR_VTIME: u64 = 8;

/// The kernel's internal `ENQ_*` flag for a queue that is ordered by virtual time
/// (`SCX_ENQ_DSQ_PRIQ`).
pub const ENQ_PRIQ: u64 = 1 << 57;

/// The functions that programs call. Each function corresponds to sched_ext's function of the same
/// name (kernel/sched/ext.c, kernel/sched/ext_idle.c).
pub trait Kfuncs {
    /// The native part of the machine.
    fn native(&mut self) -> &mut Native;
    /// `scx_bpf_create_dsq()`.
    fn create_dsq(&mut self, dsq: u64) -> i32;
    /// `scx_bpf_select_cpu_dfl()`: returns the CPU, and whether it was idle.
    fn select_cpu_dfl(&mut self, task: TaskId, prev_cpu: i32, wake_flags: u64) -> (i32, bool);
    /// `scx_bpf_test_and_clear_cpu_idle()`.
    fn test_and_clear_cpu_idle(&mut self, cpu: i32) -> bool;
    /// `scx_bpf_pick_idle_cpu()`. A negative result means that there is none.
    fn pick_idle_cpu(&mut self, allowed: &CpuSet, flags: u64) -> i32;
    /// `scx_bpf_get_idle_smtmask()`: CPUs of cores on which all threads are idle.
    fn idle_smtmask(&self) -> &CpuSet;
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
    /// `scx_bpf_dsq_nr_queued()`. A negative result means that the queue does not exist.
    fn dsq_nr_queued(&self, dsq: u64) -> i32;
    /// `bpf_iter_scx_dsq_new()`. False: the queue does not exist.
    fn dsq_iter_new(&mut self, cursor: &mut DsqCursor) -> bool;
    /// `bpf_iter_scx_dsq_next()`.
    fn dsq_iter_next(&mut self, cursor: &mut DsqCursor) -> Option<TaskId>;
    /// `scx_bpf_dsq_move()`.
    fn dsq_move(&mut self, cursor: &mut DsqCursor, task: TaskId, dsq: u64, enq_flags: u64) -> bool;
    /// `scx_bpf_reenqueue_local()`: returns the number of tasks.
    fn reenqueue_local(&mut self) -> u32;
    /// `scx_bpf_reenqueue_local___v2()`: the tasks are enqueued again later, when the run queue is
    /// unlocked.
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
    /// `bpf_timer_start()` for the timer with this number. `seq` counts its starts. It fires after
    /// `after_ns`.
    fn timer_start(&mut self, timer: usize, seq: u32, after_ns: u64);
    /// Called before a helper, kfunc or atomic operation runs.
    fn at_point(&mut self);
}
