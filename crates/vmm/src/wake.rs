// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Wakes the main thread.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

/// An eventfd. All notifications until the main thread reads it count as one.
pub struct Wake(OwnedFd);

impl Wake {
    /// Makes an eventfd without a notification.
    ///
    /// # Errors
    /// The error of eventfd(2).
    pub fn new() -> io::Result<Wake> {
        Ok(Wake(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Wakes the main thread.
    pub fn notify(&self) {
        // The write fails only if the counter is full. Then there is already a notification.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Clears the notifications. Returns whether there were any.
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
