// SPDX-License-Identifier: GPL-2.0-only
//! A thread that waits for file descriptors. One of them tells the thread to end.

use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use rustix::fd::OwnedFd;

use crate::wake::{eventfd, wake};

/// Stack size of threads that are started once per CPU. With the usual 2 MiB, the stacks would take
/// 256 MiB of locked memory on 128 CPUs.
const SMALL_STACK_BYTES: usize = 256 << 10;

/// A running thread. Dropping this value tells the thread to end, and joins it.
#[derive(Debug)]
pub(crate) struct StopThread {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl StopThread {
    /// Runs `body` in a new thread. `body` must return when the file descriptor that it is given is
    /// readable, and may return earlier.
    ///
    /// # Errors
    /// If no file descriptor is left, or the thread cannot be created.
    pub(crate) fn start(
        name: String,
        body: impl FnOnce(&OwnedFd) + Send + 'static,
    ) -> io::Result<StopThread> {
        StopThread::spawn(Builder::new().name(name), body)
    }

    /// Like [`start`](StopThread::start), but with a small stack. Use this function for a thread
    /// that is one of many, because all memory of the daemon is locked, including stacks.
    ///
    /// # Errors
    /// The errors of [`start`](StopThread::start).
    pub(crate) fn start_small(
        name: String,
        body: impl FnOnce(&OwnedFd) + Send + 'static,
    ) -> io::Result<StopThread> {
        StopThread::spawn(Builder::new().name(name).stack_size(SMALL_STACK_BYTES), body)
    }

    fn spawn(
        builder: Builder,
        body: impl FnOnce(&OwnedFd) + Send + 'static,
    ) -> io::Result<StopThread> {
        let stop = Arc::new(eventfd()?);
        let theirs = Arc::clone(&stop);
        let thread = builder.spawn(move || body(&theirs))?;
        Ok(StopThread { stop, thread: Some(thread) })
    }
}

impl StopThread {
    /// Tells the thread to end, but does not join it. A later drop does not join it either.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the size of the mapping that contains a local variable of this thread, as
    /// /proc/thread-self/maps shows it.
    fn stack_bytes() -> usize {
        let local = 0u8;
        let at = &raw const local as usize;
        let maps = std::fs::read_to_string("/proc/thread-self/maps").unwrap();
        let ranges = maps.lines().filter_map(|line| {
            let (from, to) = line.split(' ').next()?.split_once('-')?;
            Some((usize::from_str_radix(from, 16).ok()?, usize::from_str_radix(to, 16).ok()?))
        });
        let (from, to) = ranges.into_iter().find(|(from, to)| (*from..*to).contains(&at)).unwrap();
        to - from
    }

    #[test]
    fn one_of_many_threads_has_a_small_stack() {
        let (say, hear) = std::sync::mpsc::channel();
        let thread = StopThread::start_small("small".into(), move |_| {
            say.send(stack_bytes()).unwrap();
        });
        let bytes = hear.recv().unwrap();
        drop(thread.unwrap());
        assert!(bytes < 2 * SMALL_STACK_BYTES, "{bytes}");
    }
}
