// SPDX-License-Identifier: GPL-2.0-only
//! Reports where vCPUs are, for `paracord vm place`, the status and the log.

use serde::{Deserialize, Serialize};

use paracord_sys::affinity::CpuMask;

use super::host::{Host, name};
use super::spec::PlaceMode;
use super::state::{Placed, Places, VmPlaces};
use super::threads::VmThreads;
use crate::config::PlaceKeys;
use crate::snapshot::PlacementSnapshot;

/// The placement of the vCPUs of one VM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceReport {
    /// Name of the VM.
    pub vm: String,
    /// The vCPUs, in order of vcpu_id.
    pub vcpus: Vec<VcpuPlace>,
    /// Why a wanted placement is not in force, one line.
    pub refused: Option<String>,
    /// Notes, one line each.
    pub notes: Vec<String>,
}

/// The place of one vCPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VcpuPlace {
    /// KVM vcpu_id.
    pub vcpu_id: u32,
    /// Thread ID.
    pub tid: u32,
    /// Host CPU on which the thread ran last.
    pub cpu: u32,
    /// CPUs that the thread may run on now, as a list; empty if the thread is gone.
    pub allowed: String,
    /// The placement of the vCPU, if it has one.
    pub placement: Option<PlacementSnapshot>,
}

/// Returns a note for each cluster in which more vCPUs are placed than there are CPUs in their
/// placements. These vCPUs must take turns.
pub(super) fn shared_cpus(now: &VmPlaces, host: &Host) -> Vec<String> {
    let mut notes = Vec::new();
    for cluster in &host.clusters {
        let inside = |placed: &&Placed| placed.cpus.is_subset(&cluster.cpus);
        let placed: Vec<_> = now.placed.values().filter(inside).collect();
        let cpus = placed.iter().fold(CpuMask::default(), |all, one| all.or(&one.cpus));
        if placed.len() > cpus.count() as usize {
            let vcpus = placed.len();
            notes.push(format!("{vcpus} vCPUs share {}: they take turns", name(&cpus)));
        }
    }
    notes
}

impl Places {
    pub(super) fn report(
        &self,
        vm: &VmThreads,
        now: &VmPlaces,
        configured: &PlaceKeys,
        host: &Host,
    ) -> PlaceReport {
        let one = |thread: &super::VcpuThread| VcpuPlace {
            vcpu_id: thread.vcpu_id,
            tid: thread.tid,
            cpu: thread.cpu,
            allowed: self.affinity.now(thread.tid).map_or(String::new(), |cpus| cpus.to_string()),
            placement: now.placed.get(&thread.index).map(|placed| self.look(placed)),
        };
        let mut notes = shared_cpus(now, host);
        let absent: CpuMask = (configured.place.named())
            .filter(|vcpu_id| vm.threads.iter().all(|thread| thread.vcpu_id != *vcpu_id))
            .collect();
        if !absent.is_empty() {
            notes.push(format!("{}.place: the VM has no vCPU {absent} yet", configured.section));
        }
        PlaceReport {
            vm: vm.name.clone(),
            vcpus: vm.threads.iter().map(one).collect(),
            refused: now.refused.clone(),
            notes,
        }
    }

    fn look(&self, placed: &Placed) -> PlacementSnapshot {
        let in_force = placed.wanted.mode == PlaceMode::Hints
            || self.affinity.now(placed.thread.tid) == Some(placed.cpus);
        PlacementSnapshot {
            wanted: placed.wanted.cpus.to_string(),
            mode: placed.wanted.mode,
            cpus: placed.cpus.to_string(),
            configured: !placed.wanted.ordered,
            in_force,
        }
    }

    /// The placement of a vCPU, if it has one.
    pub fn snapshot(&self, index: u32) -> Option<PlacementSnapshot> {
        let placed = self.vms.values().find_map(|vm| vm.placed.get(&index))?;
        Some(self.look(placed))
    }

    /// Why the vCPUs of a VM are not placed although they should be.
    pub fn refused(&self, process: (u32, u64)) -> Option<String> {
        self.vms.get(&process)?.refused.clone()
    }
}
