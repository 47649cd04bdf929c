// SPDX-License-Identifier: GPL-2.0-only
//! Threads wake each other by eventfds.

use std::os::fd::{AsFd, OwnedFd};

/// Makes the other side of an eventfd readable.
pub(crate) fn wake(fd: &OwnedFd) {
    // A full counter already is readable.
    let _ = rustix::io::write(fd, &1u64.to_ne_bytes());
}

/// Makes an eventfd unreadable.
pub(crate) fn clear_wake(fd: impl AsFd) {
    let _ = rustix::io::read(fd, &mut [0u8; 8]);
}
