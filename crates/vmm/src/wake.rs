// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! What wakes the main thread.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

/// An eventfd: any number of notifications before it is looked at count as one.
pub struct Wake(OwnedFd);

impl Wake {
    /// Nothing has happened yet.
    ///
    /// # Errors
    /// What eventfd(2) returns.
    pub fn new() -> io::Result<Wake> {
        Ok(Wake(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Wakes the main thread.
    pub fn notify(&self) {
        // It fails only when the counter is full: then there is a notification already.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Forgets the notifications so far; returns whether there were any.
    pub fn clear(&self) -> bool {
        rustix::io::read(&self.0, &mut [0u8; 8]).is_ok()
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notifications_count_as_one() {
        let wake = Wake::new().unwrap();
        assert!(!wake.clear());
        wake.notify();
        wake.notify();
        assert!(wake.clear());
        assert!(!wake.clear());
    }
}
