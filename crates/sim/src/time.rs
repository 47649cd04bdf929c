// SPDX-License-Identifier: GPL-2.0-only
//! Simulated time.

/// Nanoseconds of simulated time.
pub type Ns = u64;
