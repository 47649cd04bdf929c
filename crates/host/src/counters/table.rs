// SPDX-License-Identifier: GPL-2.0-only
//! The vCPUs whose counters are served, and what is done when one asks.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use paracord_devices::pmu::{Area, Budget};
use paracord_policy::PC_VCPUS_MAX;
use paracord_sys::clock::now_ns;

use crate::ivshmem::Vectors;
use crate::regions::region::Region;

/// What a worker costs besides its work: it is switched in and out.
const TURN: Duration = Duration::from_micros(3);
/// A guest that asks on when its budget is used up would cost the host turns without end.
const DEAF: Duration = Duration::from_millis(10);

/// A vCPU whose counters are served.
pub struct Served {
    /// Where it asks.
    pub region: Arc<Region>,
    /// Its slot.
    pub vcpu_id: u32,
    /// Its counters.
    pub area: Area,
    /// Of its VM.
    pub budget: Arc<Budget>,
    /// Without them nothing can be sampled.
    pub vectors: Option<Arc<Vectors>>,
}

impl Served {
    fn answer(&mut self) -> io::Result<()> {
        let copy = self.region.read_asks(self.vcpu_id)?;
        match self.area.serve(&copy) {
            Some(answer) => self.region.write_answer(self.vcpu_id, &answer),
            None => Ok(()),
        }
    }

    fn tell_overflows(&mut self) -> io::Result<()> {
        let Some(answer) = self.area.overflowed() else { return Ok(()) };
        self.region.write_answer(self.vcpu_id, &answer)?;
        if let Some(vectors) = &self.vectors {
            vectors.raise(self.vcpu_id);
        }
        Ok(())
    }
}

/// By vCPU index. A lock is taken by the worker of the CPU on which the vCPU runs, and seldom by others.
pub struct Table {
    served: Vec<Mutex<Option<Served>>>,
    /// Batches that could not be read or answered: the VMM's user has changed the file.
    lost: AtomicU32,
}

impl Table {
    /// None is served.
    pub fn new() -> Table {
        Table {
            served: (0..PC_VCPUS_MAX).map(|_| Mutex::new(None)).collect(),
            lost: AtomicU32::new(0),
        }
    }

    /// Batches that were lost since this was asked last.
    pub fn take_lost(&self) -> u32 {
        self.lost.swap(0, Ordering::Relaxed)
    }

    /// One more is lost.
    pub fn note_lost(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    /// The vCPU of an index; `None` beyond the last.
    pub fn entry(&self, index: u32) -> Option<MutexGuard<'_, Option<Served>>> {
        let entry = self.served.get(index as usize)?;
        Some(entry.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The guest on vCPU `index` has asked, or its counters have overflowed; the worker works for it since `start_ns`.
    /// Return: it is not heard before then.
    pub fn serve(&self, index: u32, start_ns: u64) -> Option<u64> {
        let mut entry = self.entry(index)?;
        let served = entry.as_mut()?;
        let before = served.area.spent();
        if served.answer().and_then(|()| served.tell_overflows()).is_err() {
            self.note_lost();
        }
        served.area.end_slice();
        // The rest, which is not the pool's.
        let end_ns = now_ns();
        let all = TURN + Duration::from_nanos(end_ns.saturating_sub(start_ns));
        served.budget.charge(all.saturating_sub(served.area.spent() - before));
        let deaf_ns = u64::try_from(DEAF.as_nanos()).unwrap_or(u64::MAX);
        served.budget.is_over().then(|| end_ns.saturating_add(deaf_ns))
    }
}
