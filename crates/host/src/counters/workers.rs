// SPDX-License-Identifier: GPL-2.0-only
//! A thread per CPU that works for the vCPUs that run there: bound to it, of a real-time priority above theirs.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use paracord_sensor::Sensor;
use paracord_sys::affinity::{self, CpuMask};
use paracord_sys::clock::now_ns;
use paracord_sys::sched;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::OwnedFd;
use tracing::warn;

use super::table::Table;
use crate::stop_thread::StopThread;

const ONLINE: &str = "/sys/devices/system/cpu/online";

/// Dropping it ends them.
pub struct Workers {
    sensor: Arc<Sensor>,
    table: Arc<Table>,
    priority: u32,
    online: CpuMask,
    by_cpu: BTreeMap<u32, StopThread>,
}

impl Workers {
    /// None yet.
    pub fn new(sensor: Arc<Sensor>, table: Arc<Table>, priority: u32) -> Workers {
        let (online, by_cpu) = (CpuMask::default(), BTreeMap::new());
        Workers { sensor, table, priority, online, by_cpu }
    }

    /// One for each CPU that is online now. A CPU that goes takes its worker's binding with it, so that one that comes
    /// back has a new worker.
    pub fn follow_cpus(&mut self) {
        let Some(online) = read_mask(Path::new(ONLINE)).filter(|online| *online != self.online)
        else {
            return;
        };
        self.online = online;
        self.by_cpu.retain(|cpu, _| online.contains(*cpu));
        for cpu in online.iter() {
            if self.by_cpu.contains_key(&cpu) {
                continue;
            }
            match self.start(cpu) {
                Ok(worker) => drop(self.by_cpu.insert(cpu, worker)),
                Err(error) => warn!(cpu, "no worker for guests' counters: {error}"),
            }
        }
    }

    fn start(&self, cpu: u32) -> io::Result<StopThread> {
        let (report, started) = std::sync::mpsc::sync_channel(1);
        let (sensor, table) = (Arc::clone(&self.sensor), Arc::clone(&self.table));
        let priority = self.priority;
        let body = move |stop: &OwnedFd| {
            let works = |done: io::Result<()>| drop(report.send(done));
            if let Err(error) = bind(cpu, priority)
                .and_then(|()| work(cpu, &sensor, &table, stop, || works(Ok(()))))
            {
                works(Err(error));
            }
        };
        let worker = StopThread::start(format!("paracord-pmu/{cpu}"), body)?;
        let started = started.recv().unwrap_or_else(|_| Err(io::Error::other("it ended")));
        started.map(|()| worker)
    }
}

fn bind(cpu: u32, priority: u32) -> io::Result<()> {
    let mut here = CpuMask::default();
    here.insert(cpu);
    affinity::set(0, &here)?;
    sched::become_realtime(priority)
}

/// A worker's thread, until `stop` is readable.
fn work(
    cpu: u32,
    sensor: &Sensor,
    table: &Table,
    stop: &OwnedFd,
    works: impl FnOnce(),
) -> io::Result<()> {
    let since_ns = Cell::new(0);
    let serve = |index| {
        let deaf = table.serve(index, since_ns.get()).zip(sensor.vcpus().get(index));
        since_ns.set(now_ns());
        if let Some((until_ns, vcpu)) = deaf {
            vcpu.set_deaf_until(until_ns);
        }
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

fn read_mask(path: &Path) -> Option<CpuMask> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}
