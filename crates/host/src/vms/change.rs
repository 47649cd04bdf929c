// SPDX-License-Identifier: GPL-2.0-only
//! What the registry tells about VMs and threads that came, went or changed.
//!
//! The order of a thread's life is in the types. A [`NewThread`] needs a setup before it becomes a
//! [`SetUpThread`], and only a [`SetUpThread`] can be made ready. Only a [`GoneThread`] can be
//! released. The registry alone creates these values, and none can be copied. If one is dropped
//! while the record is new or gone, the next scan tells the change again.

use paracord_policy::pc_vcpu_setup;
use paracord_sensor::Life;
use tracing::warn;

use super::Vms;

/// What came, went or changed. Changes are told in the order in which they happened. When a change
/// is told, the registry already contains it.
#[derive(Debug)]
#[must_use = "a thread whose change is lost is never boosted, or its record is never released"]
pub enum Change {
    /// The first vCPU of this process was found. The vCPU follows as the next change.
    VmAdded(u32),
    /// A vCPU of a known VM.
    VcpuAdded {
        /// KVM vcpu_id; `u32::MAX`: not known.
        vcpu_id: u32,
        /// Its thread.
        thread: NewThread,
    },
    /// A VMM thread of a known VM that is not a vCPU.
    IoThreadAdded(NewThread),
    /// A thread has ended. It was a vCPU, or another thread of a VMM. Nothing refers to its record
    /// any more except the followers of the registry.
    ThreadRemoved(GoneThread),
    /// The last vCPU of this process is gone. Other threads of the process may go on.
    VmRemoved(u32),
    /// The guest's driver has declared something else, or is gone.
    DriverChanged(u32),
    /// The settings of a VM were applied again.
    ConfigChanged {
        /// The process.
        pid: u32,
        /// Whether the region of the VM was looked for again.
        region: bool,
    },
}

/// A thread with a record for which the policy does not run yet.
#[derive(Debug)]
#[must_use = "the policy never runs for a thread that is not made ready"]
pub struct NewThread {
    pub(super) index: u32,
    pub(super) tid: u32,
    pub(super) pid: u32,
}

impl NewThread {
    /// Index of its record.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Thread ID.
    pub fn tid(&self) -> u32 {
        self.tid
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.pid
    }
}

/// A new thread whose setup the sensor has.
#[derive(Debug)]
#[must_use = "the policy never runs for a thread that is not made ready"]
pub struct SetUpThread {
    index: u32,
}

/// A thread that has ended, whose record is still taken.
#[derive(Debug)]
#[must_use = "the record of the thread is not used again before it is released"]
pub struct GoneThread {
    pub(super) index: u32,
}

impl GoneThread {
    /// Index of its record.
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

    /// Writes the setup of a thread again. Does nothing unless the thread is ready: the setup of a
    /// new one is written by [`set_up`](Vms::set_up).
    pub fn set_up_again(&self, index: u32, setup: pc_vcpu_setup) {
        let record = self.sensor.vcpus().get(index);
        if let Some(record) = record.filter(|record| record.life() == Life::Ready) {
            record.set_setup(setup);
        }
    }

    /// Has the policy run for a thread from now on.
    pub fn make_ready(&self, thread: SetUpThread) {
        if let Some(record) = self.sensor.vcpus().get(thread.index) {
            // This returns false if the thread is gone meanwhile. The next scan tells that.
            record.set_ready();
        }
    }

    /// Gives back the record of a thread that is gone. The sensor may use the index for a new
    /// thread at once: nothing may refer to it any more.
    pub fn release(&self, thread: GoneThread) {
        let index = thread.index;
        let Some(record) = self.sensor.vcpus().get(index) else { return };
        if let Err(error) = self.sensor.release(&record) {
            warn!("vCPU index {index} is lost until the daemon restarts: {error}");
        }
    }
}
