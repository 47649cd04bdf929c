// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Counts of accesses, including accesses that the guest driver never makes.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Why an access was ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Width,
    Outside,
    Offset,
    Direction,
}

/// Accesses so far. An ignored access is counted once, for the first of the four reasons that
/// applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Ignored because the access was not 4 bytes wide.
    pub width: u64,
    /// Ignored because the address is beyond the last vCPU's page.
    pub outside: u64,
    /// Ignored because no register starts at this offset.
    pub offset: u64,
    /// Ignored because the guest read a write-only register, or wrote a read-only register.
    pub direction: u64,
    /// Requests above the highest entry of the table, which were clamped to it.
    pub clamped: u64,
    /// Reads of a table entry that does not exist. The guest reads 0.
    pub no_entry: u64,
    /// Requests that differed from the policy's previous request, and were therefore passed to the
    /// back end.
    pub requests: u64,
}

impl Counts {
    /// Number of accesses that were ignored.
    pub fn ignored(&self) -> u64 {
        self.width + self.outside + self.offset + self.direction
    }
}

/// Counters that all vCPUs share. A well-behaved guest increments only `requests`, and it does so
/// rarely.
#[derive(Debug, Default)]
pub(super) struct Counters {
    width: AtomicU64,
    outside: AtomicU64,
    offset: AtomicU64,
    direction: AtomicU64,
    pub(super) clamped: AtomicU64,
    pub(super) no_entry: AtomicU64,
    pub(super) requests: AtomicU64,
}

impl Counters {
    pub(super) fn refuse(&self, why: Refusal) {
        let counter = match why {
            Refusal::Width => &self.width,
            Refusal::Outside => &self.outside,
            Refusal::Offset => &self.offset,
            Refusal::Direction => &self.direction,
        };
        counter.fetch_add(1, Relaxed);
    }

    pub(super) fn get(&self) -> Counts {
        Counts {
            width: self.width.load(Relaxed),
            outside: self.outside.load(Relaxed),
            offset: self.offset.load(Relaxed),
            direction: self.direction.load(Relaxed),
            clamped: self.clamped.load(Relaxed),
            no_entry: self.no_entry.load(Relaxed),
            requests: self.requests.load(Relaxed),
        }
    }
}
