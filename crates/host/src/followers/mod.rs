// SPDX-License-Identifier: GPL-2.0-only
//! The parts of the daemon that depend on which VMs and vCPUs exist: host lines ([`lines`]),
//! guests' counters ([`crate::counters`]), CPU limits ([`crate::quotas`]) and the setups of threads
//! ([`setups`]).
//!
//! Each of these parts follows the [`Change`]s of the registry of VMs, and is independent of the
//! other parts. [`Followers`] passes each change on, in the order that the types of [`Change`]
//! require. Placements and clamps are not followers. Because failed placements and clamps are
//! retried, the daemon compares all of them with the whole registry after each scan.

mod limits;
mod lines;
mod setups;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use paracord_abi::HostPlace;
use paracord_sensor::Sensor;
use paracord_sys::affinity::CpuMask;

use crate::boosts::actuator::ActuatorStats;
use crate::counters::{Counters, Regions};
use crate::quotas::{Quotas, Subject};
use crate::regions::host_lines::HostLines;
use crate::settings::Settings;
use crate::snapshot::PmuSnapshot;
use crate::vms::{Change, GoneThread, NewThread, Vm, Vms};
use lines::Lines;

/// The parts that follow the registry of VMs. Used by the daemon's main thread.
pub(crate) struct Followers {
    lines: Lines,
    counters: Counters,
    quotas: Quotas,
    sensor: Arc<Sensor>,
    stats: Arc<ActuatorStats>,
}

impl Followers {
    /// Creates the followers of a registry that is still empty.
    pub fn new(
        sensor: Arc<Sensor>,
        stats: Arc<ActuatorStats>,
        host_lines: HostLines,
        counters: Counters,
        proc_root: PathBuf,
    ) -> Followers {
        Followers {
            quotas: Quotas::new(&proc_root, Path::new("/")),
            lines: Lines::new(Arc::clone(&sensor), host_lines, proc_root),
            counters,
            sensor,
            stats,
        }
    }

    /// Passes several changes to the followers, one after the other.
    pub fn follow_all(&mut self, changes: Vec<Change>, vms: &Vms, settings: &Settings) {
        for change in changes {
            self.follow(change, vms, settings);
        }
    }

    /// Passes a change to the followers.
    pub fn follow(&mut self, change: Change, vms: &Vms, settings: &Settings) {
        match change {
            Change::VmAdded(pid) => {
                if self.lines.read_cpus() {
                    vms.iter().for_each(|vm| self.lines.renew(vm));
                }
                if let Some(vm) = vms.get(pid) {
                    self.admit_counters(vm, settings);
                }
                // Threads of this process that served an earlier VM now work for the new one.
                self.set_up_io(pid, vms);
            }
            Change::VcpuAdded { vcpu_id, thread } => self.add_vcpu(vcpu_id, thread, vms),
            Change::IoThreadAdded(thread) => self.add_io_thread(thread, vms),
            Change::ThreadRemoved(thread) => self.remove_thread(thread, vms),
            Change::VmRemoved(pid) => {
                self.counters.dismiss(pid);
                self.set_up_io(pid, vms);
            }
            Change::DriverChanged(pid) => {
                if let Some(vm) = vms.get(pid) {
                    self.follow_announced_counters(vm, vms, settings);
                    self.set_up_vcpus(vm, vms);
                    self.lines.renew(vm);
                }
            }
            Change::ConfigChanged { pid, region } => {
                if let Some(vm) = vms.get(pid) {
                    if region {
                        self.admit_counters(vm, settings);
                        self.change_region(vm, vms);
                    }
                    self.set_up_vcpus(vm, vms);
                    self.set_up_io(pid, vms);
                }
            }
        }
    }

    fn add_vcpu(&mut self, vcpu_id: u32, thread: NewThread, vms: &Vms) {
        let (index, tid) = (thread.index(), thread.tid());
        let Some(vm) = vms.get(thread.pid()) else { return };
        // Read the CPU limits before the first boost of the vCPU.
        self.read_limits(Subject { index, tid, uid: vm.identity.uid });
        let setup = setups::of_vcpu(vm, vcpu_id, self.bounds(index), self.is_counted(vm));
        // From here on, the sensor watches for the guest's requests for counters. The service that
        // starts below also answers requests that came earlier.
        let thread = vms.set_up(thread, setup);
        self.counters.serve(vm.identity.pid, vm.region.as_ref(), (index, tid, vcpu_id));
        self.lines.attach(vm, index, vcpu_id);
        vms.make_ready(thread);
    }

    fn add_io_thread(&mut self, thread: NewThread, vms: &Vms) {
        let index = thread.index();
        let vm = vms.get(thread.pid());
        // A thread that the registry does not know counts as a thread of root, for whom there is no
        // per-user limit on records.
        let uid = vms.user_of_io(index).unwrap_or(0);
        self.read_limits(Subject { index, tid: thread.tid(), uid });
        let thread = vms.set_up(thread, setups::of_io_thread(vm, self.bounds(index)));
        vms.make_ready(thread);
    }

    fn remove_thread(&mut self, thread: GoneThread, vms: &Vms) {
        let index = thread.index();
        self.lines.detach(index);
        self.counters.detach(index);
        self.quotas.forget(index);
        vms.release(thread);
    }

    fn admit_counters(&mut self, vm: &Vm, settings: &Settings) {
        let regions = Regions { file: vm.region.as_deref(), announced: vm.announced.as_ref() };
        self.counters.admit(&vm.identity, vm.log.user(), regions, &settings.counters);
    }

    /// Starts or ends the service of counters if the guest has announced another region, or no
    /// longer announces one.
    fn follow_announced_counters(&mut self, vm: &Vm, vms: &Vms, settings: &Settings) {
        let (pid, announced) = (vm.identity.pid, vm.announced.as_ref());
        if vm.region.is_some() || self.counters.follows(pid, announced, settings.counters.serve) {
            return;
        }
        self.admit_counters(vm, settings);
        self.serve_counters(vm, vms);
    }

    fn serve_counters(&mut self, vm: &Vm, vms: &Vms) {
        for (&index, &vcpu_id) in &vm.vcpus {
            let tid = vms.tid_of(index).unwrap_or(0);
            self.counters.serve(vm.identity.pid, vm.region.as_ref(), (index, tid, vcpu_id));
        }
    }

    /// Serves counters and attaches host lines again, after the region of a VM has come or gone, or
    /// has been searched for again.
    fn change_region(&mut self, vm: &Vm, vms: &Vms) {
        self.serve_counters(vm, vms);
        for (&index, &vcpu_id) in &vm.vcpus {
            self.lines.attach(vm, index, vcpu_id);
        }
    }

    /// Writes the setups of all ready vCPUs of a VM again.
    fn set_up_vcpus(&self, vm: &Vm, vms: &Vms) {
        let is_counted = self.is_counted(vm);
        for (&index, &vcpu_id) in &vm.vcpus {
            vms.set_up_again(index, setups::of_vcpu(vm, vcpu_id, self.bounds(index), is_counted));
        }
    }

    /// Writes again the setups of those threads of process `pid` that are not vCPUs.
    fn set_up_io(&self, pid: u32, vms: &Vms) {
        for (index, _) in vms.io_of_process(pid) {
            // Skip a thread that has entered a guest, because it becomes a vCPU at the next scan.
            let record = self.sensor.vcpus().get(index);
            if record.is_some_and(|record| !record.has_entered()) {
                vms.set_up_again(index, setups::of_io_thread(vms.get(pid), self.bounds(index)));
            }
        }
    }

    fn is_counted(&self, vm: &Vm) -> bool {
        self.counters.serves(vm.identity.pid)
    }

    /// Writes all host lines again, because no event signals that a vCPU is no longer throttled.
    /// Also closes the perf events of unused counters. Call this function after the drivers in
    /// regions were polled.
    pub fn poll(&mut self, vms: &Vms) {
        self.refresh_lines(vms.iter());
        let counted = vms.iter().filter(|vm| self.counters.serves(vm.identity.pid));
        let indices: Vec<u32> = counted.flat_map(|vm| vm.vcpus.keys().copied()).collect();
        self.counters.look(indices);
    }

    /// Makes the thread for host lines write the lines of these VMs again.
    pub fn refresh_lines<'v>(&self, vms: impl Iterator<Item = &'v Vm>) {
        for vm in vms.filter(|vm| vm.region.is_some() || vm.has_host_line_in_memory()) {
            self.lines.refresh(vm);
        }
    }

    /// Tells the guests of the VMs in `pids` where their vCPUs are placed now. `hints`: the CPUs of
    /// each vCPU that is placed in the mode `hints`, by vCPU index. The guest is told about these
    /// CPUs, but the vCPU's thread is not bound to them.
    pub fn tell_places(
        &mut self,
        hints: BTreeMap<u32, CpuMask>,
        pids: impl IntoIterator<Item = u32>,
        vms: &Vms,
    ) {
        self.lines.set_hints(hints);
        for vm in pids.into_iter().filter_map(|pid| vms.get(pid)) {
            self.lines.renew(vm);
        }
    }

    /// The place of a vCPU, as told to its guest. `None` if the guest is told no place.
    pub fn place_of(&self, index: u32) -> Option<HostPlace> {
        self.lines.place_of(index)
    }

    /// The state of a VM's counters, if the daemon serves them.
    pub fn pmu_of(&self, vm: &Vm) -> Option<PmuSnapshot> {
        self.counters.snapshot(vm.identity.pid, vm.vcpus.keys().copied())
    }

    /// Describes in one line the CPUs that lack a worker for guests' counters.
    pub fn counters_lacking(&self) -> Option<String> {
        self.counters.lacking()
    }
}
