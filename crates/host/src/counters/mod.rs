// SPDX-License-Identifier: GPL-2.0-only
//! Performance counters for guests whose VMM does not serve counters itself (QEMU). The daemon
//! opens perf events on the vCPU threads.
//!
//! A guest kicks the host to make a request. The sensor sees the kick in the context of the vCPU
//! thread, and wakes the worker of the CPU on which the vCPU runs. The worker is a real-time thread
//! with a priority above every vCPU. It runs before the guest continues, while the vCPU thread is
//! switched out. Therefore no perf call has to interrupt another CPU. The guest pays for its
//! requests, because it does not run while the worker runs.

mod crew;
mod requests;
mod served;
mod table;
mod workers;

use std::collections::BTreeMap;
use std::sync::Arc;

use paracord_devices::pmu::{Area, Budget, Listener, Pool, Quota, Settings};
pub use paracord_devices::pmu::{EventSet, Offer, Offered};
use paracord_sensor::Sensor;
use paracord_sys::clock::now_ns;
use rustix::fd::OwnedFd;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::{debug, warn};

use crate::ivshmem::{Ivshmem, Vectors};
use crate::log_limit::{LogLimit, UserLog};
use crate::regions::announced::AnnouncedRegion;
use crate::regions::region::Region;
use crate::settings::CounterSettings;
use crate::snapshot::PmuSnapshot;
use crate::vms::identity::Identity;
use requests::Requests;
use served::Served;
use table::Table;
use workers::{Workers, ignore};

/// The counters of all guests. Dropping this value closes every perf event.
pub struct Counters {
    sensor: Arc<Sensor>,
    table: Arc<Table>,
    ivshmem: Option<Ivshmem>,
    /// The events that guests may count on this host, and the setting for which these events were
    /// probed. The events are probed when the first guest that may have counters appears.
    offer: Option<(EventSet, Offer)>,
    /// The sensor's BPF program that wakes a worker when a counter overflows.
    listener: Option<Arc<OwnedFd>>,
    workers: Workers,
    /// The VMs whose counters are served, by process ID.
    vms: BTreeMap<u32, VmCounters>,
    /// The budgets of VMs whose counters are or were served, and the limits with which the budgets
    /// were created, by process ID.
    budgets: BTreeMap<u32, (Quota, Arc<Budget>)>,
    log: LogLimit,
}

impl Counters {
    /// Creates the state without any counters. Workers run with real-time priority `priority`,
    /// which must be above that of boosted vCPUs. Without `ivshmem`, guests cannot sample.
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
            budgets: BTreeMap::new(),
            log: LogLimit::default(),
        }
    }

    /// Creates the counters of a VM anew, with the limits in `settings`. If `settings` or the
    /// region of the VM does not allow counters, the VM has none afterwards. To be called for a new
    /// VM, and when the region of a VM has changed. In both cases, [`serve`](Counters::serve) must
    /// be called for the vCPUs afterwards.
    pub fn admit(
        &mut self,
        vm: &Identity,
        log: &UserLog,
        regions: Regions<'_>,
        settings: &CounterSettings,
    ) {
        self.vms.remove(&vm.pid);
        let Regions { file, announced } = regions;
        let slots = announced.filter(|region| file.is_none() && region.has_counters).map(Slots::of);
        let asks = slots.is_some() || file.is_some_and(Region::asks_at_kicks);
        if !settings.serve || !asks || self.listener().is_none() {
            return;
        }
        let offer = match file {
            Some(file) => self.of_file(vm, log, file, settings),
            None => self.host_offer(settings.events).known(),
        };
        let vectors = file.and_then(|file| self.ivshmem.as_ref()?.vectors(file, vm, log));
        let budget = self.budget_of(vm.pid, settings.quota);
        self.vms.insert(vm.pid, VmCounters { offer: Arc::new(offer), budget, vectors, slots });
    }

    /// The budget of the VM of process `pid`. A guest cannot renew this budget by withdrawing its
    /// region and announcing another one.
    fn budget_of(&mut self, pid: u32, quota: Quota) -> Arc<Budget> {
        let new = || (quota, Arc::new(Budget::new(quota)));
        let kept = self.budgets.entry(pid).or_insert_with(new);
        if kept.0 != quota {
            *kept = new();
        }
        Arc::clone(&kept.1)
    }

    /// Whether the counters of the VM of process `pid` are already served in the way that the
    /// announced region requires.
    pub fn follows(&self, pid: u32, announced: Option<&AnnouncedRegion>, serve: bool) -> bool {
        let wanted = announced.filter(|region| serve && region.has_counters).map(Slots::of);
        wanted == self.vms.get(&pid).and_then(|vm| vm.slots)
    }

    /// Forgets the VM of process `pid`, which is gone.
    pub fn dismiss(&mut self, pid: u32) {
        self.vms.remove(&pid);
        self.budgets.remove(&pid);
    }

    /// Whether the counters of the VM of process `pid` are served.
    pub fn serves(&self, pid: u32) -> bool {
        self.vms.contains_key(&pid)
    }

    fn host_offer(&mut self, events: EventSet) -> &Offer {
        self.offer = self.offer.take().filter(|(probed, _)| *probed == events);
        let (_, host) = self.offer.get_or_insert_with(|| (events, Offer::probe(events)));
        host
    }

    /// The events that the region of a device offers, in the order of the region's table.
    fn of_file(
        &mut self,
        vm: &Identity,
        log: &UserLog,
        region: &Region,
        settings: &CounterSettings,
    ) -> Offer {
        let host = self.host_offer(settings.events);
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
        offer
    }

    /// If the counters of the VM of process `pid` are served, starts to serve the counters of the
    /// VM's vCPU `vcpu` (index, tid, vcpu_id). Otherwise, ends the service for this vCPU. To be
    /// called for a new vCPU, and when the region of its VM has changed.
    pub fn serve(&mut self, pid: u32, region: Option<&Arc<Region>>, vcpu: (u32, u32, u32)) {
        let (index, _, vcpu_id) = vcpu;
        let Some(counters) = self.vms.get(&pid).cloned() else { return self.detach(index) };
        let requests = match region.cloned() {
            _ if counters.slots.is_some() => {
                Requests::Memory { sensor: Arc::clone(&self.sensor), index }
            }
            Some(region) => Requests::File { region, vcpu_id },
            None => return self.detach(index),
        };
        self.attach(&counters, requests, vcpu);
    }

    fn attach(
        &mut self,
        counters: &VmCounters,
        requests: Requests,
        (index, tid, vcpu_id): (u32, u32, u32),
    ) {
        self.workers.follow_cpus();
        let Some(listener) = self.listener() else { return };
        let (offer, budget) = (counters.offer.clone(), counters.budget.clone());
        let listener = Listener::Program(listener);
        let pool = Pool::of_thread(tid, listener, offer, Arc::clone(&budget), Settings::default());
        let mut area = Area::new(pool);
        if counters.slots.is_some() {
            // The service number must not be 0, because the guest interprets 0 as "no service".
            area.begin(now_ns() as u32 | 1, counters.offer.mask());
        }
        if let Some(refusal) = area.last_refusal() {
            debug!(tid, "no event yet for a vCPU's counters: {refusal}");
        }
        let vectors = counters.vectors.clone();
        let served = Served { requests, area, budget, vectors, vcpu_id };
        self.table.replace(index, Some(Box::new(served)), self.ignore(index));
    }

    /// Ends the service for vCPU `index`. If a worker is serving the vCPU at the moment, the
    /// service ends when the worker is done.
    pub fn detach(&self, index: u32) {
        self.table.replace(index, None, self.ignore(index));
    }

    fn ignore(&self, index: u32) -> impl Fn(u64) + '_ {
        move |until_ns| ignore(&self.sensor, index, until_ns)
    }

    /// The state of the counters on the vCPUs with these indices, which belong to the VM of process
    /// `pid`. `None` if the counters of this VM are not served.
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
    /// also closes such events, so closing them here matters only for guests that make no requests.
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

    /// Describes in one line the CPUs without a worker. `None` if each CPU has one.
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

/// Raises the soft limit on file descriptors to the hard limit, because each vCPU needs up to 32
/// descriptors for events, and one for its interrupt vector. The usual soft limit of 1024 exists
/// for programs that use select(2).
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
    /// Where the requests lie in the guest's own memory. `None`: they lie in a region file.
    slots: Option<Slots>,
}

/// Where the slots of a region in the guest's own memory lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slots {
    gpa: u64,
    offset_bytes: u32,
    stride_bytes: u32,
}

impl Slots {
    fn of(region: &AnnouncedRegion) -> Slots {
        let layout = &region.layout;
        let (offset_bytes, stride_bytes) = (layout.slot_offset_bytes, layout.slot_stride_bytes);
        Slots { gpa: region.gpa, offset_bytes, stride_bytes }
    }
}

/// The regions of a VM.
#[derive(Clone, Copy, Debug, Default)]
pub struct Regions<'r> {
    /// The region of a device.
    pub file: Option<&'r Region>,
    /// The region in the guest's own memory.
    pub announced: Option<&'r AnnouncedRegion>,
}
