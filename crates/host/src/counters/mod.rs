// SPDX-License-Identifier: GPL-2.0-only
//! Performance counters for guests whose VMM serves none (QEMU). The daemon opens perf events on
//! the vCPU threads.
//!
//! A guest kicks to make a request. The sensor sees the kick in the context of the vCPU, and wakes
//! the worker of the CPU on which the vCPU runs: a real-time thread with a priority above every
//! vCPU. The worker runs before the guest goes on, while the vCPU thread is switched out. No perf
//! call therefore has to interrupt another CPU, and a guest pays for its requests with time in
//! which it does not run.

mod crew;
mod served;
mod table;
mod workers;

use std::collections::BTreeMap;
use std::sync::Arc;

use paracord_devices::pmu::{Area, Budget, Listener, Pool, Settings};
pub use paracord_devices::pmu::{EventSet, Offer, Offered};
use paracord_sensor::Sensor;
use rustix::fd::OwnedFd;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::{debug, warn};

use crate::ivshmem::{Ivshmem, Vectors};
use crate::log_limit::{LogLimit, UserLog};
use crate::regions::region::Region;
use crate::settings::CounterSettings;
use crate::snapshot::PmuSnapshot;
use crate::vms::identity::Identity;
use served::Served;
use table::Table;
use workers::{Workers, ignore};

/// The counters of all guests. Dropping this value closes every event.
pub struct Counters {
    sensor: Arc<Sensor>,
    table: Arc<Table>,
    ivshmem: Option<Ivshmem>,
    /// The events that guests may count on this host, and the setting for which they were probed.
    /// The events are probed for the first guest that may have counters.
    offer: Option<(EventSet, Offer)>,
    /// The sensor's BPF program that wakes a worker at an overflow.
    listener: Option<Arc<OwnedFd>>,
    workers: Workers,
    /// The VMs whose counters are served, by process.
    vms: BTreeMap<u32, VmCounters>,
    log: LogLimit,
}

impl Counters {
    /// Creates the state without any counters. Workers run with real-time priority `priority`,
    /// which must be above that of vCPUs. Without `ivshmem` nothing is sampled.
    pub fn new(sensor: Arc<Sensor>, ivshmem: Option<Ivshmem>, priority: u32) -> Counters {
        use_all_descriptors();
        let table = Arc::new(Table::new());
        let workers = Workers::new(Arc::clone(&sensor), Arc::clone(&table), priority);
        Counters {
            sensor,
            table,
            ivshmem,
            offer: None,
            listener: None,
            workers,
            vms: BTreeMap::new(),
            log: LogLimit::default(),
        }
    }

    /// Creates the counters of a VM anew with the limits in `settings`. If the settings or the
    /// region of the VM do not provide for counters, the VM has none afterwards. To be called for a
    /// new VM, and when the region of a VM has changed, in both cases before
    /// [`serve`](Counters::serve) is called for the vCPUs.
    pub fn admit(
        &mut self,
        vm: &Identity,
        log: &UserLog,
        region: Option<&Region>,
        settings: &CounterSettings,
    ) {
        self.dismiss(vm.pid);
        let served = region.filter(|region| settings.serve && region.asks_at_kicks());
        if let Some(region) = served {
            let counters = self.counters_of(vm, log, region, settings);
            self.vms.insert(vm.pid, counters);
        }
    }

    /// Forgets the VM of process `pid`, which is gone.
    pub fn dismiss(&mut self, pid: u32) {
        self.vms.remove(&pid);
    }

    /// Whether the counters of the VM of process `pid` are served.
    pub fn serves(&self, pid: u32) -> bool {
        self.vms.contains_key(&pid)
    }

    fn counters_of(
        &mut self,
        vm: &Identity,
        log: &UserLog,
        region: &Region,
        settings: &CounterSettings,
    ) -> VmCounters {
        self.offer = self.offer.take().filter(|(events, _)| *events == settings.events);
        let probe = || (settings.events, Offer::probe(settings.events));
        let (_, host) = self.offer.get_or_insert_with(probe);
        let names = region.event_names();
        let offer = host.named(names.iter().map(String::as_str));
        let mut missing = names.iter().filter(|name| offer.find(name).is_none()).peekable();
        if let Some(&first) = missing.peek().filter(|_| log.allow()) {
            let refused = host.refused().iter().find(|refused| refused.name == first);
            let why = refused.map(|refused| refused.reason.to_string());
            let why = why.as_deref().unwrap_or("no such event");
            let names: Vec<&String> = missing.collect();
            warn!(
                vm = vm.name,
                "its region offers events that are not counted: {names:?}; {first:?}: {why}"
            );
        }
        let vectors = self.ivshmem.as_ref().and_then(|server| server.vectors(region, vm, log));
        let (offer, budget) = (Arc::new(offer), Arc::new(Budget::new(settings.quota)));
        VmCounters { offer, budget, vectors }
    }

    /// Serves the counters of a vCPU (index, tid, vcpu_id) of process `pid` from now on if the
    /// counters of its VM are served. Otherwise, ends the service for this vCPU. To be called for a
    /// new vCPU, and when the region of its VM has changed.
    pub fn serve(&mut self, pid: u32, region: Option<&Arc<Region>>, vcpu: (u32, u32, u32)) {
        match self.vms.get(&pid).cloned().zip(region) {
            Some((counters, region)) => self.attach(&counters, region, vcpu),
            None => self.detach(vcpu.0),
        }
    }

    fn attach(
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
        let area = Area::new(pool);
        if let Some(refusal) = area.last_refusal() {
            debug!(tid, "no event yet for a vCPU's counters: {refusal}");
        }
        let (region, vectors) = (Arc::clone(region), counters.vectors.clone());
        let served = Served { region, vcpu_id, area, budget, vectors };
        self.table.replace(index, Some(Box::new(served)), self.ignore(index));
    }

    /// Ends the service for vCPU `index`. If a worker serves the vCPU at the moment, the service
    /// ends after that.
    pub fn detach(&self, index: u32) {
        self.table.replace(index, None, self.ignore(index));
    }

    fn ignore(&self, index: u32) -> impl Fn(u64) + '_ {
        move |until_ns| ignore(&self.sensor, index, until_ns)
    }

    /// The state of the counters of the VM of process `pid`, on the vCPUs with these indices.
    /// `None` if the counters are not served.
    pub fn snapshot(&self, pid: u32, indices: impl Iterator<Item = u32>) -> Option<PmuSnapshot> {
        let vm = self.vms.get(&pid)?;
        let mut now = PmuSnapshot {
            interrupts: vm.vectors.is_some(),
            spent_ns: u64::try_from(vm.budget.spent().as_nanos()).unwrap_or(u64::MAX),
            ..PmuSnapshot::default()
        };
        for index in indices {
            let Some(totals) = self.table.totals(index, self.ignore(index)) else { continue };
            let stats = totals.stats;
            now.open += stats.openings - stats.closings;
            now.openings += stats.openings;
            now.reuses += stats.reuses;
            now.refusals += stats.refusals;
            now.refused = totals.refusal.map(|why| why.to_string()).or(now.refused);
        }
        Some(now)
    }

    /// Closes events that were not requested lately, and starts workers for new CPUs. To be called
    /// from time to time, with the indices of the vCPUs that are served. Each request of a guest
    /// closes such events, too, so their closing here matters only for guests that make no
    /// requests.
    pub fn look(&mut self, indices: Vec<u32>) {
        if !indices.is_empty() {
            self.workers.follow_cpus();
        }
        for index in indices {
            self.table.end_slice(index, self.ignore(index));
        }
        let lost = self.table.take_lost();
        if lost > 0 && self.log.allow() {
            warn!("{lost} batches of counters were lost: the region could not be read or written");
        }
    }

    /// Describes in one line the CPUs without a worker. `None` if there are none.
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

/// Raises the limit on file descriptors: each vCPU needs up to 32 for events, and one for its
/// vector. The usual soft limit of 1024 is for programs that use select(2).
fn use_all_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let all = Rlimit { current: limit.maximum, ..limit };
    if let Err(error) = setrlimit(Resource::Nofile, all) {
        debug!("the limit on file descriptors stays {:?}: {error}", limit.current);
    }
}

/// The state that the vCPUs of a VM share.
#[derive(Clone, Debug)]
struct VmCounters {
    offer: Arc<Offer>,
    budget: Arc<Budget>,
    vectors: Option<Arc<Vectors>>,
}
