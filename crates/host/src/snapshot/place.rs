// SPDX-License-Identifier: GPL-2.0-only
//! Where a vCPU runs, and where it was asked to run.

use serde::{Deserialize, Serialize};

use crate::place::PlaceMode;

/// The place of a vCPU, as its host line reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostPlaceSnapshot {
    /// Capacity of the physical CPU, 1..=1024; 0: not known.
    pub capacity: u16,
    /// Frequency relative to the highest frequency of this CPU, 1..=1024; 0: not known.
    pub frequency: u16,
    /// First CPU of the cluster.
    pub cluster: Option<u32>,
    /// Index of the performance domain.
    pub domain: Option<u16>,
}

/// The placement of a vCPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacementSnapshot {
    /// The placement as it was requested: `4-5`, `cluster:4`, `capacity:max`, `auto`.
    pub wanted: String,
    /// Whether the thread is bound, or only the guest is told.
    pub mode: PlaceMode,
    /// The CPUs that the placement stands for on this host, as a list.
    pub cpus: String,
    /// Whether the placement comes from the configuration, and not from `paracord vm place`.
    pub configured: bool,
    /// False if another program has changed the affinity of the thread after paracord placed it.
    pub in_force: bool,
}
