// SPDX-License-Identifier: GPL-2.0-only
//! VMM threads that are not vCPUs: finds them, gives them records, and sets them up.

use std::collections::BTreeSet;
use std::time::Instant;

use paracord_policy::{PC_REFUSED_ALL, pc_vcpu_setup};
use paracord_sensor::Life;
use paracord_sys::proc;

use super::{Vm, Vms};
use crate::vms::io_threads::{self, IoThread};

impl Vms {
    /// Looks for VMM threads that are not vCPUs. Each call covers some of the VMs.
    pub fn poll_io(&mut self) {
        if !self.adopts_threads {
            return;
        }
        let next =
            self.by_pid.range(self.io_looked + 1..).chain(self.by_pid.range(..=self.io_looked));
        let pids: Vec<u32> = next.map(|(&pid, _)| pid).take(io_threads::VMS_AT_ONCE).collect();
        let mut looks = io_threads::LOOKS_AT_ONCE;
        for pid in pids {
            self.adopt_io(pid, &mut looks);
            self.io_looked = pid;
            if looks == 0 {
                break;
            }
        }
    }

    fn adopt_io(&mut self, pid: u32, looks: &mut usize) {
        let Some(vm) = self.by_pid.get(&pid).filter(|vm| vm.config.io) else { return };
        let (sensor, uid) = (&self.sensor, vm.identity.uid);
        let mut room = io_threads::room(&self.io, pid, uid);
        if room == 0 {
            return;
        }
        let tid_of = |index: &u32| sensor.vcpus().get(*index).map(|vcpu| vcpu.tid());
        let mut known: BTreeSet<u32> = vm.vcpus.keys().filter_map(tid_of).collect();
        known.extend(self.io.values().filter(|one| one.pid == pid).map(|one| one.tid));
        for (tid, name) in io_threads::find(&self.proc_root, pid, |tid| known.contains(&tid), looks)
        {
            let Ok(start_ticks) = proc::thread_start_ticks(&self.proc_root, tid) else { continue };
            let record = match sensor.adopt_thread(tid, pid) {
                Ok(Some(record)) => record,
                // The thread is gone meanwhile, or no record is left.
                Ok(None) => continue,
                Err(error) => {
                    tracing::debug!("thread {tid} of process {pid} gets no record: {error}");
                    return;
                }
            };
            let index = record.index();
            self.table.set_start(index, start_ticks);
            self.quotas.look(sensor.reserves(), [(index, tid)], Instant::now());
            record.set_setup(vm.io_setup(index, &self.quotas));
            tracing::debug!(vm = vm.identity.name, tid, name, "VMM's thread found");
            self.io.insert(index, IoThread { tid, pid, uid, name });
            record.set_ready();
            room -= 1;
            if room == 0 {
                return;
            }
        }
    }

    /// The threads of the VMM of `vm` that are not vCPUs, with the indices of their records.
    pub fn io_of(&self, vm: &Vm) -> impl Iterator<Item = (u32, &IoThread)> {
        let pid = vm.identity.pid;
        self.io.iter().filter(move |(_, one)| one.pid == pid).map(|(&index, one)| (index, one))
    }

    /// Sets up again the VMM threads of process `pid` that are not vCPUs. If the process has no VM,
    /// these threads work for no VM, and are not boosted.
    pub(super) fn set_up_io(&self, pid: u32) {
        for (&index, _) in self.io.iter().filter(|(_, one)| one.pid == pid) {
            let Some(thread) = self.sensor.vcpus().get(index) else { continue };
            if thread.life() != Life::Ready || thread.has_entered() {
                continue;
            }
            let nobodys =
                pc_vcpu_setup { refused: PC_REFUSED_ALL, io: 1, ..pc_vcpu_setup::default() };
            let vm = self.by_pid.get(&pid);
            thread.set_setup(vm.map_or(nobodys, |vm| vm.io_setup(index, &self.quotas)));
        }
    }
}
