// SPDX-License-Identifier: GPL-2.0-only
//! Carries out operators' orders and the configured placements, and follows VMs as they come and
//! go.

use tracing::{info, warn};

use paracord_sys::affinity::CpuMask;

use super::apply::Plan;
use super::host::{Host, name};
use super::report::{PlaceReport, shared_cpus};
use super::spec::{PlaceMode, Placement, Who};
use super::state::{Placed, Places, VmPlaces, Wanted};
use super::threads::{VcpuThread, VmThreads};
use crate::boosts::journal::RestoreReport;
use crate::config::PlaceKeys;

/// An order or a query about one VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlaceOrder {
    /// Report where the vCPUs are.
    Get,
    /// Place the vCPUs that the placement covers. The other vCPUs stay as they are.
    Set(Placement, PlaceMode),
    /// Undo all placements of the VM, and ignore the configured placements until the configuration
    /// is read again.
    Clear,
}

impl Places {
    /// Carries out an order completely or not at all.
    ///
    /// # Errors
    /// One line: what is wrong, and what to do.
    pub fn carry_out(
        &mut self,
        vm: &VmThreads,
        configured: &PlaceKeys,
        order: PlaceOrder,
    ) -> Result<PlaceReport, String> {
        let host = Host::read(&self.affinity.root);
        let mut now = self.vms.remove(&vm.process).unwrap_or_default();
        let result = match order {
            PlaceOrder::Get => Ok(()),
            PlaceOrder::Clear => self.withdraw(&mut now, |_| true).map(|()| {
                now = VmPlaces { cleared: true, ..VmPlaces::default() };
            }),
            PlaceOrder::Set(placement, mode) => {
                self.set(vm, configured, &mut now, &host, &placement, mode)
            }
        };
        let report = result.map(|()| self.report(vm, &now, configured, &host));
        self.vms.insert(vm.process, now);
        report
    }

    fn set(
        &self,
        vm: &VmThreads,
        configured: &PlaceKeys,
        now: &mut VmPlaces,
        host: &Host,
        placement: &Placement,
        mode: PlaceMode,
    ) -> Result<(), String> {
        let known = |vcpu_id: &u32| vm.threads.iter().any(|thread| thread.vcpu_id == *vcpu_id);
        if let Some(vcpu_id) = placement.named().find(|vcpu_id| !known(vcpu_id)) {
            let there: CpuMask = vm.threads.iter().map(|thread| thread.vcpu_id).collect();
            return Err(format!("VM {:?} has no vCPU {vcpu_id}: it has {there}", vm.name));
        }
        let before = now.ordered.clone();
        for (who, cpus) in placement.iter() {
            if who == Who::All {
                now.ordered.clear();
            }
            now.ordered.insert(who, Wanted { cpus, mode, ordered: true });
        }
        let select = |thread: &VcpuThread, _: Option<Wanted>| match placement.of(thread.vcpu_id) {
            Some(_) => Plan::Again,
            None => Plan::Skip,
        };
        let changes = self.plan(vm, configured, now, host, select);
        let done = changes.and_then(|changes| self.change(now, &changes));
        if done.is_err() {
            now.ordered = before;
        }
        done
    }

    /// Handles VMs and vCPUs that have appeared or ended since the last call, and retries
    /// placements that were refused. `configured` returns the configured placements of a VM.
    ///
    /// Returns the VMs whose placements have changed.
    pub fn follow(
        &mut self,
        vms: Vec<VmThreads>,
        configured: impl Fn(&VmThreads) -> PlaceKeys,
    ) -> Vec<VmThreads> {
        let mut known = std::mem::take(&mut self.vms);
        let mut changed = Vec::new();
        for vm in vms {
            let mut now = known.remove(&vm.process).unwrap_or_default();
            self.forget(&mut now, |placed| !vm.threads.iter().any(|thread| thread.is(placed)));
            let differs = self.follow_one(&vm, &mut now, &configured(&vm));
            self.vms.insert(vm.process, now);
            changed.extend(differs.then_some(vm));
        }
        for mut gone in known.into_values() {
            self.forget(&mut gone, |_| true);
        }
        changed
    }

    fn follow_one(&self, vm: &VmThreads, now: &mut VmPlaces, configured: &PlaceKeys) -> bool {
        let is_settled = |(rank, thread): (usize, &VcpuThread)| {
            let wanted = now.wanted(thread.vcpu_id, configured);
            match (wanted, now.placed.get(&thread.index)) {
                (None, None) => true,
                (Some(wanted), Some(placed)) => placed.fits(wanted, rank),
                _ => false,
            }
        };
        // Read the host's CPUs only if there is something to do.
        if vm.threads.iter().enumerate().all(is_settled) {
            now.refused = None;
            return false;
        }
        let host = Host::read(&self.affinity.root);
        let before = now.placed.clone();
        let mut refused = self.follow_orders(vm, now, configured, &host).err();
        if let Err(why) = self.follow_file(vm, now, configured, &host) {
            // A section is applied completely or not at all.
            let given_back = self.withdraw(now, |placed| !placed.wanted.ordered);
            if let Some(why) = given_back.err().filter(|_| vm.log.allow()) {
                warn!(vm = vm.name, "not given back: {why}");
            }
            refused = Some(why);
        }
        let is_new = |line: &&String| now.refused.as_ref() != Some(*line);
        if let Some(line) = refused.as_ref().filter(is_new).filter(|_| vm.log.allow()) {
            warn!(vm = vm.name, "vCPUs are not placed: {line}");
        }
        now.refused = refused;
        let changed = now.placed != before;
        if changed {
            tell(vm, now, &host);
        }
        changed
    }

    fn follow_orders(
        &self,
        vm: &VmThreads,
        now: &mut VmPlaces,
        configured: &PlaceKeys,
        host: &Host,
    ) -> Result<(), String> {
        let changes = self.plan(vm, configured, now, host, |_, wanted| match wanted {
            Some(Wanted { ordered: false, .. }) => Plan::Skip,
            _ => Plan::IfNeeded,
        })?;
        self.change(now, &changes)
    }

    fn follow_file(
        &self,
        vm: &VmThreads,
        now: &mut VmPlaces,
        configured: &PlaceKeys,
        host: &Host,
    ) -> Result<(), String> {
        let named = |why| format!("{}.place: {why}", configured.section);
        let is_ours = |wanted: Option<Wanted>| wanted.is_some_and(|wanted| !wanted.ordered);
        if !vm.threads.iter().any(|one| is_ours(now.wanted(one.vcpu_id, configured))) {
            return Ok(());
        }
        // vCPUs appear one by one, so check the whole section before the first vCPU is changed.
        host.check(&configured.place).map_err(named)?;
        let changes = self.plan(vm, configured, now, host, |_, wanted| match is_ours(wanted) {
            true => Plan::IfNeeded,
            false => Plan::Skip,
        });
        changes.and_then(|changes| self.change(now, &changes)).map_err(named)
    }

    /// Makes the configuration apply again to VMs whose placement was cleared. Call this after the
    /// configuration was read again.
    pub fn reloaded(&mut self) {
        for vm in self.vms.values_mut() {
            vm.cleared = false;
        }
    }

    /// Restores all threads to the state before their placement, and forgets all placements.
    pub fn restore_all(&mut self) {
        let mut report = RestoreReport::default();
        self.affinity.journal.restore_all(&self.affinity.proc_root, &mut report);
        for failure in report.failed {
            warn!("not restored: {failure}");
        }
        self.vms.clear();
    }

    fn forget(&self, vm: &mut VmPlaces, is_gone: impl Fn(&VcpuThread) -> bool) {
        vm.placed.retain(|index, placed| {
            let gone = is_gone(&placed.thread);
            // Clear the entry only if it belongs to the thread that is gone. The index may belong
            // to a new thread by now. The entry may also belong to a thread from an earlier run of
            // the daemon. Such an entry must stay (leftovers.rs).
            let tid = self.affinity.journal.armed(*index).map(|armed| armed.tid);
            if gone && tid == Some(placed.thread.tid) {
                self.affinity.journal.disarm(*index);
            }
            !gone
        });
    }
}

fn tell(vm: &VmThreads, now: &VmPlaces, host: &Host) {
    if !vm.log.allow() {
        return;
    }
    let place = |one: &Placed| format!("vCPU {} on {}", one.thread.vcpu_id, name(&one.cpus));
    let places: Vec<String> = now.placed.values().map(place).collect();
    let line = if places.is_empty() { "none".to_owned() } else { places.join(", ") };
    info!(vm = vm.name, "placed: {line}");
    for note in shared_cpus(now, host) {
        info!(vm = vm.name, "{note}");
    }
}
