// SPDX-License-Identifier: GPL-2.0-only
//! Access to the fields of one vCPU or one VM in the shared arrays.

use std::{
    ptr::{self, NonNull},
    sync::atomic::{AtomicU32, Ordering},
};

use paracord_policy::{
    PC_ENTERED_YES, PC_IO_THREADS, PC_VCPU_FREE, PC_VCPU_GONE, PC_VCPU_NEW, PC_VCPU_READY,
    PC_VCPUS, pc_adoption, pc_boost_config, pc_boost_state, pc_bucket, pc_near, pc_rq, pc_vcpu,
    pc_vcpu_counters, pc_vcpu_setup, pc_vm,
};

use crate::Array;

/// State of a vCPU record: `pc_vcpu.life`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// The index is not in use.
    Free,
    /// The sensor has found the thread; the daemon has not set it up yet.
    New,
    /// The policy runs for this vCPU.
    Ready,
    /// The thread has exited. The index is to be released ([`crate::Sensor::release`]).
    Gone,
}

/// Reads one field of a mapped record.
macro_rules! field {
    ($record:expr, $name:ident $([$index:expr] . $of:ident)?) => {{
        let record = $record.as_ptr();
        // SAFETY: this is an aligned field inside a mapped record, and any bytes are valid
        // integers.
        unsafe { ptr::read_volatile(&raw const (*record).$name$([$index].$of)?) }
    }};
}

/// Writes one field of a mapped record.
macro_rules! set_field {
    ($record:expr, $name:ident $([$index:expr] . $of:ident)?, $value:expr) => {{
        let record = $record.as_ptr();
        // SAFETY: this is an aligned field inside a mapped record, and only this side writes it.
        unsafe { ptr::write_volatile(&raw mut (*record).$name$([$index].$of)?, $value) }
    }};
}

/// One entry of the sensor's vCPU array.
#[derive(Clone, Copy)]
pub struct Vcpu<'a> {
    index: u32,
    record: NonNull<pc_vcpu>,
    array: std::marker::PhantomData<&'a Array<pc_vcpu>>,
}

impl Array<pc_vcpu> {
    /// The vCPU at an index; `None` if the index is beyond the array.
    #[must_use]
    pub fn get(&self, index: u32) -> Option<Vcpu<'_>> {
        Some(Vcpu { index, record: self.at(index)?, array: std::marker::PhantomData })
    }

    /// All records in use, whatever their state.
    pub fn iter(&self) -> impl Iterator<Item = Vcpu<'_>> {
        (0..u32::try_from(self.len()).unwrap_or(u32::MAX))
            .filter_map(|index| self.get(index))
            .filter(|vcpu| vcpu.life() != Life::Free)
    }
}

/// Number of threads that run vCPUs and got no record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// Threads whose user already has the maximum number of records.
    pub of_users: u64,
    /// Threads for which no record was left.
    pub full: u64,
}

impl Array<pc_adoption> {
    /// Sets how many records a user other than root may take; 0: no limit.
    pub(crate) fn set_per_user(&self, records: u32) {
        if let Some(record) = self.at(0) {
            set_field!(record, per_user, records);
        }
    }

    /// Sets whether the scheduler applies boosts.
    pub(crate) fn set_own_boosts(&self, own: bool) {
        if let Some(record) = self.at(0) {
            set_field!(record, own_boosts, own.into());
        }
    }

    pub(crate) fn refusals(&self) -> Refusals {
        self.at(0).map_or_else(Refusals::default, |record| Refusals {
            of_users: field!(record, refused),
            full: field!(record, full),
        })
    }
}

impl Array<pc_rq> {
    /// Sets a CPU's place in the topology, its slice, whether it is offline, and whether the kernel
    /// may stop its tick. Does nothing if `cpu` is beyond the array.
    pub(crate) fn prepare(
        &self,
        cpu: u32,
        near: pc_near,
        slice_ns: u32,
        offline: bool,
        tickless: bool,
    ) {
        if let Some(record) = self.at(cpu) {
            set_field!(record, near, near);
            set_field!(record, slice_ns, slice_ns);
            set_field!(record, offline, u16::from(offline));
            set_field!(record, tickless, u16::from(tickless));
        }
    }

    /// Sets a CPU's domain and capacity in the energy model. Does nothing if `cpu` is beyond the
    /// array.
    pub(crate) fn set_place(&self, cpu: u32, domain: u32, capacity: u32) {
        if let Some(record) = self.at(cpu) {
            set_field!(record, domain, u16::try_from(domain).unwrap_or(u16::MAX));
            set_field!(record, capacity, u16::try_from(capacity).unwrap_or(u16::MAX));
        }
    }

    /// Sets the mechanisms of the performance policy that are active on a CPU. Does nothing if
    /// `cpu` is beyond the array.
    pub(crate) fn set_features(&self, cpu: u32, features: u32) {
        if let Some(record) = self.at(cpu) {
            set_field!(record, features, features);
        }
    }
}

impl Vcpu<'_> {
    /// Index into the array.
    #[must_use]
    pub fn index(&self) -> u32 {
        self.index
    }

    pub(crate) fn record(&self) -> NonNull<pc_vcpu> {
        self.record
    }

    fn life_cell(&self) -> &AtomicU32 {
        let record = self.record.as_ptr();
        // SAFETY: `life` is an aligned u32 inside the mapping.
        let life = unsafe { &raw mut (*record).life };
        // SAFETY: the field lives as long as the array, and both sides access it as one aligned
        // word.
        unsafe { AtomicU32::from_ptr(life) }
    }

    /// Sets the time (CLOCK_MONOTONIC) until which no worker is woken for the guest's counter
    /// requests.
    pub fn set_deaf_until(&self, ns: u64) {
        set_field!(self.record, deaf_until_ns, ns);
    }

    /// State of the record.
    #[must_use]
    pub fn life(&self) -> Life {
        match self.life_cell().load(Ordering::Acquire) {
            PC_VCPU_NEW => Life::New,
            PC_VCPU_READY => Life::Ready,
            PC_VCPU_GONE => Life::Gone,
            _ => Life::Free,
        }
    }

    /// Changes NEW to READY: from then on, the policy runs for this vCPU. False if the thread is
    /// already gone.
    pub fn set_ready(&self) -> bool {
        self.life_cell()
            .compare_exchange(PC_VCPU_NEW, PC_VCPU_READY, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Whether a thread that got its record through [`crate::Sensor::adopt_thread`] has run a vCPU
    /// since then.
    #[must_use]
    pub fn has_entered(&self) -> bool {
        field!(self.record, entered) == PC_ENTERED_YES
    }

    /// Makes the sensor report the guest's request again after paracord's scheduler has been
    /// stopped. Until then, the scheduler acts on the request.
    pub fn forget_told(&self) {
        // This is called while the scheduler is loaded. During that time, no BPF program writes
        // this field.
        set_field!(self.record, told_asks, 0);
    }

    /// Zeroes the whole record, which makes it FREE.
    pub(crate) fn clear(&self) {
        self.life_cell().store(PC_VCPU_FREE, Ordering::Release);
        // SAFETY: a zeroed record is valid, and no program uses a FREE record.
        unsafe { ptr::write_volatile(self.record.as_ptr(), pc_vcpu::default()) };
    }

    /// Makes a FREE record look as if the sensor had found thread `tid` of `tgid` at its first VM
    /// exit.
    pub(crate) fn adopt(&self, tid: u32, tgid: u32) {
        set_field!(self.record, tid, tid);
        set_field!(self.record, tgid, tgid);
        set_field!(self.record, vcpu_id, u32::MAX);
        self.life_cell().store(PC_VCPU_NEW, Ordering::Release);
    }

    /// The user to whose quota the record is charged.
    pub(crate) fn charged_user(&self) -> Option<u32> {
        (field!(self.record, charged) != 0).then(|| field!(self.record, uid))
    }

    /// Thread ID.
    #[must_use]
    pub fn tid(&self) -> u32 {
        field!(self.record, tid)
    }

    /// Process ID of the VMM.
    #[must_use]
    pub fn tgid(&self) -> u32 {
        field!(self.record, tgid)
    }

    /// KVM's ID of the vCPU; `None` on a kernel without BTF for KVM.
    #[must_use]
    pub fn vcpu_id(&self) -> Option<u32> {
        Some(field!(self.record, vcpu_id)).filter(|id| *id != u32::MAX)
    }

    /// Start of the thread, in nanoseconds of `CLOCK_BOOTTIME`: field 22 of
    /// /proc/PID/task/TID/stat, with a finer unit.
    #[must_use]
    pub fn start_ns(&self) -> u64 {
        field!(self.record, start_ns)
    }

    /// Host CPU that the vCPU runs on or ran on last.
    #[must_use]
    pub fn cpu(&self) -> u32 {
        field!(self.record, cpu)
    }

    /// When the vCPU was last switched in, `CLOCK_MONOTONIC`.
    #[must_use]
    pub fn run_since_ns(&self) -> u64 {
        field!(self.record, run_since_ns)
    }

    /// Whether the vCPU is on a CPU now.
    #[must_use]
    pub fn on_cpu(&self) -> bool {
        field!(self.record, on_cpu) != 0
    }

    /// Whether the policy boosts the vCPU (in observe mode: would boost it).
    #[must_use]
    pub fn boosted(&self) -> bool {
        field!(self.record, state).boosted != 0
    }

    /// Whether paracord's scheduler boosts the thread, and no message has told the daemon of this.
    #[must_use]
    pub fn boosted_unreported(&self) -> bool {
        self.life() == Life::Ready && field!(self.record, unreported) != 0
    }

    /// A copy of the policy's state.
    #[must_use]
    pub fn state(&self) -> pc_boost_state {
        field!(self.record, state)
    }

    /// The guest's request and its upper limit, on a scale of 1024. The guest may have set any
    /// value in 0..=65535. A limit of 0 means that there is no limit. `None` while the guest's
    /// requests are not honoured.
    #[must_use]
    pub fn guest_request(&self) -> Option<(u16, u16)> {
        let asks = field!(self.record, asks);
        (self.setup().guest_requests != 0).then_some((asks as u16, (asks >> 16) as u16))
    }

    /// A copy of the counters.
    #[must_use]
    pub fn counters(&self) -> pc_vcpu_counters {
        field!(self.record, counters)
    }

    /// A copy of the setup.
    #[must_use]
    pub fn setup(&self) -> pc_vcpu_setup {
        field!(self.record, setup)
    }

    /// Writes the setup. Call this function before [`Self::set_ready`]. If the setup is written
    /// again later, the sensor may see some of the new fields before others.
    pub fn set_setup(&self, setup: pc_vcpu_setup) {
        set_field!(self.record, setup, setup);
    }
}

/// One entry of the sensor's VM array.
#[derive(Clone, Copy)]
pub struct Vm<'a> {
    record: NonNull<pc_vm>,
    array: std::marker::PhantomData<&'a Array<pc_vm>>,
}

impl Array<pc_vm> {
    /// The VM at an index; `None` if the index is beyond the array.
    #[must_use]
    pub fn get(&self, index: u32) -> Option<Vm<'_>> {
        Some(Vm { record: self.at(index)?, array: std::marker::PhantomData })
    }
}

impl Vm<'_> {
    /// Process ID of the VMM; 0: the entry is free.
    #[must_use]
    pub fn tgid(&self) -> u32 {
        field!(self.record, tgid)
    }

    /// Takes the entry, or gives it back if `tgid` is 0. The budgets are reset, and the VM's home
    /// node becomes unknown.
    pub fn set_tgid(&self, tgid: u32) {
        // The configurations stay: they still apply to threads that an earlier VM has left behind.
        set_field!(self.record, threads[PC_VCPUS as usize].budget, pc_bucket::default());
        set_field!(self.record, threads[PC_IO_THREADS as usize].budget, pc_bucket::default());
        set_field!(self.record, home, 0);
        set_field!(self.record, new_threads, 0);
        set_field!(self.record, tgid, tgid);
    }

    /// Whether the VMM has made threads since the last call of
    /// [`forget_new_threads`](Vm::forget_new_threads).
    #[must_use]
    pub fn has_new_threads(&self) -> bool {
        field!(self.record, new_threads) != 0
    }

    /// Call this function before you look for the threads. The sensor sends `PC_MSG_THREADS` for
    /// the next thread that the VMM makes.
    pub fn forget_new_threads(&self) {
        set_field!(self.record, new_threads, 0);
        // The caller reads the list of threads after this store.
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    }

    /// Replaces the configurations of the vCPUs and of the VMM's other threads. The caller must
    /// then evaluate all of them with `PC_EV_CONFIG` ([`crate::Sensor::evaluate`]).
    pub fn set_config(&self, vcpus: pc_boost_config, io_threads: pc_boost_config) {
        set_field!(self.record, threads[PC_VCPUS as usize].config, vcpus);
        set_field!(self.record, threads[PC_IO_THREADS as usize].config, io_threads);
    }

    /// The budget of the VM's vCPUs (`PC_VCPUS`) or of the VMM's other threads (`PC_IO_THREADS`).
    ///
    /// # Panics
    /// If `threads` is any other number.
    #[must_use]
    pub fn budget(&self, threads: u32) -> pc_bucket {
        field!(self.record, threads[threads as usize].budget)
    }
}
