// SPDX-License-Identifier: GPL-2.0-only
//! Simulated time.

pub use paracord_sys::clock::{NS_PER_MS, NS_PER_S, NS_PER_US};

/// Nanoseconds of simulated time.
pub type Ns = u64;
