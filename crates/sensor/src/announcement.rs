// SPDX-License-Identifier: GPL-2.0-only
//! Regions that guests have announced (bpf/announce.h).

use std::{
    ptr,
    sync::atomic::{AtomicU32, Ordering, fence},
};

use paracord_policy::{PC_HEADER_BYTES, pc_announcement};

use crate::Array;

/// Number of attempts to copy a record, in case the guest announces again and again.
const ATTEMPTS: u32 = 8;

/// A region in a guest's own memory, as the guest has last announced it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announced {
    /// Guest-physical address of the region's first byte, a multiple of 4096.
    pub gpa: u64,
    /// Copy of the region's header. The guest chooses every byte of it.
    pub header: [u8; PC_HEADER_BYTES as usize],
}

/// No consistent copy of a record could be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BeingWritten;

/// Number of announcements of one VM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnnouncementCounts {
    /// All announcements.
    pub all: u64,
    /// Announcements that were ignored, because they came too soon after another announcement or at
    /// the same time as another one.
    pub ignored: u64,
    /// Announcements of addresses that could not be read.
    pub unreadable: u64,
}

impl Array<pc_announcement> {
    /// The region that the guest has announced, if there is one. `vm`: index of the VM's record.
    ///
    /// # Errors
    /// [`BeingWritten`] if a vCPU was writing the record during each attempt to copy it.
    pub fn get(&self, vm: u32) -> Result<Option<Announced>, BeingWritten> {
        let Some(record) = self.at(vm) else { return Ok(None) };
        let record = record.as_ptr();
        // SAFETY: the field is inside the mapped record.
        let sequence = unsafe { &raw mut (*record).sequence };
        // SAFETY: the field is an aligned integer, valid as long as the array.
        let sequence = unsafe { AtomicU32::from_ptr(sequence) };
        for _ in 0..ATTEMPTS {
            let before = sequence.load(Ordering::Acquire);
            let Some(copy) = self.read(vm) else { return Ok(None) };
            fence(Ordering::Acquire);
            if before % 2 == 0 && sequence.load(Ordering::Relaxed) == before {
                let announced = Announced { gpa: copy.gpa, header: copy.header };
                return Ok((copy.gpa != 0).then_some(announced));
            }
        }
        Err(BeingWritten)
    }

    /// Forgets the announcements of an earlier VM that used this record. Call this only while no
    /// vCPU that uses the record is ready.
    pub fn forget(&self, vm: u32) {
        let Some(record) = self.at(vm) else { return };
        let record = record.as_ptr();
        // SAFETY: the record is aligned and inside the mapping, and consists of plain integers.
        // Without a ready vCPU, no program writes the record.
        unsafe { ptr::write_bytes(record, 0, 1) };
    }

    /// Numbers of announcements since the record was last cleared with `forget`.
    #[must_use]
    pub fn counts(&self, vm: u32) -> AnnouncementCounts {
        self.read(vm).map_or_else(AnnouncementCounts::default, |record| AnnouncementCounts {
            all: record.count,
            ignored: record.ignored,
            unreadable: record.unreadable,
        })
    }
}
