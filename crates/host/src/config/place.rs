// SPDX-License-Identifier: GPL-2.0-only
//! Keys that determine where the vCPUs of a VM run. They exist only in `[vm."NAME"]`. `paracord vm
//! set` does not accept them. `paracord vm place` sets placements instead, because it also checks
//! that the requested placement is possible on this host.

use crate::place::{PlaceMode, Placement};

/// `place` and `place_mode` of the sections that match a VM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlaceKeys {
    /// Where each vCPU runs.
    pub place: Placement,
    /// Whether the placement binds threads to CPUs, or is only told to the guest.
    pub mode: PlaceMode,
    /// The last matching section that contains one of these keys, in the form `vm."web-*"`.
    pub section: String,
}
