// SPDX-License-Identifier: GPL-2.0-only
//! A thread that waits for file descriptors, one of which tells it to end.

use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;

use crate::rt_thread::wake;

/// Dropping it ends the thread, and waits for that.
#[derive(Debug)]
pub(crate) struct StopThread {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl StopThread {
    /// Runs `body`, which returns when its descriptor is readable, or before.
    ///
    /// # Errors
    /// No descriptor or no thread is left.
    pub(crate) fn start(
        name: String,
        body: impl FnOnce(&OwnedFd) + Send + 'static,
    ) -> io::Result<StopThread> {
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let theirs = Arc::clone(&stop);
        let thread = Builder::new().name(name).spawn(move || body(&theirs))?;
        Ok(StopThread { stop, thread: Some(thread) })
    }
}

impl StopThread {
    /// Tells it to end, and waits for nothing: dropping it does not either, then.
    pub(crate) fn abandon(&mut self) {
        wake(&self.stop);
        drop(self.thread.take());
    }
}

impl Drop for StopThread {
    fn drop(&mut self) {
        wake(&self.stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
