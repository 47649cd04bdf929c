// SPDX-License-Identifier: GPL-2.0-only
//! `[region."NAME"]`: a region that the daemon creates when it starts or reads its configuration
//! again.

/// What a region offers to its guest. The defaults are those of `paracord region create`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionKeys {
    /// Number of vCPUs, including hot-pluggable ones.
    pub vcpus: u32,
    /// User as which the VM runs: name, UID or UID:GID. Empty: the user of the daemon.
    pub owner: String,
    /// Whether the guest may kick.
    pub kick: bool,
    /// Whether the host reads the guest's preempt_count.
    pub preempt_count: bool,
    /// Whether the guest is told about the host's CPUs and frequencies, and may ask for
    /// performance.
    pub frequencies: bool,
    /// Whether the daemon counts events for the guest.
    pub counters: bool,
    /// Age from which a stale boost is worth a kick, µs; 0: the default of the guest's driver.
    pub kick_us: u32,
}

impl Default for RegionKeys {
    fn default() -> Self {
        RegionKeys {
            vcpus: 1,
            owner: String::new(),
            kick: true,
            preempt_count: true,
            frequencies: true,
            counters: false,
            kick_us: 0,
        }
    }
}

/// A `[region."NAME"]` section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionSection {
    /// Name of the region.
    pub name: String,
    /// The keys.
    pub keys: RegionKeys,
}
