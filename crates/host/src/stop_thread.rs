// SPDX-License-Identifier: GPL-2.0-only
//! A thread that waits for file descriptors, one of which tells it to end.

use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;

use crate::wake::wake;

/// Of threads that one is started of for each CPU; the usual 2 MiB would be 256 MiB of locked memory on 128 CPUs.
const SMALL_STACK_BYTES: usize = 256 << 10;

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
        StopThread::spawn(Builder::new().name(name), body)
    }

    /// The same of one of many: the daemon's memory is locked, stacks included.
    ///
    /// # Errors
    /// As above.
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
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let theirs = Arc::clone(&stop);
        let thread = builder.spawn(move || body(&theirs))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the mapping below the thread's stack pointer, from /proc/thread-self/maps.
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
