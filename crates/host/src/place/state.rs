// SPDX-License-Identifier: GPL-2.0-only
//! Which placement each VM's vCPUs should have, and which one is in force. Used by the daemon's
//! main thread.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use paracord_sys::affinity::CpuMask;

use super::journal::PlaceJournal;
use super::spec::{Cpus, PlaceMode, Who};
use super::threads::{Affinity, VcpuThread};
use crate::config::PlaceKeys;

/// The placement that a vCPU should have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub cpus: Cpus,
    pub mode: PlaceMode,
    /// Whether an order says so, and not the configuration.
    pub ordered: bool,
}

/// The placement that is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placed {
    pub thread: VcpuThread,
    pub wanted: Wanted,
    /// The CPUs that `wanted` stands for on this host.
    pub cpus: CpuMask,
    /// Position among the VM's vCPUs, on which [`Cpus::Auto`] depends.
    pub rank: usize,
}

impl Placed {
    /// Whether this placement is the one that is wanted.
    pub fn fits(&self, wanted: Wanted, rank: usize) -> bool {
        self.wanted == wanted && (wanted.cpus != Cpus::Auto || self.rank == rank)
    }
}

#[derive(Debug, Default)]
pub(super) struct VmPlaces {
    pub ordered: BTreeMap<Who, Wanted>,
    /// Whether the configuration does not apply.
    pub cleared: bool,
    /// Why something that is wanted is not in force.
    pub refused: Option<String>,
    /// The placements in force, by vCPU index.
    pub placed: BTreeMap<u32, Placed>,
}

impl VmPlaces {
    /// The placement that a vCPU should have; `None`: anywhere.
    pub fn wanted(&self, vcpu_id: u32, configured: &PlaceKeys) -> Option<Wanted> {
        let ordered = self.ordered.get(&Who::Vcpu(vcpu_id)).or_else(|| self.ordered.get(&Who::All));
        let by_file = || {
            let cpus = configured.place.of(vcpu_id).filter(|_| !self.cleared)?;
            Some(Wanted { cpus, mode: configured.mode, ordered: false })
        };
        ordered.copied().or_else(by_file).filter(|wanted| wanted.cpus != Cpus::Any)
    }
}

/// All placements.
#[derive(Debug)]
pub struct Places {
    pub(super) affinity: Affinity,
    pub(super) vms: BTreeMap<(u32, u64), VmPlaces>,
}

impl Places {
    /// No placements yet. Reads the host and its control groups below `root` (`/`).
    pub fn new(journal: Arc<PlaceJournal>, proc_root: PathBuf, root: PathBuf) -> Places {
        Places { affinity: Affinity { journal, proc_root, root }, vms: BTreeMap::new() }
    }

    /// For vCPUs (by index) whose threads are not bound to the CPUs of their placement: these CPUs.
    pub fn hints(&self) -> BTreeMap<u32, CpuMask> {
        let all = self.vms.values().flat_map(|vm| &vm.placed);
        all.filter(|(_, placed)| placed.wanted.mode == PlaceMode::Hints)
            .map(|(index, placed)| (*index, placed.cpus))
            .collect()
    }
}
