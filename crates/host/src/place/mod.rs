// SPDX-License-Identifier: GPL-2.0-only
//! Where vCPUs run: `paracord vm place` and `place` in the configuration.

pub mod journal;
#[cfg(test)]
pub(crate) mod sleeper;
pub mod spec;

pub use journal::PlaceJournal;
pub use spec::{Cpus, PlaceMode, Placement};
