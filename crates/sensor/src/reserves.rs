// SPDX-License-Identifier: GPL-2.0-only
//! Reserves (`pc_reserve`): the CPU time that quotas leave for boosts. The sensor subtracts boosted
//! time from them, and the daemon refills them.

use std::sync::atomic::{AtomicI64, Ordering};

use paracord_policy::pc_reserve;

use crate::Array;

/// The records of control groups with a quota. Index 0 belongs to no group.
pub trait Reserves {
    /// Number of records.
    fn len(&self) -> u32;
    /// Whether there are no records.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Starts a new record, with an empty reserve. `above`: index of the record of the nearest
    /// ancestor group with a quota; 0: no ancestor group has a quota.
    fn begin(&self, index: u32, above: u32);
    /// Sets the index of the record of the nearest ancestor group with a quota. 0: no ancestor
    /// group has a quota.
    fn set_above(&self, index: u32, above: u32);
    /// The reserve, in ns.
    fn left_ns(&self, index: u32) -> i64;
    /// Adds to the reserve. The sensor may subtract from it at the same time.
    fn add_ns(&self, index: u32, ns: i64);
}

impl Array<pc_reserve> {
    fn left(&self, index: u32) -> Option<&AtomicI64> {
        let record = self.at(index)?.as_ptr();
        // SAFETY: this is an aligned field inside a mapped record.
        let left = unsafe { &raw mut (*record).left_ns };
        // SAFETY: the field lives as long as the array, and both sides access it as one aligned
        // word.
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
        // SAFETY: this is an aligned field inside a mapped record.
        let place = unsafe { &raw mut (*record.as_ptr()).above };
        // SAFETY: as above. Only this side writes the field.
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
