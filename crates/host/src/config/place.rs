// SPDX-License-Identifier: GPL-2.0-only
//! Keys that say where the vCPUs of a VM run. They exist in `[vm."NAME"]` only. `paracord vm set`
//! does not accept them: `paracord vm place` sets placements, because it also checks that the host
//! can do what is requested.

use crate::place::{PlaceMode, Placement};

/// `place` and `place_mode` of the sections that match a VM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlaceKeys {
    /// Where each vCPU runs.
    pub place: Placement,
    /// What the placement does.
    pub mode: PlaceMode,
    /// The section whose `place` is in force, in readable form: `vm."web-*"`.
    pub section: String,
}
