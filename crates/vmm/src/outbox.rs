// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The bytes that a guest has sent through a serial port and that have not been written yet.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::wake::Wake;

/// Maximum number of bytes that are kept. If a guest sends faster than its output is written, it
/// loses the excess, as on a line without flow control. Otherwise, its vCPU would have to wait for
/// the reader, or its output could use up all memory.
const QUEUED_MAX_BYTES: usize = 1 << 20;

/// The bytes. vCPU threads add to them, and the main thread removes them.
pub struct Outbox {
    queue: Mutex<VecDeque<u8>>,
    lost_bytes: AtomicU64,
    wake: Arc<Wake>,
}

impl Outbox {
    /// Makes an empty outbox. `wake` is notified when the outbox is no longer empty.
    pub fn new(wake: Arc<Wake>) -> Outbox {
        let queue = Mutex::new(VecDeque::with_capacity(QUEUED_MAX_BYTES));
        Outbox { queue, lost_bytes: AtomicU64::new(0), wake }
    }

    /// Passes waiting bytes to `take`, which returns how many it took. Returns the same number.
    pub fn take(&self, take: impl FnOnce(&[u8]) -> usize) -> usize {
        // The bytes are copied, so that a vCPU never waits for the system call.
        let copy: Vec<u8> = self.locked().iter().copied().take(CHUNK_BYTES).collect();
        if copy.is_empty() {
            return 0;
        }
        let taken = take(&copy).min(copy.len());
        self.locked().drain(..taken);
        taken
    }

    /// Drops all waiting bytes.
    pub fn discard(&self) {
        self.locked().clear();
    }

    /// Whether no bytes are waiting.
    pub fn is_empty(&self) -> bool {
        self.locked().is_empty()
    }

    /// Number of bytes that were lost because the outbox was full.
    pub fn lost_bytes(&self) -> u64 {
        self.lost_bytes.load(Ordering::Relaxed)
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, VecDeque<u8>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A pipe that poll(2) reports as writable takes this many bytes without blocking (PIPE_BUF).
const CHUNK_BYTES: usize = 4096;

/// The writer that a serial port sends to.
pub struct Sender(pub Arc<Outbox>);

impl Write for Sender {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let mut queue = self.0.locked();
        let was_empty = queue.is_empty();
        let room = QUEUED_MAX_BYTES - queue.len();
        let kept = data.len().min(room);
        queue.extend(&data[..kept]);
        drop(queue);
        if kept < data.len() {
            self.0.lost_bytes.fetch_add((data.len() - kept) as u64, Ordering::Relaxed);
        }
        if was_empty && kept > 0 {
            self.0.wake.notify();
        }
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_wait_in_order_and_wake_once() {
        let wake = Arc::new(Wake::new().unwrap());
        let outbox = Arc::new(Outbox::new(wake.clone()));
        let mut sender = Sender(outbox.clone());
        sender.write_all(b"abc").unwrap();
        assert!(wake.clear());
        sender.write_all(b"de").unwrap();
        assert!(!wake.clear(), "the main thread was already notified");
        let mut seen = Vec::new();
        outbox.take(|bytes| {
            seen.extend_from_slice(&bytes[..4]);
            4
        });
        outbox.take(|bytes| {
            seen.extend_from_slice(bytes);
            bytes.len()
        });
        assert_eq!((seen.as_slice(), outbox.is_empty()), (&b"abcde"[..], true));
    }

    #[test]
    fn a_full_one_loses_and_counts() {
        let outbox = Arc::new(Outbox::new(Arc::new(Wake::new().unwrap())));
        let mut sender = Sender(outbox.clone());
        sender.write_all(&vec![1; QUEUED_MAX_BYTES]).unwrap();
        sender.write_all(b"xyz").unwrap();
        assert_eq!(outbox.lost_bytes(), 3);
        outbox.discard();
        assert!(outbox.is_empty());
    }
}
