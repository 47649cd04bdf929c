// SPDX-License-Identifier: GPL-2.0-only
//! Kernel objects, as far as BPF programs read them. They mirror bpf/kernel_types.h. Programs and
//! simulator read and write them, but never at the same time, so the fields are cells.

use std::cell::Cell;

use crate::machine::CpuSet;

/// Index of a task's slot. The first slots belong to the CPUs' idle tasks.
pub type TaskId = usize;
/// Index of a group's slot. 0: the root group.
pub type GroupId = usize;

/// Size of the BPF storage of a task or group. The simulator has one map of each kind.
pub const STORAGE_BYTES: usize = 512;

/// `struct sched_ext_entity`.
#[repr(C)]
pub struct SchedExtEntity {
    /// SCX_TASK_*.
    pub flags: Cell<u32>,
    /// The rest of the task's slice.
    pub slice_ns: Cell<u64>,
    /// The task's position in a queue that is ordered by virtual time.
    pub dsq_vtime: Cell<u64>,
}

/// `struct sched_info`.
#[repr(C)]
pub struct SchedInfo {
    /// Total time spent in run queues.
    pub run_delay: Cell<u64>,
    /// When the task came to its present run queue. 0: it runs or sleeps.
    pub last_queued: Cell<u64>,
}

/// `struct task_struct`.
#[repr(C)]
pub struct TaskStruct {
    /// 0 is TASK_RUNNING.
    pub state: Cell<u32>,
    /// PF_*. The simulator sets none.
    pub flags: Cell<u32>,
    /// Effective priority, 0..=139.
    pub prio: Cell<i32>,
    /// Static priority: 120 + nice.
    pub static_prio: Cell<i32>,
    /// SCHED_*.
    pub policy: Cell<u32>,
    /// Number of CPUs in `cpus_ptr`.
    pub nr_cpus_allowed: Cell<i32>,
    /// Points to [`TaskSlot::cpus`].
    pub cpus_ptr: Cell<*const CpuSet>,
    /// Number of nested migrate_disable() calls.
    pub migration_disabled: Cell<u16>,
    /// The state of sched_ext.
    pub scx: SchedExtEntity,
    /// Thread ID.
    pub pid: Cell<i32>,
    /// Process ID.
    pub tgid: Cell<i32>,
    /// When the task began.
    pub start_boottime: Cell<u64>,
    /// The first preempt notifier: KVM's notifier if the thread has loaded a vCPU.
    pub preempt_notifiers: Cell<*const u8>,
    /// The task's record in the BPF map of tasks.
    pub bpf_storage: Cell<*mut u8>,
    /// Not 0 if the task was preempted while it was in an RCU read-side section.
    pub rcu_blocked: Cell<u8>,
    /// Statistics about waiting.
    pub sched_info: SchedInfo,
    /// `se.cfs_rq`: the run queue of the task's CPU.
    pub cfs_rq: Cell<*const CfsRq>,
    /// The task's group for the cpu controller.
    pub sched_task_group: Cell<*const TaskGroup>,
    /// The parent, which the kernel reads when the task ends. Null: the parent has ended before.
    pub real_parent: Cell<*const TaskStruct>,
    /// Requested clamps: the value in 11 bits, and whether the clamp was requested.
    pub uclamp_req: [Cell<u32>; 2],
}

/// `struct cfs_rq`.
#[repr(C)]
pub struct CfsRq {
    /// The run queue that contains this one.
    pub rq: Cell<*const RqStruct>,
    /// Number of runnable tasks of the fair class, including those in groups.
    pub h_nr_queued: Cell<u32>,
}

/// `struct rq`.
#[repr(C)]
pub struct RqStruct {
    /// rq_clock().
    pub clock: Cell<u64>,
    /// rq_clock_pelt().
    pub clock_pelt: Cell<u64>,
    /// The run queue of the fair class.
    pub cfs: CfsRq,
}

/// `struct kvm_vcpu`, and the preempt notifier that leads from a thread to it.
#[repr(C)]
pub struct KvmVcpu {
    /// The VM. No program follows this pointer.
    pub kvm: Cell<*const u8>,
    /// `preempt_notifier.link`.
    pub preempt_notifier: Cell<*const u8>,
    /// Number of the vCPU in the VM.
    pub vcpu_id: Cell<i32>,
}

/// A task, the objects that its pointers lead to, and its BPF storage.
#[repr(C)]
pub struct TaskSlot {
    /// The object to which programs get pointers.
    pub task: TaskStruct,
    /// The object of `cpus_ptr`.
    pub cpus: Cell<CpuSet>,
    /// The object of `bpf_storage`, after it was made.
    pub storage: Cell<[u8; STORAGE_BYTES]>,
    /// The vCPU, if the task is a vCPU thread.
    pub vcpu: KvmVcpu,
}

/// `struct task_group`.
#[repr(C)]
pub struct TaskGroup {
    /// `cpu.idle`.
    pub idle: Cell<i32>,
    /// `cfs_bandwidth`: period, quota and burst, in ns.
    pub bandwidth: [Cell<u64>; 3],
    /// The parent. Null for the root group.
    pub parent: Cell<*const TaskGroup>,
}

/// `struct cgroup`, and the group's part of the cpu controller.
#[repr(C)]
pub struct GroupSlot {
    /// Depth of the group. 0: the root group.
    pub level: Cell<i32>,
    /// 1 if `storage` was made.
    pub has_storage: Cell<u32>,
    /// The object to which tasks point.
    pub task_group: TaskGroup,
    /// The group's record in the BPF map of groups.
    pub storage: Cell<[u8; STORAGE_BYTES]>,
}

/// Arguments of `ops.init_task()`: `struct scx_init_task_args`.
#[repr(C)]
pub struct InitTaskArgs {
    /// True for a task that was forked after the scheduler was loaded.
    pub fork: bool,
    /// The group of the task.
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
