// SPDX-License-Identifier: GPL-2.0-only
//! A queue of changes to host lines, from the main thread to the real-time thread that writes the
//! lines.
//!
//! The real-time thread never waits for the lock of the queue, because an ordinary task may preempt
//! the main thread while the main thread holds the lock. Instead, the main thread wakes the
//! real-time thread after each change, and the real-time thread then tries again.

use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use crate::regions::place_line::Line;

/// A change to the line of a vCPU.
#[derive(Debug)]
pub struct LineChange {
    /// Index of the vCPU.
    pub index: u32,
    /// The new line. `None`: the vCPU no longer has a line.
    pub line: Option<Arc<Line>>,
}

/// Changes in the order in which they were made.
#[derive(Debug, Default)]
pub struct LineChanges(Mutex<Vec<LineChange>>);

impl LineChanges {
    /// Adds a change. The caller must wake the real-time thread afterwards.
    pub fn add(&self, index: u32, line: Option<Arc<Line>>) {
        let mut changes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        changes.push(LineChange { index, line });
    }

    /// Takes all changes. Returns no changes if the main thread is adding a change at that moment.
    pub fn take(&self) -> Vec<LineChange> {
        match self.0.try_lock() {
            Ok(mut changes) => std::mem::take(&mut changes),
            Err(TryLockError::Poisoned(changes)) => std::mem::take(&mut changes.into_inner()),
            Err(TryLockError::WouldBlock) => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_real_time_thread_does_not_wait_for_the_main_thread() {
        let changes = LineChanges::default();
        changes.add(7, None);
        // The main thread is preempted while it adds another change.
        let suspended = changes.0.lock().unwrap();
        std::thread::scope(|scope| {
            let (say, hear) = std::sync::mpsc::channel();
            let changes = &changes;
            scope.spawn(move || say.send(changes.take().len()).unwrap());
            assert_eq!(hear.recv_timeout(std::time::Duration::from_secs(10)), Ok(0));
            drop(suspended);
        });
        changes.add(8, None);
        let indices: Vec<u32> = changes.take().iter().map(|change| change.index).collect();
        assert_eq!(indices, [7, 8]);
        assert!(changes.take().is_empty());
    }
}
