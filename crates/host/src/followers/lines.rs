// SPDX-License-Identifier: GPL-2.0-only
//! The host lines of the vCPUs that exist.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use paracord_abi::{HostPlace, layout};
use paracord_sensor::Sensor;
use paracord_sys::affinity::CpuMask;
use paracord_sys::proc;

use crate::machine::domains::HostCpus;
use crate::regions::host_lines::HostLines;
use crate::regions::line_target::Target;
use crate::regions::place_line::Line;
use crate::regions::region::Region;
use crate::vms::Vm;

/// Decides what each host line contains. Another thread writes the lines.
pub(super) struct Lines {
    host_lines: HostLines,
    sensor: Arc<Sensor>,
    proc_root: PathBuf,
    cpus: Arc<HostCpus>,
    /// For each vCPU index: the CPUs that the daemon reports to the guest as the vCPU's CPUs,
    /// although the vCPU thread is not bound to these CPUs.
    hints: BTreeMap<u32, CpuMask>,
}

impl Lines {
    pub fn new(sensor: Arc<Sensor>, host_lines: HostLines, proc_root: PathBuf) -> Lines {
        Lines { host_lines, sensor, proc_root, cpus: Arc::default(), hints: BTreeMap::new() }
    }

    /// Reads the host's CPUs again, because frequency drivers are loaded late on some hosts.
    /// Returns true if the CPUs have changed. In that case, the caller must renew all lines.
    pub fn read_cpus(&mut self) -> bool {
        let now = HostCpus::read(Path::new("/"));
        if *self.cpus == now {
            return false;
        }
        self.cpus = Arc::new(now);
        self.sensor.domain_table().set(&self.cpus.images());
        true
    }

    /// Sets the hints that take effect with the next [`attach`](Lines::attach).
    pub fn set_hints(&mut self, hints: BTreeMap<u32, CpuMask>) {
        self.hints = hints;
    }

    /// Attaches the host line of a vCPU if its VM has a region with host lines, and detaches it
    /// otherwise.
    pub fn attach(&self, vm: &Vm, index: u32, vcpu_id: u32) {
        let tid = self.sensor.vcpus().get(index).map_or(0, |vcpu| vcpu.tid());
        let (target, domain, domain_table) = if let Some(region) = &vm.region {
            let target = Target::File { region: Arc::clone(region), vcpu_id };
            (target, self.domain(region, index, tid), region.domain_table())
        } else if let Some(region) = vm.announced.as_ref().filter(|region| region.has_host_line) {
            let target = Target::Memory { sensor: Arc::clone(&self.sensor), index, tid };
            let domain = if region.has_domains { self.domain_now(index, tid) } else { None };
            (target, domain, domain.map_or(0, |_| self.cpus.table_id()))
        } else {
            return self.detach(index);
        };
        let follows =
            vm.driver.is_some_and(|driver| driver.features & layout::PARACORD_F_CAPACITY != 0);
        let cpus = Arc::clone(&self.cpus);
        let tells_cpu = vm.region.is_some();
        let line = Line { target, tid, follows, domain, domain_table, tells_cpu, cpus };
        self.host_lines.attach(index, line);
    }

    /// Returns the performance domain of a vCPU, as an index into the table in its VM's region.
    fn domain(&self, region: &Region, index: u32, tid: u32) -> Option<u16> {
        if region.tells(self.cpus.table()) {
            self.domain_now(index, tid)
        } else {
            // The host has changed since the region was created. The only domain that still applies
            // is domain 0: the vCPU may run on any CPU.
            (region.layout.domain_count > 0).then_some(0)
        }
    }

    /// Returns the performance domain of the CPUs in the vCPU's hint. Without a hint, returns the
    /// performance domain of the CPUs on which the vCPU's thread `tid` may run now.
    fn domain_now(&self, index: u32, tid: u32) -> Option<u16> {
        let bound = || proc::allowed_cpus(&self.proc_root, tid).unwrap_or_default();
        let allowed = self.hints.get(&index).copied().unwrap_or_else(bound);
        self.cpus.domain_of(&allowed)
    }

    /// Detaches the host line of a vCPU, if it has one.
    pub fn detach(&self, index: u32) {
        self.host_lines.detach(index);
    }

    /// Attaches the host lines of a VM again. To be called when the guest's driver, the host's CPUs
    /// or the CPUs on which the VM's vCPUs may run have changed.
    pub fn renew(&self, vm: &Vm) {
        for (&index, &vcpu_id) in &vm.vcpus {
            self.attach(vm, index, vcpu_id);
        }
    }

    /// Makes the thread for host lines write the lines of a VM again.
    pub fn refresh(&self, vm: &Vm) {
        for &index in vm.vcpus.keys() {
            self.host_lines.refresh(index);
        }
    }

    /// The place of a vCPU, as told to its guest. `None` if the guest is told no place.
    pub fn place_of(&self, index: u32) -> Option<HostPlace> {
        let line = self.host_lines.line(index).filter(|line| line.follows)?;
        let mut place = None;
        let _ = self.sensor.whereabouts(&[index], |_, at| place = Some(line.place(&at, 0)));
        place
    }
}
