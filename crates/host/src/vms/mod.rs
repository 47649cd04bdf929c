// SPDX-License-Identifier: GPL-2.0-only
//! The running VMs. A VM is found by the first vCPU thread that the sensor reports for it, and gone
//! when its last vCPU is gone.

pub mod identity;
pub(crate) mod io_threads;
pub mod names;
pub(crate) mod slots;

mod io;
mod limits;
mod lines;
mod settings;
mod vm;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use paracord_sensor::{Life, Sensor, Vcpu};
use paracord_sys::affinity::CpuMask;
use paracord_sys::proc;
use tracing::{info, warn};

use crate::boosts::actuator::ActuatorStats;
use crate::boosts::rt_thread::SensorTable;
use crate::command_error::CommandError;
use crate::counters::Counters;
use crate::log_limit::{LogLimit, UserLogs};
use crate::machine::domains::HostCpus;
use crate::place::{VcpuThread, VmThreads};
use crate::quotas::Quotas;
use crate::regions::host_lines::HostLines;
use crate::settings::Settings;
use crate::snapshot::{IoTotals, PmuSnapshot};
use crate::vms::identity::{Identity, identify, vcpu_id_of_thread};
use crate::vms::io_threads::IoThreads;
use names::Called;
use slots::{RefusedVms, free_slot};

pub use vm::Vm;

/// All VMs, and the sensor's memory with their records. Used by the daemon's main thread.
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
    /// By vCPU index: CPUs that the guest is told, although the vCPU thread is not bound to them.
    hints: BTreeMap<u32, CpuMask>,
    io: IoThreads,
    refused: RefusedVms,
    /// The process that was searched last for threads that are not vCPUs.
    io_looked: u32,
    adopts_threads: bool,
    log: LogLimit,
    /// Limits of log lines about VMs that come and go.
    user_logs: UserLogs,
}

impl Vms {
    /// Creates the state without any VM. [`scan`](Vms::scan) finds the VMs.
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
            user_logs: UserLogs::default(),
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

    /// Sets up vCPUs that are new, and forgets vCPUs that are gone. Returns true if some must wait
    /// for the actuator: the caller must call again soon.
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
        // The thread is gone meanwhile. The sensor reports that next.
        let Ok(start_ticks) = proc::thread_start_ticks(&self.proc_root, vcpu.tid()) else { return };
        if !self.by_pid.contains_key(&pid) && !self.add_vm(pid) {
            return;
        }
        let by_name = || vcpu_id_of_thread(&self.proc_root, vcpu.tid());
        // A vCPU without an id has no slot: it gets only the boosts that the host infers by itself.
        let vcpu_id = vcpu.vcpu_id().or_else(by_name).unwrap_or(u32::MAX);
        let Some(vm) = self.by_pid.get_mut(&pid) else { return };
        // The thread was taken for a VMM thread that is not a vCPU.
        if self.io.remove(&index).is_some() {
            vm.io_gone = vm.io_gone.plus(IoTotals::of(&vcpu.counters()));
        }
        vm.vcpus.insert(index, vcpu_id);
        self.table.set_start(index, start_ticks);
        // Read the CPU limits before the first boost of the vCPU.
        self.quotas.look(self.sensor.reserves(), [(index, vcpu.tid())], Instant::now());
        vcpu.set_setup(vm.setup_of(vcpu_id, index, &self.quotas));
        if let Some(vm) = self.by_pid.get(&pid) {
            serve_counters(&mut self.counters, vm, (index, vcpu.tid(), vcpu_id));
            self.attach_line(vm, index, vcpu_id);
            tracing::debug!(vm = vm.identity.name, vcpu_id, tid = vcpu.tid(), "vCPU found");
        }
        // This returns false if the vCPU is gone meanwhile. The next scan retires it.
        vcpu.set_ready();
    }

    fn add_vm(&mut self, pid: u32) -> bool {
        let identity = match identify(&self.proc_root, pid) {
            Ok(identity) => identity,
            Err(error) if error.is_gone() => return false,
            Err(error) => {
                if self.log.allow() {
                    warn!("process {pid} runs vCPUs and cannot be looked at: {error}");
                }
                return false;
            }
        };
        let taken = self.by_pid.values().map(|vm| (vm.index, vm.identity.uid));
        let index = match free_slot(taken, identity.uid, self.vms_per_user()) {
            Ok(index) => index,
            Err(why) => {
                self.refused.insert(pid, why);
                // Any user who may run VMs can cause this line: limit the log.
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
        // Read the CPUs again, because frequency drivers are loaded late on some hosts.
        self.cpus = Arc::new(HostCpus::read(Path::new("/")));
        self.attach_region(&mut vm);
        if let Some(record) = self.sensor.vms().get(index) {
            record.set_tgid(pid);
            vm.write_config(&record);
        }
        let region = vm.region.as_ref().map_or("none", |region| region.name.as_str());
        if self.user_logs.allow(vm.identity.uid) {
            info!(vm = vm.identity.name, pid, region, mode = ?vm.config.mode, "VM found");
        }
        self.by_pid.insert(pid, vm);
        // Threads of this process may have served an earlier VM.
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
                if self.user_logs.allow(vm.identity.uid) {
                    info!(vm = vm.identity.name, pid, "VM gone");
                }
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

    /// The vCPUs that each VM has now, for [`crate::place::Places`].
    pub fn threads(&self) -> Vec<VmThreads> {
        self.by_pid.values().map(|vm| self.threads_of(vm)).collect()
    }

    /// The vCPUs of one VM.
    pub fn threads_of(&self, vm: &Vm) -> VmThreads {
        let thread = |(&index, &vcpu_id): (&u32, &u32)| {
            let vcpu = self.sensor.vcpus().get(index)?;
            let start_ticks = self.table.start_of(index);
            Some(VcpuThread { index, vcpu_id, tid: vcpu.tid(), start_ticks, cpu: vcpu.cpu() })
        };
        let mut threads: Vec<_> = vm.vcpus.iter().filter_map(thread).collect();
        threads.sort_by_key(|thread| (thread.vcpu_id, thread.index));
        let Identity { pid, start_ticks, uid, ref name, ref cgroup, .. } = vm.identity;
        let (name, cgroup) = (name.clone(), cgroup.clone());
        VmThreads { process: (pid, start_ticks), name, uid, cgroup, threads }
    }

    /// The state of a VM's counters, if the daemon serves them.
    pub fn pmu_of(&self, vm: &Vm) -> Option<PmuSnapshot> {
        let counters = vm.counters.as_ref()?;
        Some(self.counters.snapshot(counters, vm.vcpus.keys().copied()))
    }

    /// Describes in one line the CPUs that lack a worker for guests' counters.
    pub fn counters_lacking(&self) -> Option<String> {
        self.counters.lacking()
    }

    fn vms_per_user(&self) -> u32 {
        slots::per_user(self.settings.vcpus_per_user)
    }

    /// Number of VMs that got no record.
    pub fn refused(&self) -> u64 {
        self.refused.count()
    }

    /// Describes in one line the VMs that got no record.
    pub fn refused_line(&self) -> Option<String> {
        self.refused.line(self.vms_per_user())
    }

    /// Whether no VM runs.
    pub fn is_empty(&self) -> bool {
        self.by_pid.is_empty()
    }

    /// The VM with this name, uuid or pid.
    ///
    /// # Errors
    /// As [`names::find`].
    pub fn find(&self, who: &str) -> Result<&Vm, CommandError> {
        names::find(who, self.by_pid.values(), |vm| {
            let Identity { pid, name, uuid, .. } = &vm.identity;
            Called { pid: *pid, name, uuid: uuid.as_deref() }
        })
    }
}

/// Serves the counters of a vCPU (index, tid, vcpu_id), if the counters of its VM are served.
fn serve_counters(counters: &mut Counters, vm: &Vm, vcpu: (u32, u32, u32)) {
    match vm.counters.as_ref().zip(vm.region.as_ref()) {
        Some((of_vm, region)) => counters.attach(of_vm, region, vcpu),
        None => counters.detach(vcpu.0),
    }
}
