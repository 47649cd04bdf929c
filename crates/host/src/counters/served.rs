// SPDX-License-Identifier: GPL-2.0-only
//! A vCPU whose counters are served, and the handling of its requests.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use paracord_devices::pmu::{Area, Budget};
use paracord_sys::clock::now_ns;

use super::requests::Requests;
use crate::ivshmem::Vectors;

/// Cost of a worker's turn beyond the work itself: the kernel switches the worker in and out.
const TURN: Duration = Duration::from_micros(3);
/// How long requests of a vCPU are ignored after the budget of its VM is used up. If the requests
/// were not ignored, a guest that continues to make requests would cost the host an unlimited
/// number of worker turns.
const DEAF: Duration = Duration::from_millis(10);

/// A vCPU whose counters are served.
pub struct Served {
    /// The requests of the vCPU.
    pub requests: Requests,
    /// The counters of the vCPU.
    pub area: Area,
    /// The budget of the VM.
    pub budget: Arc<Budget>,
    /// The interrupts of the VM. `None`: the guest cannot sample.
    pub vectors: Option<Arc<Vectors>>,
    /// ID of the vCPU, which is also the number of its interrupt vector.
    pub vcpu_id: u32,
}

impl Served {
    /// Prepares the service. If the requests are in a region file, continues from the last answer,
    /// which an earlier daemon may have written. If they are in the guest's own memory, forgets the
    /// requests of an earlier service. The guest then learns from the next answer that the counts
    /// start over.
    pub fn resume(&mut self) -> io::Result<()> {
        match &self.requests {
            Requests::File { region, vcpu_id } => {
                let (answer, asks) = (region.read_answer(*vcpu_id)?, region.read_asks(*vcpu_id)?);
                let lines = self.area.resume(&answer, &asks);
                region.write_answer(*vcpu_id, &lines)
            }
            Requests::Memory { sensor, index } => {
                sensor.pmu_mails().clear(*index);
                Ok(())
            }
        }
    }

    /// Answers a request, and reports overflows. The calling thread has worked for this vCPU since
    /// `start_ns`. If the budget of the VM is used up, also returns the time until which requests
    /// of the vCPU must be ignored.
    pub fn serve(&mut self, start_ns: u64) -> (io::Result<()>, Option<u64>) {
        let before = self.area.spent();
        let done = self.answer().and_then(|()| self.tell_overflows());
        self.area.end_slice();
        // Charge the time that the pool has not already charged.
        let end_ns = now_ns();
        let all = TURN + Duration::from_nanos(end_ns.saturating_sub(start_ns));
        self.budget.charge(all.saturating_sub(self.area.spent() - before));
        let deaf_ns = u64::try_from(DEAF.as_nanos()).unwrap_or(u64::MAX);
        (done, self.budget.is_over().then(|| end_ns.saturating_add(deaf_ns)))
    }

    fn answer(&mut self) -> io::Result<()> {
        let Some(copy) = self.requests.read()? else { return Ok(()) };
        self.area.serve(&copy).map_or(Ok(()), |answer| self.requests.answer(&answer))
    }

    fn tell_overflows(&mut self) -> io::Result<()> {
        let Some(answer) = self.area.overflowed() else { return Ok(()) };
        self.requests.answer(&answer)?;
        if let Some(vectors) = &self.vectors {
            vectors.raise(self.vcpu_id);
        }
        Ok(())
    }
}
