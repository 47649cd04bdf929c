// SPDX-License-Identifier: GPL-2.0-only
//! Placement of vCPUs: `paracord vm place`, and `place` in the configuration (docs/placement.md).
//!
//! [`spec`] describes requests. [`host`] resolves them to CPUs of this host. [`journal`] records
//! the affinities that threads had before their placement. [`Places`] carries out requests, which
//! are orders or sections of the configuration. It checks the whole request before it changes any
//! thread. If the kernel then refuses a change, the threads that were already changed are restored.

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
