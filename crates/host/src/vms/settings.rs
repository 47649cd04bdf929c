// SPDX-License-Identifier: GPL-2.0-only
//! Applies changed settings to the VMs. The settings themselves belong to the daemon.

use super::Vms;
use super::change::Change;
use crate::command_error::CommandError;
use crate::config;
use crate::config::Override;
use crate::settings::Settings;

impl Vms {
    /// Applies settings that were read again. The settings replace all overrides, and VMs that were
    /// refused may try again. The caller must make the policy evaluate every vCPU afterwards.
    pub fn reload(&mut self, settings: &Settings) -> Vec<Change> {
        self.refused.clear();
        for vm in self.by_pid.values_mut() {
            vm.overrides.clear();
        }
        self.apply_all(settings, true)
    }

    /// Overrides keys of the VM with this name, uuid or pid, until the next reload.
    ///
    /// # Errors
    /// As [`Vms::find`].
    pub fn set_vm(
        &mut self,
        who: &str,
        overrides: Vec<Override>,
        settings: &Settings,
    ) -> Result<Vec<Change>, CommandError> {
        let pid = self.find(who)?.identity.pid;
        if let Some(vm) = self.by_pid.get_mut(&pid) {
            config::say(&mut vm.overrides, overrides);
        }
        Ok(self.apply(settings))
    }

    /// Applies settings that have changed.
    pub fn apply(&mut self, settings: &Settings) -> Vec<Change> {
        self.apply_all(settings, false)
    }

    /// `search`: whether to look again for the regions of VMs that use no region file. If the
    /// region of a VM was refused, this function looks for that region in any case.
    fn apply_all(&mut self, settings: &Settings, search: bool) -> Vec<Change> {
        let pids: Vec<u32> = self.by_pid.keys().copied().collect();
        let mut changes = Vec::new();
        for pid in pids {
            let Some(mut vm) = self.by_pid.remove(&pid) else { continue };
            let used_region = vm.config.use_region;
            vm.config = settings.vm(vm.identity.who(), &vm.overrides);
            let use_region = vm.config.use_region;
            let may_find = vm.region.is_none() && (search || vm.region_refused.is_some());
            let region = use_region != used_region || use_region && may_find;
            if region {
                self.find_region(&mut vm, &settings.region_dir);
            }
            if let Some(record) = self.sensor.vms().get(vm.index) {
                vm.write_config(&record);
            }
            self.by_pid.insert(pid, vm);
            changes.push(Change::ConfigChanged { pid, region });
        }
        changes
    }
}
