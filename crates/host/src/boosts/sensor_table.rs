// SPDX-License-Identifier: GPL-2.0-only
//! What the actuator and the real-time thread read about the threads that the sensor knows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use paracord_sensor::{Life, Sensor};

use crate::boosts::actuator::VcpuTable;
use crate::boosts::journal_file::ENTRIES;
use crate::boosts::thread::{Process, Thread};

/// The sensor's records, and the start times (from procfs) of each thread and of its process. The
/// daemon stores these times before it marks the record of the thread as ready.
pub struct SensorTable {
    sensor: Arc<Sensor>,
    start_ticks: Vec<AtomicU64>,
    process_ticks: Vec<AtomicU64>,
}

impl SensorTable {
    /// Creates a table without start times.
    pub fn new(sensor: Arc<Sensor>) -> SensorTable {
        let none = || (0..ENTRIES).map(|_| AtomicU64::new(0)).collect();
        SensorTable { sensor, start_ticks: none(), process_ticks: none() }
    }

    /// Stores the start times of the thread of vCPU `index`, and of the thread's process.
    pub fn set_start(&self, index: u32, ticks: u64, process_ticks: u64) {
        self.start_ticks[index as usize].store(ticks, Ordering::Release);
        self.process_ticks[index as usize].store(process_ticks, Ordering::Release);
    }

    /// The start time of the thread of vCPU `index`.
    pub fn start_of(&self, index: u32) -> u64 {
        self.start_ticks[index as usize].load(Ordering::Acquire)
    }

    /// Whether the thread with this index runs now and is a VMM thread other than a vCPU.
    pub(super) fn runs_io(&self, index: u32) -> bool {
        self.sensor.vcpus().get(index).is_some_and(|vcpu| vcpu.on_cpu() && vcpu.setup().io != 0)
    }

    /// Whether vCPU `index` has a slot in a region that its VMM maps and its guest uses.
    pub(super) fn has_line(&self, index: u32) -> bool {
        self.sensor.vcpus().get(index).is_some_and(|vcpu| vcpu.setup().slot_hva != 0)
    }
}

impl VcpuTable for SensorTable {
    fn live_thread(&self, index: u32) -> Option<Thread> {
        let vcpu = self.sensor.vcpus().get(index).filter(|vcpu| vcpu.life() == Life::Ready)?;
        Some(Thread { tid: vcpu.tid(), start_ticks: self.start_of(index) })
    }

    fn process(&self, index: u32) -> Process {
        let pid = self.sensor.vcpus().get(index).map_or(0, |vcpu| vcpu.tgid());
        let start_ticks = self.process_ticks[index as usize].load(Ordering::Acquire);
        Process { pid, start_ticks }
    }

    fn is_refused(&self, index: u32) -> bool {
        self.sensor.vcpus().get(index).is_some_and(|vcpu| vcpu.setup().refused != 0)
    }
}
