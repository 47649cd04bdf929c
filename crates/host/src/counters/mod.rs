// SPDX-License-Identifier: GPL-2.0-only
//! Counters of guests whose VMM serves none (QEMU): the events are the daemon's, on vCPU threads.
//!
//! A guest asks by a kick. The sensor sees it in the vCPU's context and wakes the worker of that CPU, a real-time thread
//! above every vCPU: it runs before the guest goes on, while the vCPU's thread is switched out. So no call is an
//! interrupt to another CPU, and what a guest causes is time in which it does not run itself.

use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use paracord_devices::pmu::{Area, Budget, Listener, Pool, Quota, Settings};
pub use paracord_devices::pmu::{EventSet, NotOffered, Offer, Offered, Refused};
use paracord_policy::PC_VCPUS_MAX;
use paracord_sensor::Sensor;
use paracord_sys::affinity::{self, CpuMask};
use paracord_sys::clock::now_ns;
use paracord_sys::sched;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fd::OwnedFd;
use tracing::{debug, warn};

use crate::identity::Identity;
use crate::ivshmem::{Ivshmem, Vectors};
use crate::region::Region;
use crate::rt_thread::wake;
use crate::settings::CounterSettings;
use crate::snapshot::PmuSnapshot;
use crate::vms::Vm;

/// What a worker costs besides its work: it is switched in and out.
const TURN: Duration = Duration::from_micros(3);
/// A guest that asks on when its budget is used up would cost the host turns without end.
const DEAF: Duration = Duration::from_millis(10);

/// A vCPU whose counters are served.
struct Served {
    region: Arc<Region>,
    vcpu_id: u32,
    area: Area,
    budget: Arc<Budget>,
    /// Without them nothing can be sampled.
    vectors: Option<Arc<Vectors>>,
}

impl Served {
    fn answer(&mut self) -> io::Result<()> {
        let copy = self.region.read_asks(self.vcpu_id)?;
        match self.area.serve(&copy) {
            Some(answer) => self.region.write_answer(self.vcpu_id, &answer),
            None => Ok(()),
        }
    }

    fn tell_overflows(&mut self) -> io::Result<()> {
        let Some(answer) = self.area.overflowed() else { return Ok(()) };
        self.region.write_answer(self.vcpu_id, &answer)?;
        if let Some(vectors) = &self.vectors {
            vectors.raise(self.vcpu_id);
        }
        Ok(())
    }
}

/// By vCPU index. A lock is taken by the worker of the CPU on which the vCPU runs, and seldom by others.
struct Table {
    served: Vec<Mutex<Option<Served>>>,
    /// Batches that could not be read or answered: the VMM's user has changed the file.
    lost: AtomicU32,
}

impl Table {
    fn entry(&self, index: u32) -> Option<MutexGuard<'_, Option<Served>>> {
        let entry = self.served.get(index as usize)?;
        Some(entry.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The guest on vCPU `index` has asked, or its counters have overflowed; the worker works for it since `start_ns`.
    /// Return: it is not heard before then.
    fn serve(&self, index: u32, start_ns: u64) -> Option<u64> {
        let mut entry = self.entry(index)?;
        let served = entry.as_mut()?;
        let before = served.area.spent();
        if served.answer().and_then(|()| served.tell_overflows()).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        served.area.end_slice();
        // The rest, which is not the pool's.
        let end_ns = now_ns();
        let all = TURN + Duration::from_nanos(end_ns.saturating_sub(start_ns));
        served.budget.charge(all.saturating_sub(served.area.spent() - before));
        let deaf_ns = u64::try_from(DEAF.as_nanos()).unwrap_or(u64::MAX);
        served.budget.is_over().then(|| end_ns.saturating_add(deaf_ns))
    }
}

/// A worker; dropping it ends it.
struct Worker {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        wake(&self.stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The counters of all guests. Dropping it closes every event.
pub struct Counters {
    sensor: Arc<Sensor>,
    table: Arc<Table>,
    ivshmem: Option<Ivshmem>,
    settings: CounterSettings,
    priority: u32,
    /// What guests may count here; found when the first one may.
    offer: Option<Offer>,
    /// The sensor's program that rings for overflows.
    listener: Option<Arc<OwnedFd>>,
    workers: Vec<Worker>,
}

impl Counters {
    /// None yet. Workers run with a real-time priority above that of vCPUs. Without `ivshmem` nothing is sampled.
    pub fn new(
        sensor: Arc<Sensor>,
        ivshmem: Option<Ivshmem>,
        settings: CounterSettings,
        priority: u32,
    ) -> Counters {
        let served = (0..PC_VCPUS_MAX).map(|_| Mutex::new(None)).collect();
        let table = Arc::new(Table { served, lost: AtomicU32::new(0) });
        Counters {
            sensor,
            table,
            ivshmem,
            settings,
            priority,
            offer: None,
            listener: None,
            workers: Vec::new(),
        }
    }

    /// What VMs that come from now on may cost.
    pub fn configure(&mut self, settings: CounterSettings) {
        if self.settings.events != settings.events {
            self.offer = None;
        }
        self.settings = settings;
    }

    /// What a new VM may cost; `None` where its counters are not served.
    pub fn admit(&mut self, vm: &Identity, region: &Region) -> Option<VmCounters> {
        if !self.settings.serve || !region.asks_at_kicks() {
            return None;
        }
        let host = self.offer.get_or_insert_with(|| Offer::probe(self.settings.events));
        let names = region.event_names();
        let offer = host.named(names.iter().map(String::as_str));
        let mut missing = names.iter().filter(|name| offer.find(name).is_none()).peekable();
        if let Some(&first) = missing.peek() {
            let refused = host.refused().iter().find(|refused| refused.name == first);
            let why = refused.map(|refused| refused.reason.to_string());
            let why = why.as_deref().unwrap_or("no such event");
            let names: Vec<&String> = missing.collect();
            warn!(
                vm = vm.name,
                "its region offers events that are not counted: {names:?}; {first:?}: {why}"
            );
        }
        let quota =
            Quota { calls_per_sec: self.settings.budget, opens_per_sec: self.settings.openings };
        let vectors = self.ivshmem.as_ref().and_then(|server| server.vectors(&region.name, vm));
        let (offer, budget) = (Arc::new(offer), Arc::new(Budget::new(quota)));
        Some(VmCounters { offer, budget, vectors })
    }

    /// vCPU `index` of a VM is there, or its VM has changed: serves it from now on, or not any more.
    pub fn attach(&mut self, vm: &Vm, index: u32, tid: u32, vcpu_id: u32) {
        let Some((counters, region)) = vm.counters.as_ref().zip(vm.region.as_ref()) else {
            return self.detach(index);
        };
        self.start_workers();
        let Some(listener) = self.listener() else { return };
        let (offer, budget) = (counters.offer.clone(), counters.budget.clone());
        let listener = Listener::Program(listener);
        let pool = Pool::of_thread(tid, listener, offer, Arc::clone(&budget), Settings::default());
        let mut area = Area::new(pool);
        if let Some(refusal) = area.last_refusal() {
            debug!(tid, "no event yet for a vCPU's counters: {refusal}");
        }
        let Some(mut entry) = self.table.entry(index) else { return };
        let lines = region
            .read_answer(vcpu_id)
            .and_then(|answer| region.read_asks(vcpu_id).map(|asks| area.resume(&answer, &asks)));
        if lines.and_then(|lines| region.write_answer(vcpu_id, &lines)).is_err() {
            self.table.lost.fetch_add(1, Ordering::Relaxed);
        }
        let (region, vectors) = (Arc::clone(region), counters.vectors.clone());
        *entry = Some(Served { region, vcpu_id, area, budget, vectors });
    }

    /// The vCPU is gone.
    pub fn detach(&self, index: u32) {
        let served = self.table.entry(index).and_then(|mut entry| entry.take());
        // Events are closed here, with no lock held.
        drop(served);
    }

    /// What a VM's counters do, on the vCPUs of these indices.
    pub fn snapshot(&self, vm: &VmCounters, indices: impl Iterator<Item = u32>) -> PmuSnapshot {
        let mut now = PmuSnapshot {
            interrupts: vm.vectors.is_some(),
            spent_ns: u64::try_from(vm.budget.spent().as_nanos()).unwrap_or(u64::MAX),
            ..PmuSnapshot::default()
        };
        for index in indices {
            let entry = self.table.entry(index);
            let Some(Served { area, .. }) = entry.as_deref().and_then(Option::as_ref) else {
                continue;
            };
            let stats = area.stats();
            now.open += stats.openings - stats.closings;
            now.openings += stats.openings;
            now.reuses += stats.reuses;
            now.refusals += stats.refusals;
            now.refused = area.last_refusal().map(|why| why.to_string()).or(now.refused);
        }
        now
    }

    /// Events that nobody has asked for lately are closed, of vCPUs whose guests do not ask at all.
    pub fn look(&self, indices: impl Iterator<Item = u32>) {
        for index in indices {
            let Some(mut entry) = self.table.entry(index) else { continue };
            if let Some(served) = &mut *entry {
                served.area.end_slice();
            }
        }
        let lost = self.table.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            warn!("{lost} batches of counters were lost: the region could not be read or written");
        }
    }

    fn listener(&mut self) -> Option<Arc<OwnedFd>> {
        if self.listener.is_none() {
            match self.sensor.overflow_program() {
                Ok(program) => self.listener = Some(Arc::new(program)),
                Err(error) => warn!("counters are not served: {error}"),
            }
        }
        self.listener.clone()
    }

    /// A worker per CPU, once.
    fn start_workers(&mut self) {
        if !self.workers.is_empty() {
            return;
        }
        for cpu in 0..u32::try_from(self.sensor.cpus().len()).unwrap_or(u32::MAX) {
            match self.start_worker(cpu) {
                Ok(worker) => self.workers.push(worker),
                // A CPU that is offline, or beyond those that there are.
                Err(error) => debug!(cpu, "no worker for counters: {error}"),
            }
        }
    }

    fn start_worker(&self, cpu: u32) -> io::Result<Worker> {
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (report, started) = std::sync::mpsc::sync_channel(1);
        let (theirs, sensor) = (Arc::clone(&stop), Arc::clone(&self.sensor));
        let (table, priority) = (Arc::clone(&self.table), self.priority);
        let body = move || {
            let since_ns = Cell::new(0);
            let mut here = CpuMask::default();
            here.insert(cpu);
            let ready = affinity::set(0, &here).and_then(|()| sched::become_realtime(priority));
            let bell = ready.and_then(|()| {
                let serve = |index| {
                    let deaf = table.serve(index, since_ns.get()).zip(sensor.vcpus().get(index));
                    since_ns.set(now_ns());
                    if let Some((until_ns, vcpu)) = deaf {
                        vcpu.set_deaf_until(until_ns);
                    }
                };
                sensor.bell(cpu, serve).map_err(io::Error::other)
            });
            match bell {
                Ok(bell) => {
                    drop(report.send(Ok(())));
                    let mut fds =
                        [PollFd::new(&bell, PollFlags::IN), PollFd::new(&*theirs, PollFlags::IN)];
                    loop {
                        let polled = poll(&mut fds, None);
                        if polled.is_ok() && !fds[1].revents().is_empty() {
                            return;
                        }
                        since_ns.set(now_ns());
                        let _ = bell.consume();
                    }
                }
                Err(error) => drop(report.send(Err(error))),
            }
        };
        let thread = std::thread::Builder::new().name(format!("paracord-pmu/{cpu}")).spawn(body)?;
        let worker = Worker { stop, thread: Some(thread) };
        let started = started.recv().unwrap_or_else(|_| Err(io::Error::other("it ended")));
        started.map(|()| worker)
    }
}

/// What the vCPUs of a VM share.
#[derive(Clone, Debug)]
pub struct VmCounters {
    offer: Arc<Offer>,
    budget: Arc<Budget>,
    vectors: Option<Arc<Vectors>>,
}
