// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Counters for perf in a guest that has no PMU. They are served by perf events of the host on the
//! vCPU's thread. A [`Pool`] keeps these events open, so that they need not be opened again each
//! time that the guest switches tasks, multiplexes counters or samples.
//!
//! | part | job |
//! |---|---|
//! | [`Offer`] | the events of an [`EventSet`] that this host supports; each is tried once |
//! | [`Pool`] | the counters of one vCPU, and the events that serve them |
//! | [`Area`] | a [`Pool`] for a guest with paracord's module, which requests counters through the vCPU's slot of the region |
//! | [`Budget`] | what all pools of a VM together may cost the host |
//! | [`Stats`] | how often events were opened, closed and reused |
//!
//! The feature `pmu` links paracord's policy (policy/pmu_pool.h, GPL-2.0-only) into the VMM.
//!
//! ```
//! use std::sync::Arc;
//! use paracord_devices::pmu::{Budget, EventSet, Offer, Pool, Settings, Want};
//!
//! // Once per VM: the events that the guest may count, and their budget.
//! let offer = Arc::new(Offer::probe(EventSet::ALL));
//! let budget = Arc::new(Budget::default());
//! // In the thread of each vCPU.
//! let mut pool = Pool::new(offer.clone(), budget, Settings::default());
//! // The guest's perf puts an event on counter 0, and removes it again.
//! let event = offer.find("task-clock").unwrap();
//! pool.start(0, Want { event, user: true, kernel: true, ..Want::default() })?;
//! pool.stop(0)?;
//! println!("{:?}", pool.counts(0)?);
//! // Whenever the vCPU's thread was switched out, and at least every 10 ms.
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
