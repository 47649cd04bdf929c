// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! What a guest has sent through a serial port and nobody has taken yet.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::wake::Wake;

/// A guest that sends faster than its output is taken loses what is beyond, as on a line without flow
/// control. Otherwise it could make its vCPU wait for the reader, or take all memory.
const QUEUED_MAX_BYTES: usize = 1 << 20;

/// Written by vCPU threads, emptied by the main thread.
pub struct Outbox {
    queue: Mutex<VecDeque<u8>>,
    lost_bytes: AtomicU64,
    wake: Arc<Wake>,
}

impl Outbox {
    /// Empty. `wake` is notified when it is not any more.
    pub fn new(wake: Arc<Wake>) -> Outbox {
        let queue = Mutex::new(VecDeque::with_capacity(QUEUED_MAX_BYTES));
        Outbox { queue, lost_bytes: AtomicU64::new(0), wake }
    }

    /// Hands what is there to `take`, which returns how many bytes it took; returns that.
    pub fn take(&self, take: impl FnOnce(&[u8]) -> usize) -> usize {
        // Copied, so that a vCPU never waits for the system call.
        let copy: Vec<u8> = self.locked().iter().copied().take(CHUNK_BYTES).collect();
        if copy.is_empty() {
            return 0;
        }
        let taken = take(&copy).min(copy.len());
        self.locked().drain(..taken);
        taken
    }

    /// Forgets what is there.
    pub fn discard(&self) {
        self.locked().clear();
    }

    /// Whether nothing is there.
    pub fn is_empty(&self) -> bool {
        self.locked().is_empty()
    }

    /// Bytes that found it full.
    pub fn lost_bytes(&self) -> u64 {
        self.lost_bytes.load(Ordering::Relaxed)
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, VecDeque<u8>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A pipe that poll(2) calls writable takes this much without blocking (PIPE_BUF).
const CHUNK_BYTES: usize = 4096;

/// The end that a serial port writes to.
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
        assert!(!wake.clear(), "the main thread knows already");
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
