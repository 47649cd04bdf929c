// SPDX-License-Identifier: GPL-2.0-only
//! Where vCPUs run: `paracord vm place` and `place` in the configuration (docs/placement.md).
//!
//! [`spec`] is what is asked for, [`host`] what that means on this host, [`journal`] what threads had before.
//! [`Places`] carries it out: all that an order or a section says is checked before any thread is touched, and when
//! the kernel then refuses one, those that were touched have again what they had.

mod apply;
pub mod host;
pub mod journal;
mod orders;
mod report;
#[cfg(test)]
pub(crate) mod sleeper;
pub mod spec;
mod state;
#[cfg(test)]
mod tests;
mod threads;

pub use host::Host;
pub use journal::{Entry, PlaceJournal};
pub use orders::PlaceOrder;
pub use report::{PlaceReport, VcpuPlace};
pub use spec::{Cpus, PlaceMode, Placement};
pub use state::Places;
pub use threads::{VcpuThread, VmThreads};
