// SPDX-License-Identifier: GPL-2.0-only
//! The regions that VMs map or that their guests announce, and the guest drivers in them.

use std::path::Path;
use std::sync::Arc;

use tracing::warn;

use super::change::Change;
use super::{Vm, Vms};
use crate::regions::region::{Region, RegionError};
use crate::settings::Settings;

impl Vms {
    /// Looks for the region of a VM in `region_dir`.
    pub(super) fn find_region(&mut self, vm: &mut Vm, region_dir: &Path) {
        vm.region = None;
        vm.announced = None;
        vm.region_refused = None;
        vm.driver = None;
        if !vm.config.use_region {
            return;
        }
        let identity = &vm.identity;
        let found = Region::find(region_dir, &self.proc_root, identity.pid, identity.uid)
            .and_then(|found| self.refuse_taken(found, identity.pid));
        match found {
            Ok(Some(region)) => {
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
        for pid in search {
            let Some(mut vm) = self.by_pid.remove(&pid) else { continue };
            self.find_region(&mut vm, &settings.region_dir);
            if vm.region.is_some() {
                changes.push(Change::ConfigChanged { pid, region: true });
            }
            self.by_pid.insert(pid, vm);
        }
        changes
    }

    /// Whether any VM uses a region or could announce one, so that
    /// [`poll_regions`](Vms::poll_regions) has work.
    pub fn have_regions(&self) -> bool {
        let may_announce = self.sensor.capabilities().announcements;
        self.by_pid.values().any(|vm| may_announce || vm.region.is_some())
    }
}
