// SPDX-License-Identifier: GPL-2.0-only
//! Writes host lines: tells each guest whether it is boosted.
//!
//! A thread of its own, since a write to a file that the VM's user owns can wait
//! for what that user does to the file; then no decision waits with it. It runs before
//! normal tasks, because a guest decides by its line whether to kick, but never
//! before a boosted vCPU: that would undo for a while what the line tells about.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use paracord_abi::{HostBoost, layout};
use paracord_sensor::Sensor;
use paracord_sys::sched::{self, SchedAttr, policy};
use rustix::event::{PollFd, PollFlags, poll};

use crate::actuator::ActuatorStats;
use crate::region::Region;
use crate::rt_thread::{RtShared, clear_wake};

/// SCHED_FIFO priority of the thread: the lowest, as a boosted vCPU's may be.
const PRIORITY: u32 = 1;

/// Where each vCPU's line is.
type Places = Mutex<HashMap<u32, (Arc<Region>, u32)>>;

/// The running thread; dropping it ends it.
#[derive(Debug)]
pub struct HostLines {
    places: Arc<Places>,
    shared: Arc<RtShared>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl HostLines {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the thread cannot be made.
    pub fn start(
        sensor: Arc<Sensor>,
        stats: Arc<ActuatorStats>,
        shared: Arc<RtShared>,
    ) -> io::Result<HostLines> {
        let places = Arc::new(Places::default());
        let stop = Arc::new(AtomicBool::new(false));
        let writer = Writer {
            sensor,
            stats,
            shared: Arc::clone(&shared),
            places: Arc::clone(&places),
            stop: Arc::clone(&stop),
        };
        let thread =
            std::thread::Builder::new().name("paracord-lines".into()).spawn(move || {
                // Without the priority lines are later, nothing else.
                let _ = sched::set(0, &SchedAttr::realtime(policy::FIFO, PRIORITY));
                writer.run();
            })?;
        Ok(HostLines { places, shared, stop, thread: Some(thread) })
    }

    /// vCPU `index` has its line in `region`, at slot `vcpu_id`; writes it.
    pub fn attach(&self, index: u32, region: Arc<Region>, vcpu_id: u32) {
        lock(&self.places).insert(index, (region, vcpu_id));
        self.refresh(index);
    }

    /// vCPU `index` has no line any more.
    pub fn detach(&self, index: u32) {
        lock(&self.places).remove(&index);
    }

    /// Writes the line of vCPU `index`.
    pub fn refresh(&self, index: u32) {
        self.shared.host_lines.mark(index);
        self.shared.publish_host_lines();
    }
}

impl Drop for HostLines {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.shared.publish_host_lines();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock(places: &Places) -> std::sync::MutexGuard<'_, HashMap<u32, (Arc<Region>, u32)>> {
    places.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Writer {
    sensor: Arc<Sensor>,
    stats: Arc<ActuatorStats>,
    shared: Arc<RtShared>,
    places: Arc<Places>,
    stop: Arc<AtomicBool>,
}

impl Writer {
    fn run(&self) {
        loop {
            let fd = self.shared.host_lines_fd();
            let _ = poll(&mut [PollFd::new(&fd, PollFlags::IN)], None);
            clear_wake(fd);
            self.shared.host_lines.drain(|index| self.write(index));
            if self.stop.load(Ordering::Acquire) {
                return;
            }
        }
    }

    fn write(&self, index: u32) {
        // The lock is not held while the file is written.
        let Some((region, vcpu_id)) = lock(&self.places).get(&index).cloned() else { return };
        let Some(vcpu) = self.sensor.vcpus().get(index) else { return };
        let policy_state = vcpu.state();
        let state = if self.stats.is_actuated(index) {
            layout::PARACORD_BOOST_ON
        } else if policy_state.throttled != 0 {
            layout::PARACORD_BOOST_THROTTLED
        } else {
            layout::PARACORD_BOOST_OFF
        };
        let on = state == layout::PARACORD_BOOST_ON;
        let boost = HostBoost {
            state: state as u8,
            reasons: if on { policy_state.reasons } else { 0 },
            boosts: self.stats.boosts_of(index),
            throttles: vcpu.counters().throttles as u32,
        };
        // A file that its owner has shortened cannot be helped: the guest has no line then.
        let _ = region.write_boost(vcpu_id, boost);
    }
}
