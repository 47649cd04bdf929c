// SPDX-License-Identifier: GPL-2.0-only
//! Finds VMM threads that are not vCPUs, and gets records for them.

use std::collections::BTreeSet;

use paracord_sys::proc;

use super::change::{Change, NewThread};
use super::{Vm, Vms};
use crate::vms::io_threads::{self, IoThread};

impl Vms {
    /// Looks for VMM threads that are not vCPUs. Each call covers some of the VMs.
    pub fn poll_io(&mut self) -> Vec<Change> {
        let next =
            self.by_pid.range(self.io_looked + 1..).chain(self.by_pid.range(..=self.io_looked));
        let pids: Vec<u32> = next.map(|(&pid, _)| pid).take(io_threads::VMS_AT_ONCE).collect();
        let (changes, last) = self.look_for_io(pids);
        self.io_looked = last.unwrap_or(self.io_looked);
        changes
    }

    /// Looks for VMM threads that are not vCPUs in VMs whose VMM has made threads since the last
    /// look. Each call covers some of these VMs.
    pub fn poll_new_threads(&mut self) -> Vec<Change> {
        let pids: Vec<u32> = self.with_new_threads().take(io_threads::VMS_AT_ONCE).collect();
        self.look_for_io(pids).0
    }

    /// Whether a VMM has made threads since the last look at it.
    pub fn have_new_threads(&self) -> bool {
        self.with_new_threads().next().is_some()
    }

    fn with_new_threads(&self) -> impl Iterator<Item = u32> {
        let has = |vm: &Vm| self.sensor.vms().get(vm.index).is_some_and(|vm| vm.has_new_threads());
        self.by_pid.iter().filter(move |(_, vm)| has(vm)).map(|(&pid, _)| pid)
    }

    /// Looks at these processes in turn, until it has looked at enough threads. Also returns the
    /// process that it looked at last.
    fn look_for_io(&mut self, pids: Vec<u32>) -> (Vec<Change>, Option<u32>) {
        let (mut changes, mut last) = (Vec::new(), None);
        if !self.adopts_threads {
            return (changes, last);
        }
        let mut looks = io_threads::LOOKS_AT_ONCE;
        for pid in pids {
            self.adopt_io(pid, &mut looks, &mut changes);
            last = Some(pid);
            if looks == 0 {
                break;
            }
        }
        (changes, last)
    }

    fn adopt_io(&mut self, pid: u32, looks: &mut usize, changes: &mut Vec<Change>) {
        let Some(vm) = self.by_pid.get(&pid) else { return };
        if let Some(record) = self.sensor.vms().get(vm.index) {
            record.forget_new_threads();
        }
        if !vm.config.io {
            return;
        }
        let (sensor, uid, process_ticks) = (&self.sensor, vm.identity.uid, vm.identity.start_ticks);
        let mut room = io_threads::room(&self.io, pid, uid);
        if room == 0 {
            return;
        }
        let mut known: BTreeSet<u32> =
            vm.vcpus.keys().filter_map(|&index| self.tid_of(index)).collect();
        known.extend(self.io.values().filter(|one| one.pid == pid).map(|one| one.tid));
        for (tid, name) in io_threads::find(&self.proc_root, pid, |tid| known.contains(&tid), looks)
        {
            let Ok(start_ticks) = proc::thread_start_ticks(&self.proc_root, tid) else { continue };
            let record = match sensor.adopt_thread(tid, pid) {
                Ok(Some(record)) => record,
                // The thread has ended in the meantime, or no record is left.
                Ok(None) => continue,
                Err(error) => {
                    tracing::debug!("thread {tid} of process {pid} gets no record: {error}");
                    return;
                }
            };
            let index = record.index();
            self.table.set_start(index, start_ticks, process_ticks);
            tracing::debug!(vm = vm.identity.name, tid, name, "VMM's thread found");
            self.io.insert(index, IoThread { tid, pid, uid, name });
            changes.push(Change::IoThreadAdded(NewThread { index, tid, pid }));
            room -= 1;
            if room == 0 {
                return;
            }
        }
    }

    /// The threads of the VMM of `vm` that are not vCPUs, with the indices of their records.
    pub fn io_of(&self, vm: &Vm) -> impl Iterator<Item = (u32, &IoThread)> {
        self.io_of_process(vm.identity.pid)
    }

    /// The threads of process `pid` that are not vCPUs, with the indices of their records. These
    /// threads may still run when the process has no VM any more.
    pub fn io_of_process(&self, pid: u32) -> impl Iterator<Item = (u32, &IoThread)> {
        self.io.iter().filter(move |(_, one)| one.pid == pid).map(|(&index, one)| (index, one))
    }

    /// The indices of all threads that are not vCPUs.
    pub fn io_indices(&self) -> impl Iterator<Item = u32> {
        self.io.keys().copied()
    }

    /// The process of thread `index`, if the thread is not a vCPU.
    pub fn process_of_io(&self, index: u32) -> Option<u32> {
        self.io.get(&index).map(|one| one.pid)
    }

    /// The user of the process of thread `index`, if the thread is no vCPU.
    pub fn user_of_io(&self, index: u32) -> Option<u32> {
        self.io.get(&index).map(|one| one.uid)
    }
}
