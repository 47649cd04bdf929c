// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Counters for a guest without a PMU. The guest's module writes a request into its vCPU's slot of
//! the region, and then writes the doorbell register. This write causes a VM exit, so the vCPU's
//! own thread serves the request.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use paracord_abi::layout::PARACORD_DOORBELL_OFFSET;
use paracord_abi::{
    PMU_GUEST_BYTES, PMU_GUEST_OFFSET, PMU_HOST_BYTES, PMU_HOST_OFFSET, PMU_SERVED_OFFSET,
    RegionLayout,
};
use paracord_devices::pmu::{Area, Budget, Mode, Offer, Pool, Quota, Settings, Stats};
use vm_memory::{MmapRegion, VolatileMemory};

use crate::args::PmuWord;
use crate::interrupts::Interrupts;

/// Whether a write to a register is a write to the doorbell.
pub fn rings(offset: u64, data: &[u8]) -> bool {
    offset == u64::from(PARACORD_DOORBELL_OFFSET) && data.len() == size_of::<u32>()
}

/// What the counters of all vCPUs share.
pub struct Pmu {
    offer: Arc<Offer>,
    budget: Arc<Budget>,
    settings: Settings,
    region: (RegionLayout, Arc<MmapRegion<()>>),
    /// `None`: the guest is not told about overflows.
    interrupts: Option<Arc<Interrupts>>,
    /// Statistics by vCPU. The thread of the vCPU stores them, and any thread may read them.
    stats: Box<[Mutex<Stats>]>,
}

impl Pmu {
    /// Makes counters for the events on `offer`, in a mapped region.
    pub fn new(
        offer: Offer,
        (word, quota): (PmuWord, Quota),
        layout: RegionLayout,
        memory: Arc<MmapRegion<()>>,
        interrupts: Option<Arc<Interrupts>>,
    ) -> Pmu {
        let mode = match word {
            PmuWord::Keyed => Mode::Keyed,
            PmuWord::Last => Mode::Last,
            PmuWord::Recreate => Mode::Recreate,
        };
        Pmu {
            offer: Arc::new(offer),
            budget: Arc::new(Budget::new(quota)),
            settings: Settings { mode, ..Settings::default() },
            region: (layout, memory),
            interrupts,
            stats: (0..layout.slot_count).map(|_| Mutex::default()).collect(),
        }
    }

    /// The counters of a vCPU. Call this in the thread of the vCPU.
    pub fn vcpu(self: &Arc<Pmu>, index: u32) -> Option<VcpuPmu> {
        let slot = usize::try_from(self.region.0.slot_offset(index)?).ok()?;
        let pool = Pool::new(self.offer.clone(), self.budget.clone(), self.settings);
        Some(VcpuPmu { pmu: self.clone(), index, slot, area: Area::new(pool) })
    }

    /// Statistics of all vCPUs so far.
    pub fn stats(&self) -> Stats {
        let all = self.stats.iter().map(|one| *one.lock().unwrap_or_else(PoisonError::into_inner));
        all.fold(Stats::default(), |sum, one| Stats {
            openings: sum.openings + one.openings,
            cold_openings: sum.cold_openings + one.cold_openings,
            closings: sum.closings + one.closings,
            reuses: sum.reuses + one.reuses,
            refusals: sum.refusals + one.refusals,
        })
    }

    /// Time spent in system calls for all vCPUs so far.
    pub fn spent(&self) -> Duration {
        self.budget.spent()
    }
}

/// The counters of one vCPU.
pub struct VcpuPmu {
    pmu: Arc<Pmu>,
    index: u32,
    slot: usize,
    area: Area,
}

impl VcpuPmu {
    /// Serves a request after the guest wrote the doorbell.
    pub fn serve(&mut self) {
        let memory = &self.pmu.region.1;
        let mut copy = [0; PMU_GUEST_BYTES];
        // The layout was checked against the mapping, so neither access fails.
        if let Ok(guest) = memory.get_slice(self.slot + PMU_GUEST_OFFSET, copy.len()) {
            guest.copy_to(&mut copy);
        }
        if let Some(answer) = self.area.serve(&copy) {
            self.store(&answer);
            self.publish();
        }
    }

    /// Handles overflows. Call this after a signal has ended KVM_RUN, because counters may have
    /// overflowed.
    pub fn interrupted(&mut self) {
        let Some(answer) = self.area.overflowed() else { return };
        self.store(&answer);
        if let Some(interrupts) = &self.pmu.interrupts {
            interrupts.raise(self.index);
        }
    }

    fn store(&self, answer: &[u8; PMU_HOST_BYTES]) {
        let memory = &self.pmu.region.1;
        let at = self.slot + PMU_HOST_OFFSET;
        let after = PMU_SERVED_OFFSET + size_of::<u32>();
        if let Ok(host) = memory.get_slice(at + after, answer.len() - after) {
            host.copy_from(&answer[after..]);
        }
        let served = &answer[PMU_SERVED_OFFSET..];
        if let (Ok(word), Some(served)) =
            (memory.get_atomic_ref::<AtomicU32>(at + PMU_SERVED_OFFSET), served.first_chunk())
        {
            word.store(u32::from_le_bytes(*served), Ordering::Release);
        }
    }

    /// Call this after each VM exit, whatever its reason.
    pub fn came_out(&mut self) {
        self.area.end_slice();
    }

    fn publish(&self) {
        if let Some(stats) = self.pmu.stats.get(self.index as usize) {
            *stats.lock().unwrap_or_else(PoisonError::into_inner) = self.area.stats();
        }
    }
}

#[cfg(test)]
mod tests {
    use paracord_devices::pmu::EventSet;

    use super::*;

    #[test]
    fn only_a_whole_write_to_the_doorbell_rings() {
        assert!(rings(12, &[0; 4]));
        for (offset, bytes) in [(12, 1), (12, 8), (8, 4), (13, 4), (16, 4)] {
            assert!(!rings(offset, &vec![0; bytes]));
        }
    }

    #[test]
    fn a_vcpus_thread_answers_in_its_slot() {
        let layout = {
            let bytes = paracord_abi::new_region(2, 0, 0, &[]).unwrap();
            RegionLayout::check(&bytes, paracord_abi::region_bytes(2)).unwrap()
        };
        let how = (PmuWord::Keyed, Quota::default());
        let bytes = paracord_abi::region_bytes(2) as usize;
        let memory = Arc::new(MmapRegion::<()>::new(bytes).unwrap());
        let pmu =
            Arc::new(Pmu::new(Offer::probe(EventSet::ALL), how, layout, memory.clone(), None));
        assert!(pmu.vcpu(2).is_none());
        let slot = layout.slot_offset(1).unwrap() as usize;
        let word = |at: usize| memory.get_atomic_ref::<AtomicU32>(slot + at).unwrap();
        let mut vcpu = pmu.vcpu(1).unwrap();
        vcpu.serve();
        assert_eq!(word(PMU_HOST_OFFSET).load(Ordering::Relaxed), 0, "there is no batch yet");
        word(PMU_GUEST_OFFSET).store(7, Ordering::Relaxed);
        // Counter 0 counts event 0 in user and kernel mode. Then the guest reads the counter.
        word(PMU_GUEST_OFFSET + 64 + 8).store(1 | 3 << 16, Ordering::Relaxed);
        vcpu.serve();
        assert_eq!(word(PMU_HOST_OFFSET).load(Ordering::Relaxed), 7);
        word(PMU_GUEST_OFFSET).store(8, Ordering::Relaxed);
        word(PMU_GUEST_OFFSET + 4).store(1, Ordering::Relaxed);
        vcpu.serve();
        assert_ne!(word(PMU_HOST_OFFSET + 64 + 8).load(Ordering::Relaxed), 0, "time enabled");
        vcpu.came_out();
        assert_eq!((pmu.stats().openings, pmu.stats().reuses), (1, 1));
    }
}
