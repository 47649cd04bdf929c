// SPDX-License-Identifier: GPL-2.0-only
//! A vCPU whose counters are served, and the handling of its requests.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use paracord_devices::pmu::{Area, Budget};
use paracord_sys::clock::now_ns;

use crate::ivshmem::Vectors;
use crate::regions::region::Region;

/// Cost of a worker's turn besides its work: the worker is switched in and out.
const TURN: Duration = Duration::from_micros(3);
/// How long requests of a vCPU are ignored after the budget of its VM is used up. If the requests
/// were not ignored, a guest that continues to make requests would cost the host turns without end.
const DEAF: Duration = Duration::from_millis(10);

/// A vCPU whose counters are served.
pub struct Served {
    /// The region that contains the requests of the vCPU.
    pub region: Arc<Region>,
    /// The slot of the vCPU in the region.
    pub vcpu_id: u32,
    /// The counters of the vCPU.
    pub area: Area,
    /// The budget of the VM.
    pub budget: Arc<Budget>,
    /// The interrupts of the VM. If there are none, nothing can be sampled.
    pub vectors: Option<Arc<Vectors>>,
}

impl Served {
    /// Continues from the last answer in the region, which an earlier daemon may have written.
    pub fn resume(&mut self) -> io::Result<()> {
        let answer = self.region.read_answer(self.vcpu_id)?;
        let asks = self.region.read_asks(self.vcpu_id)?;
        let lines = self.area.resume(&answer, &asks);
        self.region.write_answer(self.vcpu_id, &lines)
    }

    /// Answers a request, and reports overflows. The calling thread has worked for this vCPU since
    /// `start_ns`. If the budget of the VM is used up, also returns the time until which requests
    /// of the vCPU are to be ignored.
    pub fn serve(&mut self, start_ns: u64) -> (io::Result<()>, Option<u64>) {
        let before = self.area.spent();
        let done = self.answer().and_then(|()| self.tell_overflows());
        self.area.end_slice();
        // Charge the time that the pool has not charged itself.
        let end_ns = now_ns();
        let all = TURN + Duration::from_nanos(end_ns.saturating_sub(start_ns));
        self.budget.charge(all.saturating_sub(self.area.spent() - before));
        let deaf_ns = u64::try_from(DEAF.as_nanos()).unwrap_or(u64::MAX);
        (done, self.budget.is_over().then(|| end_ns.saturating_add(deaf_ns)))
    }

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
