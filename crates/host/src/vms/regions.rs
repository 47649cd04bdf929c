// SPDX-License-Identifier: GPL-2.0-only
//! The regions that VMs map or that their guests announce, and the guest drivers in them.

use std::path::Path;
use std::sync::Arc;

use tracing::warn;

use super::change::Change;
use super::{Vm, Vms};
use crate::regions::region::{Region, RegionError};
use crate::regions::region_file;
use crate::settings::Settings;

impl Vms {
    /// Looks for the region of a VM in `region_dir`.
    pub(super) fn find_region(&mut self, vm: &mut Vm, region_dir: &Path) {
        self.find_region_quietly(vm, region_dir, None);
    }

    /// The same. `told`: a reason for a refusal that was logged already.
    fn find_region_quietly(&mut self, vm: &mut Vm, region_dir: &Path, told: Option<String>) {
        vm.region = None;
        vm.announced = None;
        vm.region_refused = None;
        let driver = vm.driver.take();
        if !vm.config.use_region {
            return;
        }
        let identity = &vm.identity;
        let found = Region::find(region_dir, &self.proc_root, identity.pid, identity.uid)
            .and_then(|found| self.refuse_taken(found, identity.pid));
        match found {
            Ok(Some(region)) => {
                vm.region = Some(Arc::new(region));
                // What has not changed is not logged again.
                vm.driver = driver;
                vm.read_driver();
            }
            Ok(None) => {}
            Err(error) => {
                let reason = error.to_string();
                if told.as_ref() != Some(&reason) && self.user_logs.allow(identity.uid) {
                    warn!(vm = identity.name, "region refused: {reason}");
                }
                vm.region_refused = Some(reason);
            }
        }
        if let Ok(announced) = self.sensor.announcements().get(vm.index) {
            vm.read_announcement(announced.as_ref(), self.sensor.capabilities().host_lines);
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

    /// Checks whether guest drivers came, went or changed.
    pub fn poll_regions(&mut self, settings: &Settings) -> Vec<Change> {
        let mut changes = Vec::new();
        let mut search = Vec::new();
        let announcements = self.sensor.announcements();
        let writes = self.sensor.capabilities().host_lines;
        for vm in self.by_pid.values_mut() {
            let pid = vm.identity.pid;
            // If the record is being written, the next call reads it.
            let Ok(announced) = announcements.get(vm.index) else { continue };
            match (&vm.region, announced) {
                (Some(_), announced) => {
                    let changed = vm.read_driver();
                    if vm.driver.is_none() && announced.is_some() {
                        // The device was unplugged, or the driver does not use it.
                        vm.region = None;
                        vm.read_announcement(announced.as_ref(), writes);
                        changes.push(Change::ConfigChanged { pid, region: true });
                    } else if changed && vm.driver.is_some() {
                        // The device may have been unplugged and plugged again, at another address.
                        search.push(pid);
                    } else if changed {
                        changes.push(Change::DriverChanged(pid));
                    }
                }
                (None, announced) => {
                    let had = vm.announced.is_some();
                    if vm.read_announcement(announced.as_ref(), writes) {
                        changes.push(Change::DriverChanged(pid));
                    }
                    if had && vm.announced.is_none() {
                        search.push(pid);
                    }
                }
            }
        }
        // A guest that withdraws its own memory may have got a device.
        search.extend(self.next_without_region(&settings.region_dir));
        changes.extend(search.into_iter().filter_map(|pid| self.search(pid, &settings.region_dir)));
        changes
    }

    /// Looks for the region of a VM again.
    fn search(&mut self, pid: u32, region_dir: &Path) -> Option<Change> {
        let mut vm = self.by_pid.remove(&pid)?;
        let place = |vm: &Vm| vm.region.as_ref().map(|region| (region.identity, region.start_hva));
        let (before, driver) = (place(&vm), vm.driver);
        let refused = vm.region_refused.take();
        self.find_region_quietly(&mut vm, region_dir, refused);
        let change = if place(&vm) != before {
            Some(Change::ConfigChanged { pid, region: true })
        } else {
            (vm.driver != driver).then_some(Change::DriverChanged(pid))
        };
        self.by_pid.insert(pid, vm);
        change
    }

    /// The next VM, in turn, that may have got a device since it was found. `None` if no region is
    /// left for it.
    fn next_without_region(&mut self, region_dir: &Path) -> Option<u32> {
        let lacks =
            |vm: &&Vm| vm.region.is_none() && vm.announced.is_none() && vm.config.use_region;
        let pid_of = |vm: &Vm| vm.identity.pid;
        let after = self.by_pid.range(self.searched + 1..).map(|(_, vm)| vm).find(lacks);
        let next = after.or_else(|| self.by_pid.values().find(lacks)).map(pid_of)?;
        let used = |identity| {
            let theirs = |vm: &Vm| vm.region.as_ref().map(|region| region.identity);
            self.by_pid.values().any(|vm| theirs(vm) == Some(identity))
        };
        if region_file::identities(region_dir).all(used) {
            return None;
        }
        self.searched = next;
        Some(next)
    }

    /// Whether any VM uses a region or could announce one, so that
    /// [`poll_regions`](Vms::poll_regions) has work.
    pub fn have_regions(&self) -> bool {
        let may_announce = self.sensor.capabilities().announcements;
        self.by_pid.values().any(|vm| may_announce || vm.region.is_some())
    }
}
