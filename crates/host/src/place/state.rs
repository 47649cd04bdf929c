// SPDX-License-Identifier: GPL-2.0-only
//! The placements that the vCPUs of each VM should have, and the placements that are in force. The
//! daemon's main thread uses this state.

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
    /// True if an order requests this placement; false if the configuration does.
    pub ordered: bool,
}

/// The placement that is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placed {
    pub thread: VcpuThread,
    pub wanted: Wanted,
    /// The CPUs that `wanted` stands for on this host.
    pub cpus: CpuMask,
    /// Position of the vCPU among the VM's vCPUs. [`Cpus::Auto`] depends on it.
    pub rank: usize,
}

impl Placed {
    /// Whether this placement is the wanted one.
    pub fn fits(&self, wanted: Wanted, rank: usize) -> bool {
        self.wanted == wanted && (wanted.cpus != Cpus::Auto || self.rank == rank)
    }
}

#[derive(Debug, Default)]
pub(super) struct VmPlaces {
    pub ordered: BTreeMap<Who, Wanted>,
    /// Whether an order has cleared the placements, so that the configuration does not apply until
    /// it is read again.
    pub cleared: bool,
    /// Why a wanted placement is not in force.
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
    /// Creates a state without placements. The host's CPUs and control groups are read below `root`
    /// (`/`).
    pub fn new(journal: Arc<PlaceJournal>, proc_root: PathBuf, root: PathBuf) -> Places {
        Places { affinity: Affinity { journal, proc_root, root }, vms: BTreeMap::new() }
    }

    /// The CPUs of the placements that do not bind their threads ([`PlaceMode::Hints`]), by vCPU
    /// index.
    pub fn hints(&self) -> BTreeMap<u32, CpuMask> {
        let all = self.vms.values().flat_map(|vm| &vm.placed);
        all.filter(|(_, placed)| placed.wanted.mode == PlaceMode::Hints)
            .map(|(index, placed)| (*index, placed.cpus))
            .collect()
    }
}
