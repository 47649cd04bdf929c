// SPDX-License-Identifier: GPL-2.0-only
//! The region of a VM in a snapshot.

use serde::{Deserialize, Serialize};

/// Counts of the announcements that a guest has made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnnouncementsSnapshot {
    /// All announcements.
    pub all: u64,
    /// Announcements that were ignored, because they followed each other too quickly.
    pub ignored: u64,
    /// Announcements of addresses that are not memory of the guest, or whose page was not present.
    pub unreadable: u64,
}

/// Counts of writes of host lines and performance domains into the guest's own memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostLinesSnapshot {
    /// Lines and domains that were written.
    pub writes: u64,
    /// Writes that failed, because the page was not present or not writable.
    pub errors: u64,
    /// Lines that were not written, because something else had changed them.
    pub left_alone: u64,
}

/// A region that is in use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionSnapshot {
    /// File name in the region directory, or `(guest memory)`.
    pub name: String,
    /// Number of slots.
    pub slots: u32,
    /// Size of the whole region.
    pub bytes: u64,
    /// ABI version of the guest's driver, `major.minor`; `None` without a driver.
    pub guest_abi: Option<String>,
    /// Features that the guest has accepted and the host offers: `boost`, `preempt_count`, `kick`,
    /// …
    pub features: Vec<String>,
    /// Number of accesses to the region that took too long.
    #[serde(default)]
    pub slow_accesses: u64,
    /// Remaining time for which the daemon pauses accesses to the region, because an access was
    /// slow; 0: accesses are not paused.
    #[serde(default)]
    pub left_out_ns: u64,
    /// The writes into the guest's own memory; `None`: the region is a file, or nothing is written.
    #[serde(default)]
    pub host_lines: Option<HostLinesSnapshot>,
}
