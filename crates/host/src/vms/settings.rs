// SPDX-License-Identifier: GPL-2.0-only
//! Changes of the settings in force: of all settings, the mode, or the settings of one VM.

use super::vm::write_setups;
use super::{Vms, serve_counters};
use crate::command_error::CommandError;
use crate::config;
use crate::config::Override;
use crate::settings::{Mode, Settings};

impl Vms {
    /// Uses `settings` from now on. The caller must have the policy evaluate every vCPU afterwards.
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

    fn apply_settings(&mut self) {
        let pids: Vec<u32> = self.by_pid.keys().copied().collect();
        for pid in pids {
            let Some(mut vm) = self.by_pid.remove(&pid) else { continue };
            vm.config = self.settings.vm(vm.identity.who(), &vm.overrides);
            if vm.config.use_region != vm.region.is_some() {
                self.attach_region(&mut vm);
                for (&index, &vcpu_id) in &vm.vcpus {
                    let tid = self.sensor.vcpus().get(index).map_or(0, |vcpu| vcpu.tid());
                    serve_counters(&mut self.counters, &vm, (index, tid, vcpu_id));
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
