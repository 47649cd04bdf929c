// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The location of a BAR whose accesses the VMM handles.

use std::sync::atomic::{AtomicU64, Ordering};

/// The location of a BAR, which the guest may change.
#[derive(Debug)]
pub struct Window {
    start: AtomicU64,
    bytes: u64,
}

/// The start of a hidden BAR. No guest's BAR has this address.
const NOWHERE: u64 = u64::MAX;

impl Window {
    /// Makes the location of a BAR with this size. The BAR is hidden at first.
    pub fn new(bytes: u64) -> Window {
        Window { start: AtomicU64::new(NOWHERE), bytes }
    }

    /// Size of the BAR.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Places the BAR at `start`, or hides it if `start` is `None`.
    pub fn place(&self, start: Option<u64>) {
        self.start.store(start.unwrap_or(NOWHERE), Ordering::Relaxed);
    }

    /// The offset of an address in the BAR; `None` if the address is outside the BAR.
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
