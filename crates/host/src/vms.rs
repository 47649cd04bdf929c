// SPDX-License-Identifier: GPL-2.0-only
//! The VMs that run: found by the sensor's new vCPU threads, gone with their last.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use paracord_abi::{GuestDriver, HostPlace, PMU_GUEST_OFFSET, feature_names, layout};
use paracord_policy::{PC_REFUSED_ALL, pc_vcpu_setup};
use paracord_sensor::{Life, Sensor, Vcpu};
use paracord_sys::affinity::CpuMask;
use paracord_sys::proc;
use tracing::{info, warn};

use crate::actuator::{ActuatorStats, Effect};
use crate::config;
use crate::counters::{Counters, VmCounters};
use crate::domains::HostCpus;
use crate::handle::CommandError;
use crate::host_lines::HostLines;
use crate::identity::{Identity, identify, vcpu_id_of_thread};
use crate::io_threads::{self, IoThread, IoThreads};
use crate::log_limit::LogLimit;
use crate::place::{Places, VcpuThread, VmThreads};
use crate::place_line::Line;
use crate::quotas::{self, Quotas};
use crate::region::{Region, RegionError};
use crate::rt_thread::SensorTable;
use crate::settings::{BoostConfig, Mode, Override, Settings};
use crate::snapshot::{IoTotals, PmuSnapshot};
use crate::vm_names::{self, Called};
use crate::vm_slots::{self, RefusedVms, free_slot};

/// Bytes of a guest line that reaches to what the guest asks for.
const LINE_WITH_REQUEST_BYTES: usize =
    offset_of!(layout::paracord_guest_line, perf_limit) + size_of::<u16>();

/// One VM.
#[derive(Debug)]
pub struct Vm {
    /// Who it is.
    pub identity: Identity,
    /// Index into the sensor's vms.
    pub index: u32,
    /// Configuration in force.
    pub config: BoostConfig,
    /// The region that it maps.
    pub region: Option<Arc<Region>>,
    /// Why a region that it maps is not used.
    pub region_refused: Option<String>,
    /// What the guest's driver declared last.
    pub driver: Option<GuestDriver>,
    /// Its counters, if the daemon serves them.
    pub counters: Option<VmCounters>,
    /// vCPU index to KVM vcpu_id.
    pub vcpus: BTreeMap<u32, u32>,
    /// What those of the VMM's other threads did that have ended.
    pub io_gone: IoTotals,
    overrides: Vec<Override>,
    log: LogLimit,
}

/// All VMs, and the sensor's memory about them. Used by the daemon's main thread.
pub struct Vms {
    sensor: Arc<Sensor>,
    table: Arc<SensorTable>,
    stats: Arc<ActuatorStats>,
    host_lines: HostLines,
    counters: Counters,
    cpus: Arc<HostCpus>,
    proc_root: PathBuf,
    settings: Settings,
    by_pid: BTreeMap<u32, Vm>,
    quotas: Quotas,
    /// vCPUs, by index, whose guests are told CPUs that their threads are not bound to.
    hints: BTreeMap<u32, CpuMask>,
    io: IoThreads,
    refused: RefusedVms,
    /// The process whose other threads were looked for last.
    io_looked: u32,
    adopts_threads: bool,
    log: LogLimit,
}

impl Vms {
    /// None yet; [`scan`](Vms::scan) finds them.
    pub fn new(
        sensor: Arc<Sensor>,
        table: Arc<SensorTable>,
        stats: Arc<ActuatorStats>,
        host_lines: HostLines,
        counters: Counters,
        proc_root: PathBuf,
        settings: Settings,
    ) -> Vms {
        Vms {
            adopts_threads: sensor.adopts_threads(),
            sensor,
            table,
            stats,
            host_lines,
            counters,
            cpus: Arc::default(),
            quotas: Quotas::new(&proc_root, Path::new("/")),
            proc_root,
            settings,
            by_pid: BTreeMap::new(),
            hints: BTreeMap::new(),
            io: IoThreads::new(),
            refused: RefusedVms::default(),
            io_looked: 0,
            log: LogLimit::default(),
        }
    }

    /// The settings in force.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The VMs by process.
    pub fn iter(&self) -> impl Iterator<Item = &Vm> {
        self.by_pid.values()
    }

    /// Sets up vCPUs that are new, forgets those that are gone. True when some
    /// must wait for the actuator: call again soon.
    pub fn scan(&mut self) -> bool {
        let sensor = Arc::clone(&self.sensor);
        let mut again = false;
        for vcpu in sensor.vcpus().iter() {
            match vcpu.life() {
                Life::New => self.adopt(&vcpu),
                Life::Gone if self.stats.is_actuated(vcpu.index()) => again = true,
                Life::Gone => self.retire(&vcpu),
                Life::Ready if self.io.contains_key(&vcpu.index()) && vcpu.has_entered() => {
                    self.adopt(&vcpu)
                }
                Life::Ready | Life::Free => {}
            }
        }
        again
    }

    fn adopt(&mut self, vcpu: &Vcpu<'_>) {
        let (pid, index) = (vcpu.tgid(), vcpu.index());
        if self.refused.contains(pid) {
            return;
        }
        // Gone meanwhile: the sensor says so next.
        let Ok(start_ticks) = proc::thread_start_ticks(&self.proc_root, vcpu.tid()) else { return };
        if !self.by_pid.contains_key(&pid) && !self.add_vm(pid) {
            return;
        }
        let by_name = || vcpu_id_of_thread(&self.proc_root, vcpu.tid());
        // No id, no slot: then the vCPU gets what the host infers alone.
        let vcpu_id = vcpu.vcpu_id().or_else(by_name).unwrap_or(u32::MAX);
        let Some(vm) = self.by_pid.get_mut(&pid) else { return };
        // It was taken for one of the VMM's other threads.
        if self.io.remove(&index).is_some() {
            vm.io_gone = vm.io_gone.plus(IoTotals::of(&vcpu.counters()));
        }
        vm.vcpus.insert(index, vcpu_id);
        self.table.set_start(index, start_ticks);
        // Before its first boost.
        self.quotas.look(self.sensor.reserves(), [(index, vcpu.tid())], Instant::now());
        vcpu.set_setup(vm.setup_of(vcpu_id, index, &self.quotas));
        if let Some(vm) = self.by_pid.get(&pid) {
            self.counters.attach(vm, index, vcpu.tid(), vcpu_id);
            self.attach_line(vm, index, vcpu_id);
            tracing::debug!(vm = vm.identity.name, vcpu_id, tid = vcpu.tid(), "vCPU found");
        }
        // False when it is gone meanwhile; the next scan retires it.
        vcpu.set_ready();
    }

    fn add_vm(&mut self, pid: u32) -> bool {
        let identity = match identify(&self.proc_root, pid) {
            Ok(identity) => identity,
            Err(error) if error.is_gone() => return false,
            Err(error) => {
                warn!("process {pid} runs vCPUs and cannot be looked at: {error}");
                return false;
            }
        };
        let taken = self.by_pid.values().map(|vm| (vm.index, vm.identity.uid));
        let index = match free_slot(taken, identity.uid, self.vms_per_user()) {
            Ok(index) => index,
            Err(why) => {
                self.refused.insert(pid, why);
                // Whoever may run VMs can cause that.
                if let Some(line) = self.refused_line().filter(|_| self.log.allow()) {
                    warn!("{line}");
                }
                return false;
            }
        };
        let config = self.settings.vm(identity.who(), &[]);
        let mut vm = Vm {
            index,
            config,
            region: None,
            region_refused: None,
            driver: None,
            counters: None,
            vcpus: BTreeMap::new(),
            io_gone: IoTotals::default(),
            overrides: Vec::new(),
            log: LogLimit::default(),
            identity,
        };
        // Frequency drivers are loaded late on some hosts.
        self.cpus = Arc::new(HostCpus::read(Path::new("/")));
        self.attach_region(&mut vm);
        if let Some(record) = self.sensor.vms().get(index) {
            record.set_tgid(pid);
            vm.write_config(&record);
        }
        let region = vm.region.as_ref().map_or("none", |region| region.name.as_str());
        info!(vm = vm.identity.name, pid, region, mode = ?vm.config.mode, "VM found");
        self.by_pid.insert(pid, vm);
        // Its threads may have served a VM before.
        self.set_up_io(pid);
        true
    }

    fn retire(&mut self, vcpu: &Vcpu<'_>) {
        let (pid, index) = (vcpu.tgid(), vcpu.index());
        self.host_lines.detach(index);
        self.counters.detach(index);
        self.quotas.forget(index);
        self.refused.forget(pid);
        let is_io = self.io.remove(&index).is_some();
        if let Some(vm) = self.by_pid.get_mut(&pid) {
            vm.vcpus.remove(&index);
            if is_io {
                vm.io_gone = vm.io_gone.plus(IoTotals::of(&vcpu.counters()));
            }
            if vm.vcpus.is_empty() {
                info!(vm = vm.identity.name, pid, "VM gone");
                if let Some(record) = self.sensor.vms().get(vm.index) {
                    record.set_tgid(0);
                }
                self.by_pid.remove(&pid);
                self.refused.clear();
                self.set_up_io(pid);
            }
        }
        if let Err(error) = self.sensor.release(vcpu) {
            warn!("vCPU index {index} is lost until the daemon restarts: {error}");
        }
    }

    fn attach_region(&mut self, vm: &mut Vm) {
        vm.counters = None;
        vm.region = None;
        vm.region_refused = None;
        vm.driver = None;
        if !vm.config.use_region {
            return;
        }
        let identity = &vm.identity;
        let found =
            Region::find(&self.settings.region_dir, &self.proc_root, identity.pid, identity.uid)
                .and_then(|found| self.refuse_taken(found, identity.pid));
        match found {
            Ok(Some(region)) => {
                vm.counters = self.counters.admit(identity, &region);
                vm.region = Some(Arc::new(region));
                vm.read_driver();
            }
            Ok(None) => {}
            Err(error) => {
                let reason = error.to_string();
                if vm.log.allow() {
                    warn!(vm = identity.name, "region refused: {reason}");
                }
                vm.region_refused = Some(reason);
            }
        }
    }

    /// Two guests on one region would read each other's hints as their own.
    fn refuse_taken(&self, found: Option<Region>, pid: u32) -> Result<Option<Region>, RegionError> {
        let Some(region) = found else { return Ok(None) };
        let same = |vm: &&Vm| {
            let theirs = vm.region.as_ref().map(|theirs| theirs.identity);
            vm.identity.pid != pid && theirs == Some(region.identity)
        };
        match self.by_pid.values().find(same) {
            Some(other) => {
                Err(RegionError::Taken { name: region.name.clone(), pid: other.identity.pid })
            }
            None => Ok(Some(region)),
        }
    }

    /// Attaches the host line of a vCPU, if its VM has a region: with the performance domain of the CPUs on which its
    /// thread may run now, or that are its hint.
    fn attach_line(&self, vm: &Vm, index: u32, vcpu_id: u32) {
        let Some(region) = &vm.region else { return };
        let domain = if region.tells(self.cpus.table()) {
            let tid = self.sensor.vcpus().get(index).map_or(0, |vcpu| vcpu.tid());
            let bound = || proc::allowed_cpus(&self.proc_root, tid).unwrap_or_default();
            let allowed = self.hints.get(&index).copied().unwrap_or_else(bound);
            self.cpus.domain_of(&allowed)
        } else {
            // The host has changed since: what is left is that the vCPU may run on any CPU.
            (region.layout.domain_count > 0).then_some(0)
        };
        let follows =
            vm.driver.is_some_and(|driver| driver.features & layout::PARACORD_F_CAPACITY != 0);
        let cpus = Arc::clone(&self.cpus);
        let region = Arc::clone(region);
        self.host_lines.attach(index, Line { region, vcpu_id, follows, domain, cpus });
    }

    /// Tells the guest of process `pid` its vCPUs' performance domains anew: the CPUs on which they may run have changed.
    pub fn renew_lines(&self, pid: u32) {
        if let Some(vm) = self.by_pid.get(&pid) {
            for (&index, &vcpu_id) in &vm.vcpus {
                self.attach_line(vm, index, vcpu_id);
            }
        }
    }

    /// The vCPUs that each VM has now, for [`crate::place::Places`].
    pub fn threads(&self) -> Vec<VmThreads> {
        self.by_pid.values().map(|vm| self.threads_of(vm)).collect()
    }

    /// The vCPUs of one VM.
    pub fn threads_of(&self, vm: &Vm) -> VmThreads {
        let thread = |(&index, &vcpu_id): (&u32, &u32)| {
            let vcpu = self.sensor.vcpus().get(index)?;
            Some(VcpuThread { index, vcpu_id, tid: vcpu.tid(), cpu: vcpu.cpu() })
        };
        let mut threads: Vec<_> = vm.vcpus.iter().filter_map(thread).collect();
        threads.sort_by_key(|thread| (thread.vcpu_id, thread.index));
        let Identity { pid, start_ticks, uid, ref name, ref cgroup, .. } = vm.identity;
        let (name, cgroup) = (name.clone(), cgroup.clone());
        VmThreads { process: (pid, start_ticks), name, uid, cgroup, threads }
    }

    /// The guests of these processes are told where `places` has their vCPUs now.
    pub fn tell_places(&mut self, places: &Places, changed: &[VmThreads]) {
        self.hints = places.hints();
        for vm in changed {
            self.renew_lines(vm.process.0);
        }
    }

    /// Where a vCPU is, as its guest is told; `None` where it is told nothing.
    pub fn place_of(&self, index: u32) -> Option<HostPlace> {
        let line = self.host_lines.line(index).filter(|line| line.follows)?;
        let mut place = None;
        let _ = self.sensor.whereabouts(&[index], |_, at| place = Some(line.place(&at, 0)));
        place
    }

    /// What a VM's counters do, if the daemon serves them.
    pub fn pmu_of(&self, vm: &Vm) -> Option<PmuSnapshot> {
        let counters = vm.counters.as_ref()?;
        Some(self.counters.snapshot(counters, vm.vcpus.keys().copied()))
    }

    /// Looks whether guest drivers came or went; tells the sensor. Also renews host
    /// lines of throttled vCPUs, since nobody tells when a throttle ends.
    pub fn poll_regions(&mut self) {
        let mut changed = Vec::new();
        for vm in self.by_pid.values_mut().filter(|vm| vm.region.is_some()) {
            if vm.read_driver() {
                write_setups(&self.sensor, &self.quotas, vm);
                changed.push(vm.identity.pid);
            }
        }
        for pid in changed {
            self.renew_lines(pid);
        }
        self.refresh_host_lines();
        let counting = self.by_pid.values().filter(|vm| vm.counters.is_some());
        self.counters.look(counting.flat_map(|vm| vm.vcpus.keys().copied()));
    }

    /// Writes every host line anew.
    pub fn refresh_host_lines(&self) {
        for vm in self.by_pid.values().filter(|vm| vm.region.is_some()) {
            for &index in vm.vcpus.keys() {
                self.host_lines.refresh(index);
            }
        }
    }

    /// What the workers for guests' counters lack, one line.
    pub fn counters_lacking(&self) -> Option<String> {
        self.counters.lacking()
    }

    /// Looks for threads of VMMs that are no vCPUs, at some VMs' each time.
    pub fn poll_io(&mut self) {
        if !self.adopts_threads {
            return;
        }
        let next =
            self.by_pid.range(self.io_looked + 1..).chain(self.by_pid.range(..=self.io_looked));
        let pids: Vec<u32> = next.map(|(&pid, _)| pid).take(io_threads::VMS_AT_ONCE).collect();
        let mut looks = io_threads::LOOKS_AT_ONCE;
        for pid in pids {
            self.adopt_io(pid, &mut looks);
            self.io_looked = pid;
            if looks == 0 {
                break;
            }
        }
    }

    fn adopt_io(&mut self, pid: u32, looks: &mut usize) {
        let Some(vm) = self.by_pid.get(&pid).filter(|vm| vm.config.io) else { return };
        let (sensor, uid) = (&self.sensor, vm.identity.uid);
        let mut room = io_threads::room(&self.io, pid, uid);
        if room == 0 {
            return;
        }
        let tid_of = |index: &u32| sensor.vcpus().get(*index).map(|vcpu| vcpu.tid());
        let mut known: BTreeSet<u32> = vm.vcpus.keys().filter_map(tid_of).collect();
        known.extend(self.io.values().filter(|one| one.pid == pid).map(|one| one.tid));
        for (tid, name) in io_threads::find(&self.proc_root, pid, |tid| known.contains(&tid), looks)
        {
            let Ok(start_ticks) = proc::thread_start_ticks(&self.proc_root, tid) else { continue };
            let record = match sensor.adopt_thread(tid, pid) {
                Ok(Some(record)) => record,
                // Gone meanwhile, or no record is left.
                Ok(None) => continue,
                Err(error) => {
                    tracing::debug!("thread {tid} of process {pid} gets no record: {error}");
                    return;
                }
            };
            let index = record.index();
            self.table.set_start(index, start_ticks);
            self.quotas.look(sensor.reserves(), [(index, tid)], Instant::now());
            record.set_setup(vm.io_setup(index, &self.quotas));
            tracing::debug!(vm = vm.identity.name, tid, name, "VMM's thread found");
            self.io.insert(index, IoThread { tid, pid, uid, name });
            record.set_ready();
            room -= 1;
            if room == 0 {
                return;
            }
        }
    }

    /// The VMM's threads that are no vCPUs, with the indices of their records.
    pub fn io_of(&self, vm: &Vm) -> impl Iterator<Item = (u32, &IoThread)> {
        let pid = vm.identity.pid;
        self.io.iter().filter(move |(_, one)| one.pid == pid).map(|(&index, one)| (index, one))
    }

    /// Sets up those of a process again; without a VM they work for nobody.
    fn set_up_io(&self, pid: u32) {
        for (&index, _) in self.io.iter().filter(|(_, one)| one.pid == pid) {
            let Some(thread) = self.sensor.vcpus().get(index) else { continue };
            if thread.life() != Life::Ready || thread.has_entered() {
                continue;
            }
            let nobodys =
                pc_vcpu_setup { refused: PC_REFUSED_ALL, io: 1, ..pc_vcpu_setup::default() };
            let vm = self.by_pid.get(&pid);
            thread.set_setup(vm.map_or(nobodys, |vm| vm.io_setup(index, &self.quotas)));
        }
    }

    /// Looks at the CPU limits of control groups above vCPUs; tells the sensor. True when they changed for some: the
    /// caller has the policy look at every vCPU.
    pub fn poll_quotas(&mut self) -> bool {
        let vcpus = self.sensor.vcpus();
        let vcpus_of = self.by_pid.values().flat_map(|vm| vm.vcpus.keys().copied());
        let indices = vcpus_of.chain(self.io.keys().copied());
        let threads = indices.filter_map(|index| Some((index, vcpus.get(index)?.tid())));
        let changed = self.quotas.look(self.sensor.reserves(), threads, Instant::now());
        let of_io = changed.iter().filter_map(|one| self.io.get(&one.index).map(|io| io.pid));
        let pids: BTreeSet<u32> = of_io.collect();
        for pid in pids {
            self.set_up_io(pid);
        }
        for vm in self.by_pid.values_mut() {
            let mut ours =
                changed.iter().filter(|one| vm.vcpus.contains_key(&one.index)).peekable();
            if ours.peek().is_none() {
                continue;
            }
            write_setups(&self.sensor, &self.quotas, vm);
            // Who runs the VM may be who sets quotas.
            let effect = self.stats.effect();
            if ours.any(|one| one.refusal(effect)) && vm.log.allow() {
                match vm.quota_line(&self.quotas, effect) {
                    Some(line) => warn!(vm = vm.identity.name, "not boosted: {line}"),
                    None => info!(
                        vm = vm.identity.name,
                        "no CPU limit any more that boosts would get past: boosted again"
                    ),
                }
            }
        }
        self.quotas.give_back();
        !changed.is_empty()
    }

    /// How often [`refill_reserves`](Vms::refill_reserves) is due; `None`: there is nothing to do.
    pub fn refill_interval(&self) -> Option<Duration> {
        self.quotas.refill_interval().filter(|_| self.stats.effect() == Effect::Realtime)
    }

    /// Looks at what CPU quotas leave for boosts.
    pub fn refill_reserves(&mut self) {
        self.quotas.refill(self.sensor.reserves(), Instant::now());
    }

    fn vms_per_user(&self) -> u32 {
        vm_slots::per_user(self.settings.vcpus_per_user)
    }

    /// How many VMs got no record.
    pub fn refused(&self) -> u64 {
        self.refused.count()
    }

    /// VMs that got no record, one line.
    pub fn refused_line(&self) -> Option<String> {
        self.refused.line(self.vms_per_user())
    }

    /// Whether no VM runs.
    pub fn is_empty(&self) -> bool {
        self.by_pid.is_empty()
    }

    /// The CPU limit above vCPU `index`, and whether it keeps it from being boosted.
    pub fn quota_of(&self, vm: &Vm, index: u32) -> (Option<String>, bool) {
        let quota = self.quotas.of(index).map(str::to_owned);
        let effect = self.stats.effect();
        let not_boosted = self.quotas.refused(index).binds(effect) && vm.config.mode == Mode::On;
        (quota, not_boosted)
    }

    /// Which vCPUs of a VM their limits keep from being boosted, one line.
    pub fn not_boosted(&self, vm: &Vm) -> Option<String> {
        let is_on = vm.config.mode == Mode::On;
        is_on.then(|| vm.quota_line(&self.quotas, self.stats.effect())).flatten()
    }

    /// Whether any VM uses a region, so that [`poll_regions`](Vms::poll_regions) has work.
    pub fn have_regions(&self) -> bool {
        self.by_pid.values().any(|vm| vm.region.is_some())
    }

    /// Uses `settings` from now on. The caller has the policy look at every vCPU afterwards.
    pub fn reload(&mut self, settings: Settings) {
        self.counters.configure(settings.counters);
        self.settings = settings;
        self.refused.clear();
        for vm in self.by_pid.values_mut() {
            vm.overrides.clear();
        }
        self.apply_settings();
    }

    /// Changes the global mode, until the next reload.
    pub fn set_mode(&mut self, mode: Mode) {
        self.settings.mode = mode;
        self.apply_settings();
    }

    /// Overrides keys of the VM with this name, uuid or pid, until the next reload.
    ///
    /// # Errors
    /// As [`Vms::find`].
    pub fn set_vm(&mut self, who: &str, overrides: Vec<Override>) -> Result<(), CommandError> {
        let pid = self.find(who)?.identity.pid;
        if let Some(vm) = self.by_pid.get_mut(&pid) {
            config::say(&mut vm.overrides, overrides);
        }
        self.apply_settings();
        Ok(())
    }

    /// The VM with this name, uuid or pid.
    ///
    /// # Errors
    /// As [`vm_names::find`].
    pub fn find(&self, who: &str) -> Result<&Vm, CommandError> {
        vm_names::find(who, self.by_pid.values(), |vm| {
            let Identity { pid, name, uuid, .. } = &vm.identity;
            Called { pid: *pid, name, uuid: uuid.as_deref() }
        })
    }

    fn apply_settings(&mut self) {
        let pids: Vec<u32> = self.by_pid.keys().copied().collect();
        for pid in pids {
            let Some(mut vm) = self.by_pid.remove(&pid) else { continue };
            vm.config = self.settings.vm(vm.identity.who(), &vm.overrides);
            if vm.config.use_region != vm.region.is_some() {
                self.attach_region(&mut vm);
                for (&index, &vcpu_id) in &vm.vcpus {
                    let tid = self.sensor.vcpus().get(index).map_or(0, |vcpu| vcpu.tid());
                    self.counters.attach(&vm, index, tid, vcpu_id);
                    match &vm.region {
                        Some(_) => self.attach_line(&vm, index, vcpu_id),
                        None => self.host_lines.detach(index),
                    }
                }
            }
            if let Some(record) = self.sensor.vms().get(vm.index) {
                vm.write_config(&record);
            }
            write_setups(&self.sensor, &self.quotas, &vm);
            self.by_pid.insert(pid, vm);
            self.set_up_io(pid);
        }
    }
}

fn write_setups(sensor: &Sensor, quotas: &Quotas, vm: &Vm) {
    for (&index, &vcpu_id) in &vm.vcpus {
        if let Some(vcpu) = sensor.vcpus().get(index).filter(|v| v.life() == Life::Ready) {
            vcpu.set_setup(vm.setup_of(vcpu_id, index, quotas));
        }
    }
}

impl Vm {
    fn write_config(&self, record: &paracord_sensor::Vm<'_>) {
        let (vcpus, io_threads) = self.config.of_threads();
        record.set_config(vcpus, io_threads);
    }

    /// What the sensor needs to know about one of the vCPUs.
    fn setup_of(&self, vcpu_id: u32, index: u32, quotas: &Quotas) -> pc_vcpu_setup {
        let (slot_hva, line_bytes, features) = match self.driver.zip(self.region.as_ref()) {
            Some((driver, region)) => {
                (region.slot_hva(vcpu_id).unwrap_or(0), driver.line_bytes, driver.features)
            }
            None => (0, 0, 0),
        };
        let accepts = |feature| features & feature != 0;
        let guest_requests = accepts(layout::PARACORD_F_PERF_REQUEST)
            && line_bytes as usize >= LINE_WITH_REQUEST_BYTES
            && self.config.guest_requests
            && self.config.mode == Mode::On;
        pc_vcpu_setup {
            vm: self.index,
            hints_at_exit: self.config.hints_at_exit.into(),
            slot_hva,
            guest_line_bytes: if accepts(layout::PARACORD_F_BOOST) { line_bytes } else { 0 },
            guest_features: features,
            guest_requests: guest_requests.into(),
            refused: quotas.refused(index).bits(),
            asked_hva: self.asked_hva(vcpu_id).unwrap_or(0),
            reserve: quotas.reserve_of(index),
            io: 0,
        }
    }

    /// What it needs to know about one of the VMM's other threads.
    fn io_setup(&self, index: u32, quotas: &Quotas) -> pc_vcpu_setup {
        let refused = if self.config.io { quotas.refused(index).bits() } else { PC_REFUSED_ALL };
        let reserve = quotas.reserve_of(index);
        pc_vcpu_setup { vm: self.index, refused, reserve, io: 1, ..pc_vcpu_setup::default() }
    }

    fn quota_line(&self, quotas: &Quotas, effect: Effect) -> Option<String> {
        let of =
            |(&index, &vcpu_id): (&u32, &u32)| Some((vcpu_id, quotas.refusal_of(index, effect)?));
        quotas::line(self.vcpus.iter().filter_map(of))
    }

    /// Where a vCPU's guest says that it has asked for its counters.
    fn asked_hva(&self, vcpu_id: u32) -> Option<u64> {
        // The guest asks before it declares anything.
        let (_, region) = self.counters.as_ref().zip(self.region.as_ref())?;
        region.slot_hva(vcpu_id)?.checked_add(PMU_GUEST_OFFSET as u64)
    }

    /// Reads what the guest's driver declares; true when it changed.
    fn read_driver(&mut self) -> bool {
        let Some(region) = &self.region else { return false };
        let (driver, refused) = match region.guest_driver() {
            Ok(driver) => (driver, None),
            Err(error) => (None, Some(error.to_string())),
        };
        let changed = driver != self.driver || refused != self.region_refused;
        // A guest can load and unload its driver, or write garbage, all day.
        if changed && self.log.allow() {
            match (&driver, &refused) {
                (_, Some(reason)) => {
                    warn!(vm = self.identity.name, "guest driver refused: {reason}")
                }
                (Some(driver), None) => {
                    let features = feature_names(driver.features).join(",");
                    info!(vm = self.identity.name, features, "guest driver present");
                }
                (None, None) => info!(vm = self.identity.name, "guest driver gone"),
            }
        }
        self.driver = driver;
        self.region_refused = refused;
        changed
    }
}
