// SPDX-License-Identifier: GPL-2.0-only
//! Where the vCPUs of a VM run: keys of `[vm."NAME"]` only, and not of `paracord vm set`: `paracord vm place` also
//! looks whether the host can do what is said.

use crate::place::{PlaceMode, Placement};

/// `place` and `place_mode` of the sections that match a VM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlaceKeys {
    /// Where each vCPU runs.
    pub place: Placement,
    /// What that does.
    pub mode: PlaceMode,
    /// Section whose `place` is in force, for people to read: `vm."web-*"`.
    pub section: String,
}
