// SPDX-License-Identifier: GPL-2.0-only
//! Eventfds with which threads wake each other.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::EventfdFlags;

/// Creates a nonblocking eventfd that is not readable yet.
///
/// # Errors
/// If no file descriptor is left.
pub(crate) fn eventfd() -> io::Result<OwnedFd> {
    Ok(rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

/// Makes an eventfd readable.
pub(crate) fn wake(fd: &OwnedFd) {
    // If the counter is full, the eventfd is readable already.
    let _ = rustix::io::write(fd, &1u64.to_ne_bytes());
}

/// Clears an eventfd, so that it is no longer readable.
pub(crate) fn clear_wake(fd: impl AsFd) {
    let _ = rustix::io::read(fd, &mut [0u8; 8]);
}
