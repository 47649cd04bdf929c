// SPDX-License-Identifier: GPL-2.0-only
//! The registry of the running VMs. The first vCPU thread that the sensor reports for a VM adds the
//! VM to the registry. When the last vCPU of a VM is gone, the VM is removed.
//!
//! The registry knows which VMs, vCPUs and other VMM threads exist, and the region and the settings
//! of each VM. It returns what came, went or changed as [`Change`]s. It knows nothing about what
//! depends on VMs and threads: host lines, counters and CPU limits ([`crate::followers`]),
//! placements and clamps.

mod change;
mod conventions;
pub mod identity;
pub(crate) mod io_threads;
pub mod names;
pub(crate) mod slots;

mod io;
mod regions;
mod scan;
mod settings;
mod vm;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use paracord_sensor::Sensor;

use crate::boosts::actuator::ActuatorStats;
use crate::boosts::sensor_table::SensorTable;
use crate::command_error::CommandError;
use crate::log_limit::{LogLimit, UserLogs};
use crate::place::{VcpuThread, VmThreads};
use crate::quotas::Subject;
use crate::settings::Settings;
use crate::vms::identity::Identity;
use crate::vms::io_threads::IoThreads;
use names::Called;
use slots::RefusedVms;

pub use change::{Change, GoneThread, NewThread, SetUpThread};
pub use scan::Scan;
pub use vm::Vm;

/// All VMs, and the sensor's memory with their records. Used by the daemon's main thread.
pub struct Vms {
    sensor: Arc<Sensor>,
    table: Arc<SensorTable>,
    stats: Arc<ActuatorStats>,
    proc_root: PathBuf,
    by_pid: BTreeMap<u32, Vm>,
    io: IoThreads,
    refused: RefusedVms,
    /// The process that was searched last for a region that may have moved.
    searched: u32,
    /// The process that was searched last for its first region.
    searched_without: u32,
    /// The process that was searched last for threads that are not vCPUs.
    io_looked: u32,
    adopts_threads: bool,
    log: LogLimit,
    /// Limits on log lines about VMs that come and go.
    user_logs: UserLogs,
}

impl Vms {
    /// Creates the registry without any VM. [`scan`](Vms::scan) finds the VMs.
    pub fn new(
        sensor: Arc<Sensor>,
        table: Arc<SensorTable>,
        stats: Arc<ActuatorStats>,
        proc_root: PathBuf,
    ) -> Vms {
        Vms {
            adopts_threads: sensor.adopts_threads(),
            sensor,
            table,
            stats,
            proc_root,
            by_pid: BTreeMap::new(),
            io: IoThreads::new(),
            refused: RefusedVms::default(),
            searched: 0,
            searched_without: 0,
            io_looked: 0,
            log: LogLimit::default(),
            user_logs: UserLogs::default(),
        }
    }

    /// The VMs by process.
    pub fn iter(&self) -> impl Iterator<Item = &Vm> {
        self.by_pid.values()
    }

    /// The VM of process `pid`.
    pub fn get(&self, pid: u32) -> Option<&Vm> {
        self.by_pid.get(&pid)
    }

    /// The thread whose record has this index.
    pub fn tid_of(&self, index: u32) -> Option<u32> {
        self.sensor.vcpus().get(index).map(|record| record.tid())
    }

    /// All vCPUs and other VMM threads.
    pub fn all_threads(&self) -> impl Iterator<Item = Subject> {
        let vcpus = |vm: &Vm| {
            let uid = vm.identity.uid;
            vm.vcpus.keys().map(move |&index| (index, uid)).collect::<Vec<_>>()
        };
        let vcpus = self.by_pid.values().flat_map(vcpus);
        let all = vcpus.chain(self.io.iter().map(|(&index, one)| (index, one.uid)));
        all.filter_map(|(index, uid)| Some(Subject { index, tid: self.tid_of(index)?, uid }))
    }

    /// Returns whether the daemon may write one more log line that the user of this VM can cause.
    pub fn may_log(&mut self, pid: u32) -> bool {
        self.by_pid.get_mut(&pid).is_some_and(|vm| vm.log.allow())
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
        let Identity { name, uuid, pid, start_ticks, vmm, uid, cgroup } = vm.identity.clone();
        let log = vm.log.user().clone();
        VmThreads { process: (pid, start_ticks), name, uid, cgroup, uuid, vmm, log, threads }
    }

    /// Number of VMs that got no record.
    pub fn refused(&self) -> u64 {
        self.refused.count()
    }

    /// Describes in one line the VMs that got no record.
    pub fn refused_line(&self, settings: &Settings) -> Option<String> {
        self.refused.line(slots::per_user(settings.vcpus_per_user))
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
