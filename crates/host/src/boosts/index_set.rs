// SPDX-License-Identifier: GPL-2.0-only
//! Sets of vCPU indices.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::boosts::journal_file::ENTRIES;

/// A set of vCPU indices, with one bit per index. Adding an index is one atomic OR.
#[derive(Debug)]
pub struct IndexSet {
    words: Vec<AtomicU64>,
}

impl IndexSet {
    /// Creates an empty set.
    pub fn new() -> IndexSet {
        IndexSet { words: (0..ENTRIES / 64).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Adds an index below [`ENTRIES`].
    pub fn mark(&self, index: u32) {
        self.words[index as usize / 64].fetch_or(1 << (index % 64), Ordering::Release);
    }

    /// Removes all indices, lowest first, and passes each of them to `each`.
    pub fn drain(&self, mut each: impl FnMut(u32)) {
        for (n, word) in self.words.iter().enumerate() {
            let mut bits = word.swap(0, Ordering::Acquire);
            while bits != 0 {
                each(n as u32 * 64 + bits.trailing_zeros());
                bits &= bits - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_set_gives_each_mark_once() {
        let set = IndexSet::new();
        for index in [0, 63, 64, ENTRIES - 1, 63] {
            set.mark(index);
        }
        let mut got = Vec::new();
        set.drain(|index| got.push(index));
        assert_eq!(got, [0, 63, 64, ENTRIES - 1]);
        set.drain(|index| panic!("{index} again"));
    }
}
