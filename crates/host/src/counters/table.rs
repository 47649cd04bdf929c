// SPDX-License-Identifier: GPL-2.0-only
//! The vCPUs whose counters are served.
//!
//! Two kinds of threads work on a vCPU: the worker of the CPU on which the vCPU runs, which is a
//! real-time thread, and the main thread. Neither thread waits for a lock of this table while the
//! other thread holds the lock. If a worker waited for the main thread, it would also wait for
//! every task that preempts the main thread, and so would all other VMs on the worker's CPU. If the
//! main thread waited for a worker, it would hang as long as the worker's access to a region hangs.
//!
//! Each thread therefore first notes what work is due, and then tries to lock the vCPU. The thread
//! that gets the lock does the work that the others have noted. After it has released the lock, it
//! checks once more what is due, so that no work is left undone.

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
/// Events that were not requested lately must be closed.
const SLICE: u32 = 1 << 2;

/// The state of a vCPU's counters.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Totals of the events.
    pub stats: Stats,
    /// The reason for the most recent refusal to serve a counter.
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
    /// No thread waits for this lock: threads only try to take it.
    served: Mutex<Option<Box<Served>>>,
    /// The totals at the time when the main thread last held `served`. Only the main thread takes
    /// this lock.
    totals: Mutex<Option<Totals>>,
}

/// The served vCPUs, by index.
pub struct Table {
    entries: Vec<Entry>,
    /// Number of batches of requests that could not be read or answered, because the VMM's user has
    /// changed the file of the region.
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

    /// Serves vCPU `index`, whose guest has made a request or whose counters have overflowed. The
    /// calling thread has worked for this vCPU since `start_ns`. If the budget of the VM is used
    /// up, passes to `ignore` the time until which requests of the vCPU must be ignored.
    pub fn serve(&self, index: u32, start_ns: u64, ignore: impl Fn(u64)) {
        self.run(index, REQUEST, start_ns, ignore);
    }

    /// Serves vCPU `index` with `served` from now on; `None` ends the service. Only the main thread
    /// may call this function.
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

    /// The totals of vCPU `index`. `None` if the vCPU is not served. If another thread is working
    /// for the vCPU at the moment, returns the totals of the last call.
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
        // Another thread may have noted work while this thread held the vCPU: do that work now.
        self.run(index, 0, now_ns(), ignore);
        now
    }

    fn run(&self, index: u32, due: u32, start_ns: u64, ignore: impl Fn(u64)) {
        let Some(entry) = self.entries.get(index as usize) else { return };
        // Pairs with the swap below: a thread that sees the bit CHANGE also sees the stored change.
        entry.due.fetch_or(due, Ordering::Release);
        let mut start_ns = start_ns;
        loop {
            // Pairs with the same fence in the other thread. Either this thread sees the work that
            // the other one has noted, or the other one sees that this thread has released the
            // vCPU.
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
