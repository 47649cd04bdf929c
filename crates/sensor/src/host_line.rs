// SPDX-License-Identifier: GPL-2.0-only
//! The host line of a vCPU whose region lies in the guest's own memory (bpf/host_line.h).

use std::{
    ptr,
    sync::atomic::{AtomicU32, Ordering, fence},
};

use paracord_policy::{PC_HOST_LINE_WORDS, pc_host_line};

use crate::Vcpu;

/// Size of a host line.
const BYTES: usize = PC_HOST_LINE_WORDS as usize * size_of::<u64>();

/// Numbers of writes to a host line, by their outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostLineCounts {
    /// Writes of whole lines and of performance domains.
    pub writes: u64,
    /// Writes that failed, because the page was not present or not writable.
    pub write_errors: u64,
    /// Number of times that the line was not written, because something else had written to it.
    pub changed: u64,
}

/// The even number that follows `even`. The number 0 means that there is no image.
fn after_change(even: u32) -> u32 {
    match even.wrapping_add(2) {
        0 => 2,
        next => next,
    }
}

impl Vcpu<'_> {
    /// Copies `bytes` into the host line, beginning at `offset`. The sensor writes the line into
    /// the guest's memory at the next VM exit of the vCPU. No two threads may call this function or
    /// [`renew_host_line`](Vcpu::renew_host_line) for the same vCPU at the same time.
    ///
    /// # Panics
    /// If the bytes do not fit into the line.
    pub fn set_host_line(&self, offset: usize, bytes: &[u8]) {
        let sequence = self.host_line_sequence();
        // SAFETY: the field lies inside the mapped record.
        let kept = unsafe { &raw mut (*self.host_line()).image };
        // SAFETY: the field is an aligned array of integers.
        let before = unsafe { ptr::read_volatile(kept) };
        let mut image = [0u8; BYTES];
        for (to, word) in image.chunks_exact_mut(size_of::<u64>()).zip(before) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        image[offset..offset + bytes.len()].copy_from_slice(bytes);
        let mut after = before;
        for (word, from) in after.iter_mut().zip(image.chunks_exact(size_of::<u64>())) {
            *word = from.try_into().map_or(0, u64::from_ne_bytes);
        }
        let even = sequence.load(Ordering::Relaxed);
        if after == before && even != 0 {
            return;
        }
        sequence.store(even.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        // SAFETY: as above. BPF programs only read the field.
        unsafe { ptr::write_volatile(kept, after) };
        sequence.store(after_change(even), Ordering::Release);
    }

    /// Makes the sensor write the host line again at the next VM exit of the vCPU. The sensor adds
    /// the boost state. Does nothing before the first [`set_host_line`](Vcpu::set_host_line).
    pub fn renew_host_line(&self) {
        let sequence = self.host_line_sequence();
        let even = sequence.load(Ordering::Relaxed);
        if even != 0 {
            sequence.store(after_change(even), Ordering::Release);
        }
    }

    /// Numbers of writes to the host line, by their outcome.
    #[must_use]
    pub fn host_line_counts(&self) -> HostLineCounts {
        // SAFETY: the record is mapped and aligned, and any bytes are valid integers.
        let line = unsafe { ptr::read_volatile(self.host_line()) };
        HostLineCounts {
            writes: line.writes,
            write_errors: line.write_errors,
            changed: line.changed,
        }
    }

    fn host_line_sequence(&self) -> &AtomicU32 {
        // SAFETY: the field lies inside the mapped record.
        let sequence = unsafe { &raw mut (*self.host_line()).sequence };
        // SAFETY: the field is an aligned integer, which lives as long as the array.
        unsafe { AtomicU32::from_ptr(sequence) }
    }

    fn host_line(&self) -> *mut pc_host_line {
        // SAFETY: the field lies inside the mapped record.
        unsafe { &raw mut (*self.record().as_ptr()).line }
    }
}
