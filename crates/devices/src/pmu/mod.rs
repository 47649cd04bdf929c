// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Counters for a guest's perf where the guest has no PMU: perf events of the host on the vCPU's thread, kept in a
//! [`Pool`] so that a guest that switches, multiplexes and samples does not have them made anew each time.
//!
//! | part | job |
//! |---|---|
//! | [`Offer`] | the events that this host has, of an [`EventSet`], tried once |
//! | [`Pool`] | one vCPU's counters, and the events that serve them |
//! | [`Area`] | the same for a guest with paracord's module, which asks through its slot of the region |
//! | [`Budget`] | what all pools of a VM may cost |
//! | [`Stats`] | how often events were opened, closed, and used again |
//!
//! The feature `pmu` links paracord's policy, which is GPL-2.0-only (policy/pmu_pool.h), into the VMM.
//!
//! ```
//! use std::sync::Arc;
//! use paracord_devices::pmu::{Budget, EventSet, Offer, Pool, Settings, Want};
//!
//! // Once per VM: what the guest may count, and what that may cost.
//! let offer = Arc::new(Offer::probe(EventSet::ALL));
//! let budget = Arc::new(Budget::default());
//! // In each vCPU's thread.
//! let mut pool = Pool::new(offer.clone(), budget, Settings::default());
//! // The guest's perf puts an event on counter 0, and takes it off again.
//! let event = offer.find("task-clock").unwrap();
//! pool.start(0, Want { event, user: true, kernel: true, ..Want::default() })?;
//! pool.stop(0)?;
//! println!("{:?}", pool.counts(0)?);
//! // Each time that the vCPU's thread was switched out, or each 10 ms.
//! pool.end_slice();
//! # Ok::<(), paracord_devices::pmu::Error>(())
//! ```

mod area;
mod error;
mod event;
mod event_set;
mod offer;
mod pool;
mod quota;

pub use area::Area;
pub use error::{Call, Error, Refusal};
pub use event::Counts;
pub use event_set::{EventSet, UnknownEvent};
pub use offer::{NotOffered, Offer, Offered, Refused, Want};
pub use paracord_policy::pmu::Mode;
pub use paracord_sys::perf::Listener;
pub use pool::{COUNTERS, EVENTS, Pool, Settings, Stats};
pub use quota::{Budget, Quota, SLICE};
