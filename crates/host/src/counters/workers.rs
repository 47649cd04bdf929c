// SPDX-License-Identifier: GPL-2.0-only
//! The workers: one thread per CPU, which works for the vCPUs that run on this CPU. The thread is
//! bound to its CPU, and its real-time priority is above that of the vCPUs.

use std::cell::Cell;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use paracord_sensor::Sensor;
use paracord_sys::affinity::{self, CpuMask};
use paracord_sys::clock::now_ns;
use paracord_sys::sched;
use paracord_sys::sysfs::CpuFiles;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::OwnedFd;
use tracing::warn;

use super::crew::{Crew, Report};
use super::table::Table;

/// How long the main thread waits for all new workers together. A worker may never start if a
/// thread with a higher priority does not release the worker's CPU.
const PATIENCE: Duration = Duration::from_secs(1);

/// The workers. Dropping this value ends them.
pub struct Workers {
    sensor: Arc<Sensor>,
    table: Arc<Table>,
    priority: u32,
    online: CpuMask,
    crew: Crew,
}

impl Workers {
    /// Creates the state without any worker.
    pub fn new(sensor: Arc<Sensor>, table: Arc<Table>, priority: u32) -> Workers {
        Workers { sensor, table, priority, online: CpuMask::default(), crew: Crew::default() }
    }

    /// Starts and ends workers, so that each CPU that is online now has one worker. A worker loses
    /// its CPU affinity when its CPU goes offline, so a CPU that comes back gets a new worker.
    pub fn follow_cpus(&mut self) {
        let online = CpuFiles::below(Path::new("/sys")).online().ok().flatten();
        let Some(online) = online.filter(|online| *online != self.online) else {
            return self.crew.look();
        };
        self.online = online;
        let cpus: Vec<u32> = online.iter().collect();
        let (sensor, table, priority) = (&self.sensor, &self.table, self.priority);
        self.crew.follow(&cpus, PATIENCE, |cpu, report: Report| {
            let (sensor, table) = (Arc::clone(sensor), Arc::clone(table));
            move |stop: &OwnedFd| {
                let works = |done: io::Result<()>| drop(report.send(done));
                if let Err(error) = bind(cpu, priority)
                    .and_then(|()| work(cpu, &sensor, &table, stop, || works(Ok(()))))
                {
                    works(Err(error));
                }
            }
        });
        for (cpu, why) in self.crew.lacking() {
            warn!(cpu, "no worker for guests' counters: {why}");
        }
    }

    /// Describes in one line the CPUs without a worker, and why. `None` if each CPU has one.
    pub fn lacking(&self) -> Option<String> {
        let (cpu, why) = self.crew.lacking().first_key_value()?;
        let mut cpus = CpuMask::default();
        for cpu in self.crew.lacking().keys() {
            cpus.insert(*cpu);
        }
        Some(format!(
            "no worker for guests' counters on CPUs {cpus} (CPU {cpu}: {why}): they stand still there"
        ))
    }
}

/// Binds the calling thread to `cpu`. The thread becomes real-time first, because an ordinary
/// thread that is bound to the CPU of a boosted vCPU would wait for the end of the boost.
fn bind(cpu: u32, priority: u32) -> io::Result<()> {
    let mut here = CpuMask::default();
    here.insert(cpu);
    sched::become_realtime(priority)?;
    affinity::set(0, &here)
}

/// Body of a worker's thread. Runs until `stop` is readable.
fn work(
    cpu: u32,
    sensor: &Sensor,
    table: &Table,
    stop: &OwnedFd,
    works: impl FnOnce(),
) -> io::Result<()> {
    let since_ns = Cell::new(0);
    let serve = |index| {
        table.serve(index, since_ns.get(), |until_ns| ignore(sensor, index, until_ns));
        since_ns.set(now_ns());
    };
    let bell = sensor.bell(cpu, serve).map_err(io::Error::other)?;
    works();
    let mut fds = [PollFd::new(&bell, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
    loop {
        let polled = poll(&mut fds, None);
        if polled.is_ok() && !fds[1].revents().is_empty() {
            return Ok(());
        }
        since_ns.set(now_ns());
        let _ = bell.consume();
    }
}

/// Makes the sensor ignore requests of vCPU `index` until `until_ns`.
pub(super) fn ignore(sensor: &Sensor, index: u32, until_ns: u64) {
    if let Some(vcpu) = sensor.vcpus().get(index) {
        vcpu.set_deaf_until(until_ns);
    }
}
