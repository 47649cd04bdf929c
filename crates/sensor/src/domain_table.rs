// SPDX-License-Identifier: GPL-2.0-only
//! The host's performance domains, for guests without a device (bpf/domain_table.h).

use std::{
    ptr,
    sync::atomic::{AtomicU64, Ordering, fence},
};

use paracord_policy::{PC_DOMAIN_WORDS, pc_domain_image};

use crate::Array;

/// Size of a domain.
pub const DOMAIN_IMAGE_BYTES: usize = PC_DOMAIN_WORDS as usize * size_of::<u64>();

impl Array<pc_domain_image> {
    /// Replaces the table. Domains that do not fit are dropped. No two threads may call this
    /// function at the same time.
    ///
    /// The sensor reads the table without a lock. While a domain is replaced, its first word is 0,
    /// and the sensor treats that domain as the end of the table.
    pub fn set<'a>(&self, domains: impl IntoIterator<Item = &'a [u8; DOMAIN_IMAGE_BYTES]>) {
        let mut domains = domains.into_iter();
        for index in 0..u32::try_from(self.len()).unwrap_or(u32::MAX) {
            let Some(record) = self.at(index) else { return };
            let mut image = pc_domain_image::default();
            for (word, bytes) in image.words.iter_mut().zip(
                domains.next().into_iter().flat_map(|domain| domain.chunks_exact(size_of::<u64>())),
            ) {
                *word = bytes.try_into().map_or(0, u64::from_ne_bytes);
            }
            let [first, rest @ ..] = image.words;
            // SAFETY: the words lie inside the mapped record.
            let kept = unsafe { &raw mut (*record.as_ptr()).words }.cast::<u64>();
            // SAFETY: the word is an aligned integer, which lives as long as the array.
            let kept_first = unsafe { AtomicU64::from_ptr(kept) };
            // SAFETY: the record has that many words.
            let kept_rest = unsafe { kept.add(1) }.cast::<[u64; PC_DOMAIN_WORDS as usize - 1]>();
            kept_first.store(0, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            // SAFETY: as above. BPF programs only read the words.
            unsafe { ptr::write_volatile(kept_rest, rest) };
            kept_first.store(first, Ordering::Release);
        }
    }
}
