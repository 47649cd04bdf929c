// SPDX-License-Identifier: GPL-2.0-only
//! Requests for counters from guests without a device, and the answers (bpf/pmu_mail.h).

use std::{
    mem::offset_of,
    sync::atomic::{AtomicU32, Ordering, fence},
};

use paracord_policy::{PC_PMU_ANSWER_BYTES, PC_PMU_ASK_BYTES, pc_pmu_mail};

use crate::Array;

/// Size of the guest's requests.
pub const PMU_ASK_BYTES: usize = PC_PMU_ASK_BYTES as usize;
/// Size of an answer.
pub const PMU_ANSWER_BYTES: usize = PC_PMU_ANSWER_BYTES as usize;

/// The number at the start of a batch or of an answer.
fn number_of(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |number| u32::from_le_bytes(*number))
}

impl Array<pc_pmu_mail> {
    /// A field of a vCPU's record. `offset` is the offset of a field of type `T`, in bytes.
    fn field<T>(&self, index: u32, offset: usize) -> Option<*mut T> {
        Some(self.at(index)?.as_ptr().wrapping_byte_add(offset).cast())
    }

    /// A number in a vCPU's record. `offset` is the offset of a `u32` field, in bytes.
    fn number(&self, index: u32, offset: usize) -> Option<&AtomicU32> {
        let number = self.field(index, offset)?;
        // SAFETY: the field is an aligned integer, which lives as long as the array.
        Some(unsafe { AtomicU32::from_ptr(number) })
    }

    /// Forgets all requests and answers of a vCPU. If a request is lost in this way, the guest
    /// repeats it.
    pub fn clear(&self, index: u32) {
        for offset in [
            offset_of!(pc_pmu_mail, asked),
            offset_of!(pc_pmu_mail, answered),
            offset_of!(pc_pmu_mail, written),
        ] {
            if let Some(number) = self.number(index, offset) {
                number.store(0, Ordering::SeqCst);
            }
        }
    }

    /// The last batch of requests of a vCPU. `None`: there is no batch, or the sensor is replacing
    /// the batch at this moment. When the sensor has replaced the batch, the sensor rings the bell
    /// again.
    #[must_use]
    pub fn batch(&self, index: u32) -> Option<[u8; PMU_ASK_BYTES]> {
        let asked = self.number(index, offset_of!(pc_pmu_mail, asked))?;
        let bytes = self.field::<[u8; PMU_ASK_BYTES]>(index, offset_of!(pc_pmu_mail, ask))?;
        let before = asked.load(Ordering::Acquire);
        // SAFETY: the field lies inside the mapped record and is an array of integers.
        let copy = unsafe { bytes.read_volatile() };
        fence(Ordering::Acquire);
        let is_whole = before != 0 && asked.load(Ordering::Relaxed) == before;
        (is_whole && number_of(&copy) == before).then_some(copy)
    }

    /// Stores an answer. The sensor writes it into the guest's memory at the next kick of the vCPU.
    /// No two threads may call this function for the same vCPU at the same time.
    pub fn answer(&self, index: u32, answer: &[u8; PMU_ANSWER_BYTES]) {
        let answered = self.number(index, offset_of!(pc_pmu_mail, answered));
        let bytes = self.field::<[u8; PMU_ANSWER_BYTES]>(index, offset_of!(pc_pmu_mail, answer));
        let (Some(answered), Some(bytes)) = (answered, bytes) else { return };
        answered.store(0, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        // SAFETY: the field lies inside the mapped record. BPF programs only read it.
        unsafe { bytes.write_volatile(*answer) };
        answered.store(number_of(answer), Ordering::Release);
    }
}
