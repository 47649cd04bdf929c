// SPDX-License-Identifier: GPL-2.0-only
//! Regions of VMs, and the host lines in them that inform guests.

use std::sync::Arc;

use paracord_abi::{HostPlace, layout};
use paracord_sys::proc;
use tracing::warn;

use super::vm::write_setups;
use super::{Vm, Vms};
use crate::place::{Places, VmThreads};
use crate::regions::place_line::Line;
use crate::regions::region::{Region, RegionError};

impl Vms {
    pub(super) fn attach_region(&mut self, vm: &mut Vm) {
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
                if self.user_logs.allow(identity.uid) {
                    warn!(vm = identity.name, "region refused: {reason}");
                }
                vm.region_refused = Some(reason);
            }
        }
    }

    /// Refuses a region that another VM uses: two guests on one region would read each other's
    /// hints as their own.
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

    /// Attaches the host line of a vCPU, if its VM has a region. The line names the performance
    /// domain of the CPUs on which the thread may run now, or of the CPUs that are the vCPU's hint.
    pub(super) fn attach_line(&self, vm: &Vm, index: u32, vcpu_id: u32) {
        let Some(region) = &vm.region else { return };
        let domain = if region.tells(self.cpus.table()) {
            let tid = self.sensor.vcpus().get(index).map_or(0, |vcpu| vcpu.tid());
            let bound = || proc::allowed_cpus(&self.proc_root, tid).unwrap_or_default();
            let allowed = self.hints.get(&index).copied().unwrap_or_else(bound);
            self.cpus.domain_of(&allowed)
        } else {
            // The host has changed since the region was made. The only domain that still applies is
            // domain 0: the vCPU may run on any CPU.
            (region.layout.domain_count > 0).then_some(0)
        };
        let follows =
            vm.driver.is_some_and(|driver| driver.features & layout::PARACORD_F_CAPACITY != 0);
        let cpus = Arc::clone(&self.cpus);
        let region = Arc::clone(region);
        self.host_lines.attach(index, Line { region, vcpu_id, follows, domain, cpus });
    }

    /// Attaches the host lines of process `pid` again: the CPUs on which its vCPUs may run have
    /// changed, and with them the performance domains, or its guest driver has changed.
    pub fn renew_lines(&self, pid: u32) {
        if let Some(vm) = self.by_pid.get(&pid) {
            for (&index, &vcpu_id) in &vm.vcpus {
                self.attach_line(vm, index, vcpu_id);
            }
        }
    }

    /// Informs the guests of the VMs in `changed` where `places` puts their vCPUs now.
    pub fn tell_places(&mut self, places: &Places, changed: &[VmThreads]) {
        self.hints = places.hints();
        for vm in changed {
            self.renew_lines(vm.process.0);
        }
    }

    /// The place of a vCPU, as its guest is told. `None` if the guest is told nothing.
    pub fn place_of(&self, index: u32) -> Option<HostPlace> {
        let line = self.host_lines.line(index).filter(|line| line.follows)?;
        let mut place = None;
        let _ = self.sensor.whereabouts(&[index], |_, at| place = Some(line.place(&at, 0)));
        place
    }

    /// Checks whether guest drivers came or went, and informs the sensor. Also writes all host
    /// lines again, because nothing signals the end of a throttle.
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

    /// Whether any VM uses a region, so that [`poll_regions`](Vms::poll_regions) has work.
    pub fn have_regions(&self) -> bool {
        self.by_pid.values().any(|vm| vm.region.is_some())
    }

    /// Has every host line written again.
    pub fn refresh_host_lines(&self) {
        for vm in self.by_pid.values().filter(|vm| vm.region.is_some()) {
            for &index in vm.vcpus.keys() {
                self.host_lines.refresh(index);
            }
        }
    }
}
