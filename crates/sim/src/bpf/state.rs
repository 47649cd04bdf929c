// SPDX-License-Identifier: GPL-2.0-only
//! The native part of a machine: its globals, kernel objects and maps.

use std::{cell::Cell, io, ptr::NonNull};

use paracord_policy::{PC_VCPU_READY, pc_group, pc_rq, pc_task, pc_vcpu, pc_vm};

use super::{
    globals::{Globals, InPlace},
    maps::Maps,
    native,
    objects::{GroupId, GroupSlot, RqStruct, STORAGE_BYTES, TaskId, TaskSlot, TaskStruct},
};
use crate::{
    machine::CpuSet,
    mix::{KernelVersion, Quota},
};

/// Maximum number of tasks of a machine at the same time.
pub const TASKS_MAX: usize = 1 << 17;
/// Maximum number of groups of a machine.
pub const GROUPS_MAX: usize = 1 << 15;

/// The native part of a machine. All methods except [`Native::new`] and [`Native::enter`] require
/// that the machine is in place.
pub struct Native {
    globals: Globals,
    version: KernelVersion,
    tasks: NonNull<TaskSlot>,
    groups: NonNull<GroupSlot>,
    rqs: NonNull<RqStruct>,
    pub(super) maps: Maps,
    /// Whether the kernel is told about every helper, kfunc and atomic operation.
    pub watched: bool,
}

/// A machine that is in place until [`Native::leave`].
pub struct Running(InPlace);

impl Native {
    /// Makes a machine with this many CPUs, whose programs have just been loaded.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn new(cpus: usize, version: KernelVersion) -> io::Result<Self> {
        let mut globals = Globals::new()?;
        let full = || io::Error::from(io::ErrorKind::OutOfMemory);
        let place =
            |globals: &mut Globals, bytes: usize| globals.allocate(bytes, 64).ok_or_else(full);
        let tasks = place(&mut globals, TASKS_MAX * size_of::<TaskSlot>())?.cast();
        let groups = place(&mut globals, GROUPS_MAX * size_of::<GroupSlot>())?.cast();
        let rqs = place(&mut globals, cpus * size_of::<RqStruct>())?.cast();
        let maps = Maps::new(cpus);
        Ok(Self { globals, version, tasks, groups, rqs, maps, watched: false })
    }

    /// Puts the machine in place.
    pub fn enter(&mut self) -> Running {
        let place = self.globals.enter();
        let kernel = &raw mut native::sim_kernel;
        // SAFETY: this machine is in place, so no other code accesses the globals.
        unsafe { kernel.write(native::symbols(self.version)) };
        Running(place)
    }

    /// Takes the machine out of place, so that another one can be put in place.
    pub fn leave(&mut self, running: Running) {
        self.globals.leave(running.0);
    }

    pub(super) fn allocate(&mut self, bytes: usize, align: usize) -> Option<NonNull<u8>> {
        self.globals.allocate(bytes, align)
    }

    fn task_slot(&self, task: TaskId) -> &TaskSlot {
        assert!(task < TASKS_MAX);
        // SAFETY: the address is inside the array, which is mapped while the machine is in place.
        // Zeroed bytes are a valid slot, and all fields are cells.
        unsafe { &*self.tasks.as_ptr().wrapping_add(task) }
    }

    /// The kernel object of a task.
    #[must_use]
    pub fn task(&self, task: TaskId) -> &TaskStruct {
        &self.task_slot(task).task
    }

    pub(super) fn task_pointer(&self, task: TaskId) -> *const TaskStruct {
        self.task(task)
    }

    pub(super) fn task_id(&self, task: *const TaskStruct) -> TaskId {
        (task as usize - self.tasks.as_ptr() as usize) / size_of::<TaskSlot>()
    }

    /// Initialises the object of a new task, without BPF storage.
    pub fn begin_task(&self, task: TaskId, cpu: usize) {
        let slot = self.task_slot(task);
        slot.task.bpf_storage.set(std::ptr::null_mut());
        slot.task.preempt_notifiers.set(std::ptr::null());
        slot.task.cpus_ptr.set(slot.cpus.as_ptr());
        slot.task.scx.flags.set(0);
        slot.task.scx.slice_ns.set(0);
        slot.task.scx.dsq_vtime.set(0);
        slot.task.migration_disabled.set(0);
        slot.task.rcu_blocked.set(0);
        slot.task.sched_info.run_delay.set(0);
        slot.task.sched_info.last_queued.set(0);
        self.set_task_rq(task, cpu);
    }

    /// Sets the CPUs that a task may use.
    pub fn set_cpus_allowed(&self, task: TaskId, cpus: &CpuSet) {
        let slot = self.task_slot(task);
        slot.cpus.set(*cpus);
        slot.task.nr_cpus_allowed.set(cpus.len() as i32);
    }

    /// Sets the CPU whose run queue the task is in.
    pub fn set_task_rq(&self, task: TaskId, cpu: usize) {
        self.task(task).cfs_rq.set(&raw const self.rq_struct(cpu).cfs);
    }

    /// Makes the thread a vCPU thread: it gets a preempt notifier, which leads to the vCPU.
    pub fn make_vcpu(&self, task: TaskId, vcpu_id: i32) {
        let slot = self.task_slot(task);
        slot.vcpu.vcpu_id.set(vcpu_id);
        slot.task.preempt_notifiers.set((&raw const slot.vcpu.preempt_notifier).cast());
    }

    pub(super) fn vcpu_address(&self, task: TaskId) -> u64 {
        &raw const self.task_slot(task).vcpu as u64
    }

    /// Index of the task's vCPU in the array of vCPUs, if the sensor has adopted the task.
    #[must_use]
    pub fn vcpu_index(&self, task: TaskId) -> Option<u32> {
        self.task_record(task)
            .and_then(|record| record.vcpu.checked_sub(1))
            .filter(|i| *i != u32::MAX - 1)
    }

    /// The scheduler's record of a task.
    #[must_use]
    pub fn task_record(&self, task: TaskId) -> Option<pc_task> {
        let storage = NonNull::new(self.task(task).bpf_storage.get())?;
        // SAFETY: the storage is larger than the record, aligned, and in place.
        Some(unsafe { storage.cast::<pc_task>().read() })
    }

    /// Writes to a task's record, while no program runs.
    pub fn edit_task(&self, task: TaskId, edit: impl FnOnce(&mut pc_task)) {
        if let Some(storage) = NonNull::new(self.task(task).bpf_storage.get()) {
            // SAFETY: as above. No program runs, and `edit` cannot call one.
            edit(unsafe { storage.cast::<pc_task>().as_mut() });
        }
    }

    pub(super) fn make_task_storage(&self, task: *const TaskStruct) -> *mut u8 {
        let slot = self.task_slot(self.task_id(task));
        slot.storage.set([0; STORAGE_BYTES]);
        let storage = slot.storage.as_ptr().cast::<u8>();
        slot.task.bpf_storage.set(storage);
        storage
    }

    /// The kernel object of a group.
    #[must_use]
    pub fn group(&self, group: GroupId) -> &GroupSlot {
        assert!(group < GROUPS_MAX);
        // SAFETY: as for tasks.
        unsafe { &*self.groups.as_ptr().wrapping_add(group) }
    }

    pub(super) fn group_id(&self, group: *const GroupSlot) -> GroupId {
        (group as usize - self.groups.as_ptr() as usize) / size_of::<GroupSlot>()
    }

    /// Sets the parent of a task. `None`: the parent has ended.
    pub fn set_real_parent(&self, task: TaskId, parent: Option<TaskId>) {
        let pointer = parent.map_or(std::ptr::null(), |parent| self.task_pointer(parent));
        self.task(task).real_parent.set(pointer);
    }

    /// Sets the group of a task for the cpu controller.
    pub fn set_task_group(&self, task: TaskId, group: GroupId) {
        self.task(task).sched_task_group.set(&raw const self.group(group).task_group);
    }

    /// Sets the `cpu.max` of a group.
    pub fn set_quota(&self, group: GroupId, quota: Option<Quota>) {
        let [period, of_period, burst] = &self.group(group).task_group.bandwidth;
        period.set(quota.map_or(100_000_000, |quota| quota.period_ns));
        of_period.set(quota.map_or(u64::MAX, |quota| quota.quota_ns));
        burst.set(quota.map_or(0, |quota| quota.burst_ns));
    }

    /// The run queue of a CPU, as programs see it.
    #[must_use]
    pub fn rq_struct(&self, cpu: usize) -> &RqStruct {
        assert!(cpu < self.maps.cpus);
        // SAFETY: as for tasks.
        unsafe { &*self.rqs.as_ptr().wrapping_add(cpu) }
    }

    /// Initialises the run queue of a CPU.
    pub fn begin_rq(&self, cpu: usize) {
        let rq = self.rq_struct(cpu);
        rq.cfs.rq.set(rq);
    }

    /// The scheduler's record of a CPU.
    #[must_use]
    pub fn rq_record(&self, cpu: usize) -> pc_rq {
        // SAFETY: the machine is in place, and the array has been made (`operations::load`).
        let record = unsafe { native::sim_rq(cpu as u32) };
        // SAFETY: the pointer is to an element of the array.
        unsafe { record.read() }
    }

    /// Writes to a CPU's record, while no program runs.
    pub fn edit_rq(&self, cpu: usize, edit: impl FnOnce(&mut pc_rq)) {
        // SAFETY: as above.
        let record = unsafe { native::sim_rq(cpu as u32) };
        // SAFETY: as above. No program runs, and `edit` cannot call one.
        edit(unsafe { &mut *record });
    }

    /// The scheduler's record of a group, if it has one of its own.
    #[must_use]
    pub fn group_record(&self, index: u32) -> Option<pc_group> {
        // SAFETY: the machine is in place.
        let record = NonNull::new(unsafe { native::sim_group(index) });
        // SAFETY: the pointer is to an element of the array.
        record.map(|record| unsafe { record.read() })
    }

    /// Writes to a group's record, while no program runs.
    pub fn edit_group(&self, index: u32, edit: impl FnOnce(&mut pc_group)) {
        // SAFETY: as above.
        if let Some(mut record) = NonNull::new(unsafe { native::sim_group(index) }) {
            // SAFETY: as for run queues.
            edit(unsafe { record.as_mut() });
        }
    }

    /// Index of a group's record.
    #[must_use]
    pub fn group_index(&self, group: GroupId) -> u32 {
        // SAFETY: as above.
        unsafe { native::sim_group_index(self.group(group)) }
    }

    /// Whether a task is a vCPU that is currently boosted.
    #[must_use]
    pub fn is_boosted(&self, task: TaskId) -> bool {
        let Some(index) = self.vcpu_index(task) else { return false };
        // SAFETY: as above.
        let Some(record) = NonNull::new(unsafe { native::sim_vcpu(index) }) else { return false };
        // SAFETY: this reads one field of an element.
        unsafe { (*record.as_ptr()).level != 0 }
    }

    /// The sensor's record of a vCPU.
    #[must_use]
    pub fn vcpu_record(&self, index: u32) -> Option<pc_vcpu> {
        // SAFETY: as above.
        let record = NonNull::new(unsafe { native::sim_vcpu(index) });
        // SAFETY: as above.
        record.map(|record| unsafe { record.read() })
    }

    /// Writes to the sensor's record of a vCPU, while no program runs.
    pub fn edit_vcpu(&self, index: u32, edit: impl FnOnce(&mut pc_vcpu)) {
        // SAFETY: as above.
        if let Some(mut record) = NonNull::new(unsafe { native::sim_vcpu(index) }) {
            // SAFETY: as for run queues.
            edit(unsafe { record.as_mut() });
        }
    }

    /// Sets up a vCPU that the sensor has found, as the daemon does, and enables the policy for it.
    pub fn adopt(&self, index: u32, vm: u32, slot_hva: u64, line_bytes: u32) {
        self.edit_vcpu(index, |record| {
            record.setup.vm = vm;
            record.setup.slot_hva = slot_hva;
            record.setup.guest_line_bytes = line_bytes;
            record.life = PC_VCPU_READY;
        });
    }

    /// Releases the index of a vCPU, as the daemon does when the vCPU's thread has ended.
    pub fn release(&mut self, index: u32) {
        self.edit_vcpu(index, |record| *record = pc_vcpu::default());
        self.maps.offer(index);
    }

    /// Writes a VM's record.
    pub fn write_vm(&self, index: u32, vm: &pc_vm) {
        // SAFETY: as above.
        if let Some(record) = NonNull::new(unsafe { native::sim_vm(index) }) {
            // SAFETY: as above.
            unsafe { record.write(*vm) };
        }
    }

    /// Whether messages are waiting.
    #[must_use]
    pub fn has_messages(&self) -> bool {
        self.maps.messages.has_any()
    }

    /// Takes the messages for the daemon since the last call.
    pub fn messages(&mut self) -> Vec<paracord_policy::pc_msg> {
        std::iter::from_fn(|| self.maps.messages.pop()).collect()
    }

    /// Makes a page that a guest and its host share. Returns its address for programs, and its
    /// cells.
    ///
    /// # Panics
    /// If there is not enough memory.
    pub fn shared_page(&mut self, bytes: usize) -> (u64, &'static [Cell<u8>]) {
        let at = self.allocate(bytes, 64).expect("memory for a guest's line");
        // SAFETY: the memory is used for nothing else, and is mapped whenever the machine is in
        // place.
        let cells = unsafe { std::slice::from_raw_parts(at.as_ptr().cast::<Cell<u8>>(), bytes) };
        (at.as_ptr() as u64, cells)
    }
}
