// SPDX-License-Identifier: GPL-2.0-only
//! Counters of guests whose VMM serves none (QEMU): the events are the daemon's, on vCPU threads.
//!
//! A guest asks by a kick. The sensor sees it in the vCPU's context and wakes the worker of that CPU, a real-time thread
//! above every vCPU: it runs before the guest goes on, while the vCPU's thread is switched out. So no call is an
//! interrupt to another CPU, and what a guest causes is time in which it does not run itself.

mod crew;
mod table;
mod workers;

use std::sync::Arc;

use paracord_devices::pmu::{Area, Budget, Listener, Pool, Settings};
pub use paracord_devices::pmu::{EventSet, Offer, Offered};
use paracord_sensor::Sensor;
use rustix::fd::OwnedFd;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::{debug, warn};

use crate::ivshmem::{Ivshmem, Vectors};
use crate::log_limit::LogLimit;
use crate::regions::region::Region;
use crate::settings::CounterSettings;
use crate::snapshot::PmuSnapshot;
use crate::vms::identity::Identity;
use table::{Served, Table};
use workers::Workers;

/// The counters of all guests. Dropping it closes every event.
pub struct Counters {
    sensor: Arc<Sensor>,
    table: Arc<Table>,
    ivshmem: Option<Ivshmem>,
    settings: CounterSettings,
    /// What guests may count here; found when the first one may.
    offer: Option<Offer>,
    /// The sensor's program that rings for overflows.
    listener: Option<Arc<OwnedFd>>,
    workers: Workers,
    log: LogLimit,
}

impl Counters {
    /// None yet. Workers run with a real-time priority above that of vCPUs. Without `ivshmem` nothing is sampled.
    pub fn new(
        sensor: Arc<Sensor>,
        ivshmem: Option<Ivshmem>,
        settings: CounterSettings,
        priority: u32,
    ) -> Counters {
        use_all_descriptors();
        let table = Arc::new(Table::new());
        let workers = Workers::new(Arc::clone(&sensor), Arc::clone(&table), priority);
        Counters {
            sensor,
            table,
            ivshmem,
            settings,
            offer: None,
            listener: None,
            workers,
            log: LogLimit::default(),
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
        let vectors = self.ivshmem.as_ref().and_then(|server| server.vectors(region, vm));
        let (offer, budget) = (Arc::new(offer), Arc::new(Budget::new(self.settings.quota)));
        Some(VmCounters { offer, budget, vectors })
    }

    /// vCPU `index` of a VM is there, or its VM has changed: serves it from now on.
    pub fn attach(
        &mut self,
        counters: &VmCounters,
        region: &Arc<Region>,
        (index, tid, vcpu_id): (u32, u32, u32),
    ) {
        self.workers.follow_cpus();
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
            self.table.note_lost();
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

    /// To be called now and then, with the vCPUs that are served. Events that nobody has asked for lately are closed, of
    /// guests that do not ask at all; CPUs that came get their workers.
    pub fn look(&mut self, indices: impl Iterator<Item = u32>) {
        let mut indices = indices.peekable();
        if indices.peek().is_some() {
            self.workers.follow_cpus();
        }
        for index in indices {
            let Some(mut entry) = self.table.entry(index) else { continue };
            if let Some(served) = &mut *entry {
                served.area.end_slice();
            }
        }
        let lost = self.table.take_lost();
        if lost > 0 && self.log.allow() {
            warn!("{lost} batches of counters were lost: the region could not be read or written");
        }
    }

    /// What it lacks, one line.
    pub fn lacking(&self) -> Option<String> {
        self.workers.lacking()
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
}

/// Up to 32 events per vCPU, and a vector: the usual soft limit of 1024 is that of programs that use select(2).
fn use_all_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let all = Rlimit { current: limit.maximum, ..limit };
    if let Err(error) = setrlimit(Resource::Nofile, all) {
        debug!("the limit on file descriptors stays {:?}: {error}", limit.current);
    }
}

/// What the vCPUs of a VM share.
#[derive(Clone, Debug)]
pub struct VmCounters {
    offer: Arc<Offer>,
    budget: Arc<Budget>,
    vectors: Option<Arc<Vectors>>,
}
