// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Where the guest has put a BAR whose accesses the VMM serves.

use std::sync::atomic::{AtomicU64, Ordering};

/// The place of a BAR.
#[derive(Debug)]
pub struct Window {
    start: AtomicU64,
    bytes: u64,
}

/// No address of a guest's.
const NOWHERE: u64 = u64::MAX;

impl Window {
    /// Of a BAR of so many bytes. It is nowhere yet.
    pub fn new(bytes: u64) -> Window {
        Window { start: AtomicU64::new(NOWHERE), bytes }
    }

    /// Bytes of the BAR.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The guest puts it at `start`, or hides it.
    pub fn place(&self, start: Option<u64>) {
        self.start.store(start.unwrap_or(NOWHERE), Ordering::Relaxed);
    }

    /// What of the BAR lies at an address: its offset.
    pub fn find(&self, address: u64) -> Option<u64> {
        let offset = address.checked_sub(self.start.load(Ordering::Relaxed))?;
        (offset < self.bytes).then_some(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_where_the_guest_put_it() {
        let window = Window::new(0x1000);
        for address in [0, 12, 0x1000, NOWHERE] {
            assert_eq!(window.find(address).is_some(), address == NOWHERE, "{address:#x}");
        }
        window.place(Some(0x1000));
        let found = [0xfff, 0x1000, 0x100c, 0x1fff, 0x2000].map(|address| window.find(address));
        assert_eq!(found, [None, Some(0), Some(12), Some(0xfff), None]);
        window.place(None);
        assert_eq!(window.find(0x100c), None);
    }
}
