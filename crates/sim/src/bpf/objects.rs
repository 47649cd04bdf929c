// SPDX-License-Identifier: GPL-2.0-only
//! Kernel objects as far as BPF programs look into them, mirrored from bpf/kernel_types.h. Both sides read and
//! write them, one at a time: the fields are cells.

use std::cell::Cell;

use crate::machine::CpuSet;

/// Index of a task's slot. The first ones are the CPUs' idle tasks.
pub type TaskId = usize;
/// Index of a group's slot. 0: the root group.
pub type GroupId = usize;

/// Bytes of a task's or group's BPF storage: the simulator has one map of each kind.
pub const STORAGE_BYTES: usize = 512;

/// `struct sched_ext_entity`.
#[repr(C)]
pub struct SchedExtEntity {
    /// SCX_TASK_*.
    pub flags: Cell<u32>,
    /// What is left of its slice.
    pub slice_ns: Cell<u64>,
    /// Its place in a queue that is ordered by virtual time.
    pub dsq_vtime: Cell<u64>,
}

/// `struct sched_info`.
#[repr(C)]
pub struct SchedInfo {
    /// Time spent in run queues.
    pub run_delay: Cell<u64>,
    /// When it came to this one; 0: it runs or sleeps.
    pub last_queued: Cell<u64>,
}

/// `struct task_struct`.
#[repr(C)]
pub struct TaskStruct {
    /// 0: TASK_RUNNING.
    pub state: Cell<u32>,
    /// PF_*: none.
    pub flags: Cell<u32>,
    /// Effective priority, 0..=139.
    pub prio: Cell<i32>,
    /// 120 + nice.
    pub static_prio: Cell<i32>,
    /// SCHED_*.
    pub policy: Cell<u32>,
    /// CPUs in `cpus_ptr`.
    pub nr_cpus_allowed: Cell<i32>,
    /// Points to [`TaskSlot::cpus`].
    pub cpus_ptr: Cell<*const CpuSet>,
    /// Nested migrate_disable().
    pub migration_disabled: Cell<u16>,
    /// sched_ext's part.
    pub scx: SchedExtEntity,
    /// Thread.
    pub pid: Cell<i32>,
    /// Process.
    pub tgid: Cell<i32>,
    /// When it began.
    pub start_boottime: Cell<u64>,
    /// First preempt notifier: KVM's, of a vCPU that is loaded.
    pub preempt_notifiers: Cell<*const u8>,
    /// Its record in the BPF map of tasks.
    pub bpf_storage: Cell<*mut u8>,
    /// Not 0: it was preempted while it read under RCU.
    pub rcu_blocked: Cell<u8>,
    /// The scheduler's account of waiting.
    pub sched_info: SchedInfo,
    /// `se.cfs_rq`: its CPU's run queue.
    pub cfs_rq: Cell<*const CfsRq>,
    /// Its group, for the cpu controller.
    pub sched_task_group: Cell<*const TaskGroup>,
    /// Its parent as it ends; null: that has ended before.
    pub real_parent: Cell<*const TaskStruct>,
    /// Requested clamps: value in 11 bits, and whether somebody asked.
    pub uclamp_req: [Cell<u32>; 2],
}

/// `struct cfs_rq`.
#[repr(C)]
pub struct CfsRq {
    /// Back to its run queue.
    pub rq: Cell<*const RqStruct>,
    /// Runnable tasks of the fair class, those of its groups included.
    pub h_nr_queued: Cell<u32>,
}

/// `struct rq`.
#[repr(C)]
pub struct RqStruct {
    /// rq_clock().
    pub clock: Cell<u64>,
    /// rq_clock_pelt().
    pub clock_pelt: Cell<u64>,
    /// The fair class's.
    pub cfs: CfsRq,
}

/// `struct kvm_vcpu`, with the hook that leads from a thread to it.
#[repr(C)]
pub struct KvmVcpu {
    /// Its VM; nobody follows it.
    pub kvm: Cell<*const u8>,
    /// `preempt_notifier.link`.
    pub preempt_notifier: Cell<*const u8>,
    /// Its number in the VM.
    pub vcpu_id: Cell<i32>,
}

/// A task, what its pointers lead to, and its BPF storage.
#[repr(C)]
pub struct TaskSlot {
    /// What programs are given a pointer to.
    pub task: TaskStruct,
    /// What `cpus_ptr` points to.
    pub cpus: Cell<CpuSet>,
    /// What `bpf_storage` points to once it was made.
    pub storage: Cell<[u8; STORAGE_BYTES]>,
    /// The vCPU that it is, if it is one.
    pub vcpu: KvmVcpu,
}

/// `struct task_group`.
#[repr(C)]
pub struct TaskGroup {
    /// `cpu.idle`.
    pub idle: Cell<i32>,
    /// `cfs_bandwidth`: period, quota and burst, ns.
    pub bandwidth: [Cell<u64>; 3],
    /// Null: the root group's.
    pub parent: Cell<*const TaskGroup>,
}

/// `struct cgroup`, and its part of the cpu controller.
#[repr(C)]
pub struct GroupSlot {
    /// 0: the root group.
    pub level: Cell<i32>,
    /// 1: `storage` was made.
    pub has_storage: Cell<u32>,
    /// What tasks point to.
    pub task_group: TaskGroup,
    /// Its record in the BPF map of groups.
    pub storage: Cell<[u8; STORAGE_BYTES]>,
}

/// `struct scx_init_task_args`.
#[repr(C)]
pub struct InitTaskArgs {
    /// 0: it was there before the scheduler.
    pub fork: bool,
    /// Its group.
    pub cgroup: *const GroupSlot,
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;

    #[test]
    fn layouts_are_those_of_bpf_kernel_types() {
        let ours = [
            size_of::<TaskStruct>(),
            offset_of!(TaskStruct, state),
            offset_of!(TaskStruct, flags),
            offset_of!(TaskStruct, prio),
            offset_of!(TaskStruct, static_prio),
            offset_of!(TaskStruct, policy),
            offset_of!(TaskStruct, nr_cpus_allowed),
            offset_of!(TaskStruct, cpus_ptr),
            offset_of!(TaskStruct, migration_disabled),
            offset_of!(TaskStruct, scx.flags),
            offset_of!(TaskStruct, scx.slice_ns),
            offset_of!(TaskStruct, scx.dsq_vtime),
            offset_of!(TaskStruct, pid),
            offset_of!(TaskStruct, tgid),
            offset_of!(TaskStruct, start_boottime),
            offset_of!(TaskStruct, preempt_notifiers),
            offset_of!(TaskStruct, bpf_storage),
            offset_of!(TaskStruct, rcu_blocked),
            offset_of!(TaskStruct, sched_info),
            offset_of!(TaskStruct, cfs_rq),
            offset_of!(TaskStruct, sched_task_group),
            offset_of!(TaskStruct, real_parent),
            offset_of!(TaskStruct, uclamp_req),
            size_of::<RqStruct>(),
            offset_of!(RqStruct, clock),
            offset_of!(RqStruct, clock_pelt),
            offset_of!(RqStruct, cfs),
            offset_of!(CfsRq, rq),
            offset_of!(CfsRq, h_nr_queued),
            size_of::<KvmVcpu>(),
            offset_of!(KvmVcpu, kvm),
            offset_of!(KvmVcpu, preempt_notifier),
            offset_of!(KvmVcpu, vcpu_id),
            size_of::<InitTaskArgs>(),
            offset_of!(InitTaskArgs, cgroup),
        ];
        assert_eq!(ours.map(|offset| offset as u32).as_slice(), super::super::native::layout());
    }
}
