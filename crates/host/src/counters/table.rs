// SPDX-License-Identifier: GPL-2.0-only
//! The vCPUs whose counters are served.
//!
//! Two kinds of threads work on a vCPU: the worker of the CPU on which the vCPU runs, which is a
//! real-time thread, and the main thread. Neither waits for a lock of this table that the other
//! holds. A worker that waited for the main thread would wait for every task that suspends the main
//! thread, and all other VMs on the worker's CPU would wait, too. The main thread would wait for a
//! worker whose access to a region hangs.
//!
//! Each thread therefore notes first what is due, and then tries to get the vCPU. The thread that
//! has the vCPU does what the others have noted. After it has given the vCPU back, it checks once
//! more what is due, so that nothing stays undone.

use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use paracord_devices::pmu::{Error, Stats};
use paracord_policy::PC_VCPUS_MAX;
use paracord_sys::clock::now_ns;

use super::served::Served;

/// The main thread has stored a change in `Entry::change`.
const CHANGE: u32 = 1 << 0;
/// The guest has made a request, or its counters have overflowed.
const REQUEST: u32 = 1 << 1;
/// Events that were not requested lately are to be closed.
const SLICE: u32 = 1 << 2;

/// The state of a vCPU's counters.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Totals of the events.
    pub stats: Stats,
    /// The reason of the most recent refusal to serve a counter.
    pub refusal: Option<Error>,
}

#[derive(Default)]
struct Entry {
    /// What is due (`CHANGE`, `REQUEST`, `SLICE`). A thread sets a bit before it tries to lock
    /// `served`.
    due: AtomicU32,
    /// `Some`: the value with which the main thread wants to replace `served`. The lock is held
    /// only for a few instructions.
    change: Mutex<Option<Option<Box<Served>>>>,
    /// No thread waits for this lock.
    served: Mutex<Option<Box<Served>>>,
    /// The totals at the time when the main thread last held `served`. Only the main thread takes
    /// this lock.
    totals: Mutex<Option<Totals>>,
}

/// The served vCPUs, by index.
pub struct Table {
    entries: Vec<Entry>,
    /// Number of batches that could not be read or answered, because the VMM's user has changed the
    /// file of the region.
    lost: AtomicU32,
}

impl Table {
    /// Creates a table in which no vCPU is served.
    pub fn new() -> Table {
        Table {
            entries: (0..PC_VCPUS_MAX).map(|_| Entry::default()).collect(),
            lost: AtomicU32::new(0),
        }
    }

    /// Number of batches that were lost since the last call.
    pub fn take_lost(&self) -> u32 {
        self.lost.swap(0, Ordering::Relaxed)
    }

    /// Serves vCPU `index`: its guest has made a request, or its counters have overflowed. The
    /// calling thread has worked for this vCPU since `start_ns`. If the budget of the VM is used
    /// up, `ignore` gets the time until which requests of the vCPU are to be ignored.
    pub fn serve(&self, index: u32, start_ns: u64, ignore: impl Fn(u64)) {
        self.run(index, REQUEST, start_ns, ignore);
    }

    /// Serves vCPU `index` with `served` from now on; `None` ends the service. Only for the main
    /// thread.
    pub fn replace(&self, index: u32, served: Option<Box<Served>>, ignore: impl Fn(u64)) {
        let Some(entry) = self.entries.get(index as usize) else { return };
        let before = lock(&entry.change).replace(served);
        // If no thread has taken the previous change yet, this drop closes the events of that
        // change. No lock is held here.
        drop(before);
        *lock(&entry.totals) = None;
        self.run(index, CHANGE, now_ns(), ignore);
    }

    /// Closes events of vCPU `index` that were not requested lately.
    pub fn end_slice(&self, index: u32, ignore: impl Fn(u64)) {
        self.run(index, SLICE, now_ns(), ignore);
    }

    /// The totals of vCPU `index`. `None` if the vCPU is not served. If another thread works for
    /// the vCPU at the moment, returns the totals of the last call.
    pub fn totals(&self, index: u32, ignore: impl Fn(u64)) -> Option<Totals> {
        let entry = self.entries.get(index as usize)?;
        let mut totals = lock(&entry.totals);
        if let Some(served) = try_lock(&entry.served) {
            let of = |served: &Served| Totals {
                stats: served.area.stats(),
                refusal: served.area.last_refusal(),
            };
            *totals = served.as_deref().map(of);
        }
        let now = *totals;
        drop(totals);
        // Another thread may have noted something while this thread had the vCPU: do it now.
        self.run(index, 0, now_ns(), ignore);
        now
    }

    fn run(&self, index: u32, due: u32, start_ns: u64, ignore: impl Fn(u64)) {
        let Some(entry) = self.entries.get(index as usize) else { return };
        // Pairs with the swap below: the thread that finds CHANGE also finds the change.
        entry.due.fetch_or(due, Ordering::Release);
        let mut start_ns = start_ns;
        loop {
            // Pairs with the same fence of the other thread: either this thread finds what the
            // other one has noted, or the other one finds that this thread has given the vCPU back.
            fence(Ordering::SeqCst);
            if entry.due.load(Ordering::Relaxed) == 0 {
                return;
            }
            let Some(mut served) = try_lock(&entry.served) else { return };
            let due = entry.due.swap(0, Ordering::Acquire);
            self.work(entry, &mut served, due, start_ns, &ignore);
            drop(served);
            start_ns = now_ns();
        }
    }

    fn work(
        &self,
        entry: &Entry,
        served: &mut Option<Box<Served>>,
        due: u32,
        start_ns: u64,
        ignore: &impl Fn(u64),
    ) {
        if due & CHANGE != 0 {
            // If the main thread holds the lock, it is storing another change, and sets CHANGE
            // again afterwards.
            let change = try_lock(&entry.change).and_then(|mut change| change.take());
            if let Some(change) = change {
                *served = change;
                let begun = served.as_mut().map(|served| served.resume());
                self.note(begun.is_some_and(|begun| begun.is_err()));
            }
        }
        let Some(served) = served else { return };
        if due & REQUEST != 0 {
            let (done, until_ns) = served.serve(start_ns);
            self.note(done.is_err());
            if let Some(until_ns) = until_ns {
                ignore(until_ns);
            }
        }
        if due & SLICE != 0 {
            served.area.end_slice();
        }
    }

    fn note(&self, is_lost: bool) {
        self.lost.fetch_add(is_lost.into(), Ordering::Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(guard)) => Some(guard.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
