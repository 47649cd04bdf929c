// SPDX-License-Identifier: GPL-2.0-only
//! Goes through the sensor's records, and finds threads that are new or gone.

use std::collections::VecDeque;
use std::sync::Arc;

use paracord_sensor::{Life, Vcpu};
use paracord_sys::proc;
use tracing::{info, warn};

use super::change::{Change, GoneThread, NewThread};
use super::slots::{free_slot, per_user};
use super::{Vm, Vms};
use crate::log_limit::VmLog;
use crate::settings::Settings;
use crate::snapshot::IoTotals;
use crate::vms::identity::{identify, vcpu_id_of_thread};

/// One pass over all records.
#[derive(Debug, Default)]
pub struct Scan {
    /// Index of the record that is looked at next.
    next: u32,
    /// Changes of one thread that were not reported yet.
    untold: VecDeque<Change>,
    again: bool,
}

impl Scan {
    /// Whether the next pass must come soon, because a thread that is gone can be reported only
    /// after the actuator has handled it.
    pub fn again(&self) -> bool {
        self.again
    }
}

impl Vms {
    /// Returns the next change of a pass, or `None` at its end.
    ///
    /// Before the caller asks for the next change, it must make a new thread ready, and must
    /// release a thread that is gone. The pass looks only at the state of the records, so a lost
    /// message of the sensor delays a change, but does not hide it.
    pub fn scan(&mut self, pass: &mut Scan, settings: &Settings) -> Option<Change> {
        let sensor = Arc::clone(&self.sensor);
        while pass.untold.is_empty() {
            let vcpu = sensor.vcpus().get(pass.next)?;
            pass.next += 1;
            let is_io = self.io.contains_key(&vcpu.index());
            match vcpu.life() {
                // Nobody has made the thread ready since it was found.
                Life::New if is_io && !vcpu.has_entered() => {
                    let (index, tid, pid) = (vcpu.index(), vcpu.tid(), vcpu.tgid());
                    let thread = NewThread { index, tid, pid };
                    pass.untold.push_back(Change::IoThreadAdded(thread));
                }
                Life::New => self.adopt(&vcpu, settings, &mut pass.untold),
                Life::Gone if self.stats.is_actuated(vcpu.index()) => pass.again = true,
                Life::Gone => self.retire(&vcpu, &mut pass.untold),
                Life::Ready if is_io && vcpu.has_entered() => {
                    self.adopt(&vcpu, settings, &mut pass.untold)
                }
                Life::Ready | Life::Free => {}
            }
        }
        pass.untold.pop_front()
    }

    fn adopt(&mut self, vcpu: &Vcpu<'_>, settings: &Settings, told: &mut VecDeque<Change>) {
        let (pid, index, tid) = (vcpu.tgid(), vcpu.index(), vcpu.tid());
        if self.refused.contains(pid) {
            return;
        }
        // If this read fails, the thread has ended in the meantime. The sensor will report its end.
        let Ok(start_ticks) = proc::thread_start_ticks(&self.proc_root, tid) else { return };
        if !self.by_pid.contains_key(&pid) {
            let Some(vm) = self.admit(pid, settings) else { return };
            self.by_pid.insert(pid, vm);
            told.push_back(Change::VmAdded(pid));
        }
        let by_name = || vcpu_id_of_thread(&self.proc_root, tid);
        // A vCPU without an id has no slot: it gets only the boosts that the host infers by itself.
        let vcpu_id = vcpu.vcpu_id().or_else(by_name).unwrap_or(u32::MAX);
        let Some(vm) = self.by_pid.get_mut(&pid) else { return };
        // Until it entered the guest, the thread was taken for a VMM thread that is not a vCPU.
        if self.io.remove(&index).is_some() {
            vm.io_gone = vm.io_gone.plus(IoTotals::of(&vcpu.counters()));
        }
        vm.vcpus.insert(index, vcpu_id);
        self.table.set_start(index, start_ticks, vm.identity.start_ticks);
        tracing::debug!(vm = vm.identity.name, vcpu_id, tid, "vCPU found");
        told.push_back(Change::VcpuAdded { vcpu_id, thread: NewThread { index, tid, pid } });
    }

    /// Identifies a new VM and gives it a record. Returns `None` if the VM has ended in the
    /// meantime, or is refused.
    fn admit(&mut self, pid: u32, settings: &Settings) -> Option<Vm> {
        let identity = match identify(&self.proc_root, pid) {
            Ok(identity) => identity,
            Err(error) if error.is_gone() => return None,
            Err(error) => {
                if self.log.allow() {
                    warn!("process {pid} runs vCPUs and cannot be looked at: {error}");
                }
                return None;
            }
        };
        let taken = self.by_pid.values().map(|vm| (vm.index, vm.identity.uid));
        let index = match free_slot(taken, identity.uid, per_user(settings.vcpus_per_user)) {
            Ok(index) => index,
            Err(why) => {
                self.refused.insert(pid, why);
                // Any user who may run VMs can cause this line, so limit the log.
                if let Some(line) = self.refused_line(settings).filter(|_| self.log.allow()) {
                    warn!("{line}");
                }
                return None;
            }
        };
        let config = settings.vm(identity.who(), &[]);
        let log = VmLog::new(self.user_logs.of(identity.uid));
        let mut vm = Vm::new(identity, index, config, log);
        // Forget what an earlier VM with this record has announced. No vCPU of the new VM is ready
        // yet, as `forget` requires.
        self.sensor.announcements().forget(index);
        self.find_region(&mut vm, &settings.region_dir);
        if let Some(record) = self.sensor.vms().get(index) {
            record.set_tgid(pid);
            vm.write_config(&record);
        }
        let region = vm.region.as_ref().map_or("none", |region| region.name.as_str());
        if vm.log.user().allow() {
            info!(vm = vm.identity.name, pid, region, mode = ?vm.config.mode, "VM found");
        }
        Some(vm)
    }

    fn retire(&mut self, vcpu: &Vcpu<'_>, told: &mut VecDeque<Change>) {
        let (pid, index) = (vcpu.tgid(), vcpu.index());
        told.push_back(Change::ThreadRemoved(GoneThread { index }));
        // If the VM of this thread was refused, the VM may have ended as well. If the VM still
        // runs, it may try again.
        self.refused.forget(pid);
        let is_io = self.io.remove(&index).is_some();
        let Some(vm) = self.by_pid.get_mut(&pid) else { return };
        vm.vcpus.remove(&index);
        if is_io {
            vm.io_gone = vm.io_gone.plus(IoTotals::of(&vcpu.counters()));
        }
        if !vm.vcpus.is_empty() {
            return;
        }
        if vm.log.user().allow() {
            info!(vm = vm.identity.name, pid, "VM gone");
        }
        if let Some(record) = self.sensor.vms().get(vm.index) {
            record.set_tgid(0);
        }
        self.by_pid.remove(&pid);
        // A record of a VM is free again, so VMs that were refused may try again.
        self.refused.clear();
        told.push_back(Change::VmRemoved(pid));
    }
}
