// SPDX-License-Identifier: GPL-2.0-only
//! What CPU quotas leave for boosts, as the sensor takes it off and the daemon fills it (`pc_reserve`).

use std::sync::atomic::{AtomicI64, Ordering};

use paracord_policy::pc_reserve;

use crate::Array;

/// The records of control groups with a quota. Index 0 is nobody's.
pub trait Reserves {
    /// How many there are.
    fn len(&self) -> u32;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// A record begins anew, with nothing left, below that of `above` (0: none).
    fn begin(&self, index: u32, above: u32);
    /// The group that is above it now.
    fn set_above(&self, index: u32, above: u32);
    /// What is left, nanoseconds.
    fn left_ns(&self, index: u32) -> i64;
    /// Adds to what is left; the sensor takes some off at the same time.
    fn add_ns(&self, index: u32, ns: i64);
}

impl Array<pc_reserve> {
    fn left(&self, index: u32) -> Option<&AtomicI64> {
        let record = self.at(index)?.as_ptr();
        // SAFETY: a field inside a mapped record, aligned.
        let left = unsafe { &raw mut (*record).left_ns };
        // SAFETY: alive as long as the array; both sides access it as one aligned word.
        Some(unsafe { AtomicI64::from_ptr(left) })
    }
}

impl Reserves for Array<pc_reserve> {
    fn len(&self) -> u32 {
        u32::try_from(Array::len(self)).unwrap_or(u32::MAX)
    }

    fn begin(&self, index: u32, above: u32) {
        self.write(index, &pc_reserve { left_ns: 0, above, reserved: 0 });
    }

    fn set_above(&self, index: u32, above: u32) {
        let Some(record) = self.at(index) else { return };
        // SAFETY: a field inside a mapped record, aligned.
        let place = unsafe { &raw mut (*record.as_ptr()).above };
        // SAFETY: as above; this side is its only writer.
        unsafe { place.write_volatile(above) };
    }

    fn left_ns(&self, index: u32) -> i64 {
        self.left(index).map_or(0, |left| left.load(Ordering::Relaxed))
    }

    fn add_ns(&self, index: u32, ns: i64) {
        if let Some(left) = self.left(index) {
            left.fetch_add(ns, Ordering::Relaxed);
        }
    }
}
