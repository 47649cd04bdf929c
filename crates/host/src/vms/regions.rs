// SPDX-License-Identifier: GPL-2.0-only
//! The regions that VMs map or that their guests announce, and the guest drivers that use these
//! regions.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use tracing::warn;

use super::change::Change;
use super::{Vm, Vms};
use crate::regions::file_identity::FileIdentity;
use crate::regions::mapped::MappedRegion;
use crate::regions::region::{Region, RegionError};
use crate::regions::region_file;
use crate::settings::Settings;
use crate::vms::identity::Identity;

/// Where a VM maps its region.
type Place = (FileIdentity, u64);

impl Vms {
    /// Looks for the region of a VM in `region_dir`. If the VM still maps the same region at the
    /// same address, the region stays open.
    pub(super) fn find_region(&mut self, vm: &mut Vm, region_dir: &Path) {
        vm.search = false;
        let pid = vm.identity.pid;
        let mapped = if vm.config.use_region {
            MappedRegion::find(region_dir, &self.proc_root, pid)
        } else {
            None
        };
        let place = mapped.as_ref().map(|mapped| (mapped.identity, mapped.start_hva));
        if place.is_some() && place == place_of(vm) {
            return;
        }
        let Ok(announced) = self.sensor.announcements().get(vm.index) else {
            vm.search = true;
            return;
        };
        if vm.region.take().is_some() {
            vm.driver = None;
        }
        match mapped.map(|mapped| self.open_region(mapped, &vm.identity)).transpose() {
            Ok(Some(region)) => {
                if region.lacks_copy && vm.log.allow() {
                    warn!(
                        vm = vm.identity.name,
                        "region {} was created by another version: no frequencies and no counters until it is removed and created again",
                        region.name
                    );
                }
                vm.region = Some(Arc::new(region));
                (vm.announced, vm.driver, vm.region_refused) = (None, None, None);
                vm.read_driver();
            }
            Ok(None) => {
                if announced.is_none() {
                    vm.region_refused = None;
                }
            }
            Err(error) => {
                let reason = error.to_string();
                // The guest can change the reason again and again, so limit the log.
                if vm.region_refused.as_ref() != Some(&reason) && vm.log.allow() {
                    warn!(vm = vm.identity.name, "region refused: {reason}");
                }
                vm.region_refused = Some(reason);
            }
        }
        vm.read_announcement(announced.as_ref(), self.sensor.capabilities());
    }

    /// Opens a region. A region that another VM uses is refused: if two guests shared one region,
    /// they would overwrite each other's guest lines, and each guest would read the host lines of
    /// both VMs as its own.
    fn open_region(&self, mapped: MappedRegion, vm: &Identity) -> Result<Region, RegionError> {
        let same = |other: &&Vm| {
            let theirs = other.region.as_ref().map(|theirs| theirs.identity);
            other.identity.pid != vm.pid && theirs == Some(mapped.identity)
        };
        match self.by_pid.values().find(same) {
            Some(other) => Err(RegionError::Taken { name: mapped.name, pid: other.identity.pid }),
            None => Region::open(mapped, vm.uid),
        }
    }

    /// Checks whether guest drivers came, went or changed.
    pub fn poll_regions(&mut self, settings: &Settings) -> Vec<Change> {
        let mut changes = Vec::new();
        let announcements = self.sensor.announcements();
        let capabilities = self.sensor.capabilities();
        for vm in self.by_pid.values_mut() {
            let pid = vm.identity.pid;
            // If the record is being written, the next call reads it.
            let Ok(announced) = announcements.get(vm.index) else { continue };
            if vm.region.is_some() {
                let changed = vm.read_driver();
                if vm.driver.is_none() && announced.is_some() {
                    // The device was unplugged, or the driver does not use it.
                    vm.region = None;
                    vm.read_announcement(announced.as_ref(), capabilities);
                    changes.push(Change::ConfigChanged { pid, region: true });
                } else if changed {
                    // The device may have been unplugged and plugged in again, at another address.
                    vm.search |= vm.driver.is_some();
                    changes.push(Change::DriverChanged(pid));
                }
            } else {
                let had = vm.announced.is_some();
                if vm.read_announcement(announced.as_ref(), capabilities) {
                    changes.push(Change::DriverChanged(pid));
                }
                // A guest that gets an ivshmem device withdraws the region in its own memory. So
                // after a withdrawal, search for a region that the VM maps.
                vm.search |= had && vm.announced.is_none();
            }
        }
        let due = [self.next_to_search(), self.next_without_region(&settings.region_dir)];
        let search = |pid| self.search(pid, &settings.region_dir);
        changes.extend(due.into_iter().flatten().filter_map(search));
        changes
    }

    /// Looks for the region of a VM again, and returns what has changed.
    fn search(&mut self, pid: u32, region_dir: &Path) -> Option<Change> {
        let mut vm = self.by_pid.remove(&pid)?;
        let before = (place_of(&vm), vm.announced.clone(), vm.driver);
        self.find_region(&mut vm, region_dir);
        let change = if place_of(&vm) != before.0 {
            Some(Change::ConfigChanged { pid, region: true })
        } else {
            let changed = (&vm.announced, vm.driver) != (&before.1, before.2);
            changed.then_some(Change::DriverChanged(pid))
        };
        self.by_pid.insert(pid, vm);
        change
    }

    /// The next VM, in turn, whose region may have moved. A guest can cause a search for its region
    /// as often as it likes, and the VMM can make the search long. Each poll therefore makes only
    /// one such search for all VMs together.
    fn next_to_search(&mut self) -> Option<u32> {
        let next = self.next_after(self.searched, |vm| vm.search)?;
        self.searched = next;
        Some(next)
    }

    /// The next VM, in turn, that has no region, but may have got a device since it was found.
    /// `None` if there is no such VM, or if every region file is in use.
    fn next_without_region(&mut self, region_dir: &Path) -> Option<u32> {
        let lacks = |vm: &Vm| {
            !vm.search && vm.region.is_none() && vm.announced.is_none() && vm.config.use_region
        };
        let next = self.next_after(self.searched_without, lacks)?;
        let used = |identity| {
            let theirs = |vm: &Vm| vm.region.as_ref().map(|region| region.identity);
            self.by_pid.values().any(|vm| theirs(vm) == Some(identity))
        };
        if region_file::identities(region_dir).all(used) {
            return None;
        }
        self.searched_without = next;
        Some(next)
    }

    /// The next process after `pid`, in turn, for whose VM `is_wanted` returns true.
    fn next_after(&self, pid: u32, is_wanted: impl Fn(&Vm) -> bool) -> Option<u32> {
        let after = (Bound::Excluded(pid), Bound::Unbounded);
        let mut in_turn = self.by_pid.range(after).chain(&self.by_pid);
        in_turn.find(|(_, vm)| is_wanted(vm)).map(|(&pid, _)| pid)
    }

    /// Whether any VM uses a region or could announce one, so that
    /// [`poll_regions`](Vms::poll_regions) has work.
    pub fn have_regions(&self) -> bool {
        let may_announce = self.sensor.capabilities().announcements;
        self.by_pid.values().any(|vm| may_announce || vm.region.is_some())
    }
}

fn place_of(vm: &Vm) -> Option<Place> {
    vm.region.as_ref().map(|region| (region.identity, region.start_hva))
}
