// SPDX-License-Identifier: GPL-2.0-only
//! Changes placements. All changes are checked before the first one is made. Either all changes are
//! made, or none.

use tracing::warn;

use super::host::Host;
use super::spec::PlaceMode;
use super::state::{Placed, Places, VmPlaces, Wanted};
use super::threads::{Failed, VcpuThread, VmThreads};
use crate::config::PlaceKeys;

/// What to do about the placement of a vCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// Do nothing.
    Skip,
    /// Apply the wanted placement, unless it is already in force.
    IfNeeded,
    /// Apply the wanted placement even if it should already be in force, because another program
    /// may have changed the thread.
    Again,
}

/// A change to one thread. `None`: restore the thread to the state before its placement.
pub(super) type Change = (VcpuThread, Option<Placed>);

impl Places {
    /// Computes the necessary changes. `select` is called with each thread and its wanted
    /// placement, and chooses what to do.
    pub(super) fn plan(
        &self,
        vm: &VmThreads,
        configured: &PlaceKeys,
        now: &VmPlaces,
        host: &Host,
        select: impl Fn(&VcpuThread, Option<Wanted>) -> Plan,
    ) -> Result<Vec<Change>, String> {
        let mut changes = Vec::new();
        for (rank, thread) in vm.threads.iter().enumerate() {
            let wanted = now.wanted(thread.vcpu_id, configured);
            let plan = select(thread, wanted);
            if plan == Plan::Skip {
                continue;
            }
            let placed = now.placed.get(&thread.index);
            let Some(wanted) = wanted else {
                changes.extend(placed.map(|_| (*thread, None)));
                continue;
            };
            if plan == Plan::IfNeeded && placed.is_some_and(|placed| placed.fits(wanted, rank)) {
                continue;
            }
            let says = |why| format!("vCPU {}: {why}", thread.vcpu_id);
            let cpuset = match self.affinity.cpuset(thread.tid) {
                Ok(cpuset) => cpuset,
                Err(Failed::Gone) => continue,
                Err(Failed::Refused(why)) => return Err(says(why)),
            };
            let cpus = host.resolve(wanted.cpus, rank, cpuset.as_ref()).map_err(says)?;
            let placed = cpus.map(|cpus| Placed { thread: *thread, wanted, cpus, rank });
            changes.push((*thread, placed));
        }
        Ok(changes)
    }

    /// Makes all changes. If one of them fails, restores the previous state.
    pub(super) fn change(&self, now: &mut VmPlaces, changes: &[Change]) -> Result<(), String> {
        let had = |(thread, _): &Change| (*thread, now.placed.get(&thread.index).copied());
        let before: Vec<Change> = changes.iter().map(had).collect();
        for (n, (thread, wanted)) in changes.iter().enumerate() {
            if let Err(why) = self.change_one(now, *thread, *wanted) {
                // Undo the changes in reverse order, including the change that failed.
                for (thread, had) in before[..=n].iter().rev() {
                    if let Err(why) = self.change_one(now, *thread, *had) {
                        let tid = thread.tid;
                        warn!("thread {tid} is not as before a placement that failed: {why}");
                    }
                }
                return Err(format!("vCPU {}: {why}", thread.vcpu_id));
            }
        }
        Ok(())
    }

    /// Undoes the placement of each vCPU for which `whom` returns true, and forgets that these
    /// vCPUs were placed.
    pub(super) fn withdraw(
        &self,
        now: &mut VmPlaces,
        whom: impl Fn(&Placed) -> bool,
    ) -> Result<(), String> {
        let chosen = now.placed.values().filter(|placed| whom(placed));
        let changes: Vec<Change> = chosen.map(|placed| (placed.thread, None)).collect();
        self.change(now, &changes)
    }

    fn change_one(
        &self,
        now: &mut VmPlaces,
        thread: VcpuThread,
        wanted: Option<Placed>,
    ) -> Result<(), String> {
        let done = match wanted.filter(|placed| placed.wanted.mode == PlaceMode::Affinity) {
            Some(placed) => self.affinity.give(thread, &placed.cpus),
            None => self.affinity.give_back(thread.index),
        };
        now.placed.remove(&thread.index);
        match done {
            Ok(()) => now.placed.extend(wanted.map(|placed| (thread.index, placed))),
            Err(Failed::Gone) => {}
            Err(Failed::Refused(why)) => return Err(why),
        }
        Ok(())
    }
}
