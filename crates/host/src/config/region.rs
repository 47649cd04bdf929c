// SPDX-License-Identifier: GPL-2.0-only
//! `[region."NAME"]`: a region that the daemon creates when it starts or reloads its configuration.

/// The keys of a region's section. The defaults are those of `paracord region create`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionKeys {
    /// Number of vCPUs, including hot-pluggable ones.
    pub vcpus: u32,
    /// User that the VM runs as: name, UID or UID:GID. Empty: the user of the daemon.
    pub owner: String,
    /// Whether the guest may kick the host.
    pub kick: bool,
    /// Whether the host reads the guest's preempt_count.
    pub preempt_count: bool,
    /// Whether the guest is told about the host's CPUs and frequencies, and may request
    /// performance.
    pub frequencies: bool,
    /// Whether the daemon counts perf events for the guest.
    pub counters: bool,
    /// If a boost is no longer needed, the guest kicks the host only if the boost is older than
    /// this, µs. 0: the default of the guest's driver.
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
