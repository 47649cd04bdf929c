// SPDX-License-Identifier: GPL-2.0-only
//! The vCPUs whose counters are served, and the handling of their requests.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use paracord_devices::pmu::{Area, Budget};
use paracord_policy::PC_VCPUS_MAX;
use paracord_sys::clock::now_ns;

use crate::ivshmem::Vectors;
use crate::regions::region::Region;

/// Cost of a worker besides its work: it is switched in and out.
const TURN: Duration = Duration::from_micros(3);
/// How long a guest whose budget is used up is ignored. A guest that goes on making requests would
/// otherwise cost the host turns without end.
const DEAF: Duration = Duration::from_millis(10);

/// A vCPU whose counters are served.
pub struct Served {
    /// The region with its requests.
    pub region: Arc<Region>,
    /// Its slot in the region.
    pub vcpu_id: u32,
    /// Its counters.
    pub area: Area,
    /// The budget of its VM.
    pub budget: Arc<Budget>,
    /// The interrupts of its VM. Without them nothing can be sampled.
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

/// The served vCPUs, by index. The worker of the CPU on which a vCPU runs takes the lock of the
/// vCPU; other threads take it seldom.
pub struct Table {
    served: Vec<Mutex<Option<Served>>>,
    /// Number of batches that could not be read or answered, because the VMM's user has changed the
    /// file.
    lost: AtomicU32,
}

impl Table {
    /// Creates a table in which no vCPU is served.
    pub fn new() -> Table {
        Table {
            served: (0..PC_VCPUS_MAX).map(|_| Mutex::new(None)).collect(),
            lost: AtomicU32::new(0),
        }
    }

    /// Number of batches that were lost since the last call.
    pub fn take_lost(&self) -> u32 {
        self.lost.swap(0, Ordering::Relaxed)
    }

    /// Counts one more lost batch.
    pub fn note_lost(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    /// The entry of vCPU `index`. `None` beyond the last index.
    pub fn entry(&self, index: u32) -> Option<MutexGuard<'_, Option<Served>>> {
        let entry = self.served.get(index as usize)?;
        Some(entry.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Serves vCPU `index`: its guest has made a request, or its counters have overflowed. The
    /// worker has worked for this vCPU since `start_ns`. Returns the time until which requests of
    /// the vCPU are ignored, if the budget of the VM is used up.
    pub fn serve(&self, index: u32, start_ns: u64) -> Option<u64> {
        let mut entry = self.entry(index)?;
        let served = entry.as_mut()?;
        let before = served.area.spent();
        if served.answer().and_then(|()| served.tell_overflows()).is_err() {
            self.note_lost();
        }
        served.area.end_slice();
        // Charge the time that the pool has not charged itself.
        let end_ns = now_ns();
        let all = TURN + Duration::from_nanos(end_ns.saturating_sub(start_ns));
        served.budget.charge(all.saturating_sub(served.area.spent() - before));
        let deaf_ns = u64::try_from(DEAF.as_nanos()).unwrap_or(u64::MAX);
        served.budget.is_over().then(|| end_ns.saturating_add(deaf_ns))
    }
}
