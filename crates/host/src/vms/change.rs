// SPDX-License-Identifier: GPL-2.0-only
//! The changes that the registry reports: VMs and threads that came, went or changed.
//!
//! The types enforce the order of the steps in a thread's life. A [`NewThread`] needs a setup
//! before it becomes a [`SetUpThread`], and only a [`SetUpThread`] can be made ready. Only a
//! [`GoneThread`] can be released. Only the registry creates these values, and they cannot be
//! copied. If such a value is dropped while the state of the thread's record is [`Life::New`] or
//! [`Life::Gone`], the next scan reports the change again.

use paracord_policy::pc_vcpu_setup;
use paracord_sensor::Life;
use tracing::warn;

use super::Vms;

/// A VM or thread that came, went or changed. The registry updates its own data before it reports a
/// change, and it reports changes in the order in which it has made them.
#[derive(Debug)]
#[must_use = "a thread whose change is lost is never boosted, or its record is never released"]
pub enum Change {
    /// The first vCPU of this process was found. The next change reports that vCPU.
    VmAdded(u32),
    /// A vCPU of a known VM.
    VcpuAdded {
        /// KVM vcpu_id; `u32::MAX`: not known.
        vcpu_id: u32,
        /// The vCPU's thread.
        thread: NewThread,
    },
    /// A thread that is not a vCPU, but belongs to the VMM of a known VM.
    IoThreadAdded(NewThread),
    /// A vCPU thread or another thread of a VMM has ended. Only the followers of the registry still
    /// refer to the record of the thread.
    ThreadRemoved(GoneThread),
    /// The last vCPU of this process is gone. Other threads of the process may still run.
    VmRemoved(u32),
    /// The declaration of the guest's driver has changed, the driver is gone, or the guest has
    /// announced another region.
    DriverChanged(u32),
    /// The settings of a VM were applied again, or its region has changed.
    ConfigChanged {
        /// The process.
        pid: u32,
        /// Whether the registry has searched for the VM's region again, or the region has changed.
        region: bool,
    },
}

/// A thread that has a record, but for which the policy does not run yet.
#[derive(Debug)]
#[must_use = "the policy never runs for a thread that is not made ready"]
pub struct NewThread {
    pub(super) index: u32,
    pub(super) tid: u32,
    pub(super) pid: u32,
}

impl NewThread {
    /// Index of the thread's record.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Thread ID.
    pub fn tid(&self) -> u32 {
        self.tid
    }

    /// The thread's process.
    pub fn pid(&self) -> u32 {
        self.pid
    }
}

/// A new thread whose setup was written to the sensor.
#[derive(Debug)]
#[must_use = "the policy never runs for a thread that is not made ready"]
pub struct SetUpThread {
    index: u32,
}

/// A thread that has ended, but whose record is still in use.
#[derive(Debug)]
#[must_use = "the record of the thread is not used again before it is released"]
pub struct GoneThread {
    pub(super) index: u32,
}

impl GoneThread {
    /// Index of the thread's record.
    pub fn index(&self) -> u32 {
        self.index
    }
}

impl Vms {
    /// Writes the setup of a new thread to the sensor.
    pub fn set_up(&self, thread: NewThread, setup: pc_vcpu_setup) -> SetUpThread {
        if let Some(record) = self.sensor.vcpus().get(thread.index) {
            record.set_setup(setup);
        }
        SetUpThread { index: thread.index }
    }

    /// Writes the setup of a thread again. Does nothing unless the thread is ready, because
    /// [`set_up`](Vms::set_up) writes the setup of a new thread.
    pub fn set_up_again(&self, index: u32, setup: pc_vcpu_setup) {
        let record = self.sensor.vcpus().get(index);
        if let Some(record) = record.filter(|record| record.life() == Life::Ready) {
            record.set_setup(setup);
        }
    }

    /// Makes the policy run for a thread from now on.
    pub fn make_ready(&self, thread: SetUpThread) {
        if let Some(record) = self.sensor.vcpus().get(thread.index) {
            // `set_ready` returns false if the thread has ended in the meantime. The next scan will
            // report its end.
            record.set_ready();
        }
    }

    /// Gives back the record of a thread that is gone. The sensor may immediately use the index for
    /// a new thread, so nothing may refer to the record any more.
    pub fn release(&self, thread: GoneThread) {
        let index = thread.index;
        let Some(record) = self.sensor.vcpus().get(index) else { return };
        if let Err(error) = self.sensor.release(&record) {
            warn!("vCPU index {index} is lost until the daemon restarts: {error}");
        }
    }
}
