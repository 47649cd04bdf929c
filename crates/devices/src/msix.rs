// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Message signalled interrupts of a PCI function (PCI Local Bus 3.0, 6.8.2): the table and the
//! pending bits, which have their own BAR.
//!
//! | offset | what |
//! |---|---|
//! | 16 × vector | address, 64 bits; data; bit 0 of the last word masks the vector |
//! | middle of the BAR | one pending bit per vector |

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of vectors of a function.
pub const VECTORS_MAX: u16 = 2048;
const ENTRY_BYTES: u64 = 16;
/// Half of the smallest BAR.
const TABLE_BYTES_MIN: u64 = 2048;

/// An interrupt: a write to the guest's interrupt controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Address of the write.
    pub address: u64,
    /// Value of the write.
    pub data: u32,
}

/// The settings that a guest has made in a function's MSI-X capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MsixControl {
    /// The function uses MSI-X.
    pub enabled: bool,
    /// All vectors are masked.
    pub masked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Vector {
    message: Message,
    masked: bool,
    pending: bool,
}

/// The vectors. Each one has its own lock, so vCPUs that raise different vectors do not contend.
#[derive(Debug)]
pub struct Msix {
    vectors: Box<[Mutex<Vector>]>,
    control: AtomicU8,
}

const ENABLED: u8 = 1 << 0;
const MASKED: u8 = 1 << 1;

impl Msix {
    /// Makes this number of vectors, all masked. The number is clamped to 1..=[`VECTORS_MAX`].
    pub fn new(vectors: u16) -> Msix {
        let reset =
            Vector { message: Message { address: 0, data: 0 }, masked: true, pending: false };
        let vectors =
            (0..vectors.clamp(1, VECTORS_MAX)).map(|_| Mutex::new(reset)).collect::<Box<[_]>>();
        Msix { vectors, control: AtomicU8::new(0) }
    }

    /// Number of vectors.
    pub fn vectors(&self) -> u16 {
        self.vectors.len() as u16
    }

    /// Offset of the pending bits: the middle of the BAR.
    pub fn pending_offset(&self) -> u64 {
        (self.vectors.len() as u64 * ENTRY_BYTES).next_power_of_two().max(TABLE_BYTES_MIN)
    }

    /// Size of the BAR.
    pub fn bar_bytes(&self) -> u64 {
        2 * self.pending_offset()
    }

    /// Raises the interrupt of a vector. Returns the message to send now. `None`: the vector is
    /// masked (the message is sent when the guest unmasks it), there is no such vector, or the
    /// guest has not enabled MSI-X.
    pub fn raise(&self, vector: u32) -> Option<Message> {
        let mut vector = lock(self.vectors.get(usize::try_from(vector).ok()?)?);
        vector.pending = self.has(ENABLED);
        self.take(&mut vector)
    }

    /// Applies a change that the guest made in the configuration space. `send` gets the pending
    /// messages that can now be sent.
    pub fn set_control(&self, control: MsixControl, send: impl FnMut(Message)) {
        let bits =
            if control.enabled { ENABLED } else { 0 } | if control.masked { MASKED } else { 0 };
        self.control.store(bits, Ordering::Relaxed);
        self.vectors.iter().filter_map(|vector| self.take(&mut lock(vector))).for_each(send);
    }

    /// Handles a read from the BAR. Aligned words of 4 or 8 bytes are answered; other reads return
    /// 0.
    pub fn read(&self, offset: u64, data: &mut [u8]) {
        data.fill(0);
        if !is_word(offset, data) {
            return;
        }
        for (at, word) in [offset, offset | 4].into_iter().zip(data.chunks_exact_mut(4)) {
            word.copy_from_slice(&self.word(at).to_le_bytes());
        }
    }

    /// Handles a write to the BAR. Only aligned words of 4 or 8 bytes have an effect. Returns the
    /// message to send if the write unmasks a pending vector.
    pub fn write(&self, offset: u64, data: &[u8]) -> Option<Message> {
        if !is_word(offset, data) {
            return None;
        }
        let index = usize::try_from(offset / ENTRY_BYTES).ok()?;
        let mut vector = lock(self.vectors.get(index)?);
        for (at, word) in [offset, offset | 4].into_iter().zip(data.chunks_exact(4)) {
            let value = u32::from_le_bytes(*word.first_chunk()?);
            let address = &mut vector.message.address;
            match at % ENTRY_BYTES {
                0 => *address = *address & !0xffff_ffff | u64::from(value),
                4 => *address = *address & 0xffff_ffff | u64::from(value) << 32,
                8 => vector.message.data = value,
                _ => vector.masked = value & 1 != 0,
            }
        }
        self.take(&mut vector)
    }

    fn word(&self, offset: u64) -> u32 {
        let pending = self.pending_offset();
        if offset >= pending {
            let first = usize::try_from((offset - pending).saturating_mul(8)).unwrap_or(usize::MAX);
            let bits = self.vectors.iter().skip(first).take(32);
            let bits = bits.map(|vector| u32::from(lock(vector).pending));
            return bits.enumerate().fold(0, |word, (bit, set)| word | set << bit);
        }
        let index = usize::try_from(offset / ENTRY_BYTES).unwrap_or(usize::MAX);
        let Some(vector) = self.vectors.get(index) else { return 0 };
        let vector = *lock(vector);
        match offset % ENTRY_BYTES {
            0 => vector.message.address as u32,
            4 => (vector.message.address >> 32) as u32,
            8 => vector.message.data,
            _ => u32::from(vector.masked),
        }
    }

    /// Takes the message of a vector, if the vector is pending and nothing masks it.
    fn take(&self, vector: &mut Vector) -> Option<Message> {
        let ready = vector.pending && !vector.masked && self.has(ENABLED) && !self.has(MASKED);
        vector.pending &= !ready;
        ready.then_some(vector.message)
    }

    fn has(&self, bit: u8) -> bool {
        self.control.load(Ordering::Relaxed) & bit != 0
    }
}

/// Whether the width and the alignment of an access are supported.
fn is_word(offset: u64, data: &[u8]) -> bool {
    matches!(data.len(), 4 | 8) && offset % data.len() as u64 == 0
}

fn lock(vector: &Mutex<Vector>) -> MutexGuard<'_, Vector> {
    vector.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ON: MsixControl = MsixControl { enabled: true, masked: false };

    fn control(msix: &Msix, control: MsixControl) -> Vec<u32> {
        let mut sent = Vec::new();
        msix.set_control(control, |message| sent.push(message.data));
        sent
    }

    /// Vector n sends n + 100 to 0xfee0_0000, and the guest has unmasked all vectors.
    fn ready(vectors: u16) -> Msix {
        let msix = Msix::new(vectors);
        for vector in 0..u64::from(vectors) {
            assert_eq!(msix.write(16 * vector, &0xfee0_0000_u64.to_le_bytes()), None);
            assert_eq!(msix.write(16 * vector + 8, &(vector + 100).to_le_bytes()), None);
        }
        assert!(control(&msix, ON).is_empty());
        msix
    }

    fn pending(msix: &Msix, word: u64) -> u32 {
        let mut data = [0; 4];
        msix.read(msix.pending_offset() + 4 * word, &mut data);
        u32::from_le_bytes(data)
    }

    #[test]
    fn a_vector_sends_what_the_guest_wrote() {
        let msix = ready(3);
        assert_eq!(msix.raise(2), Some(Message { address: 0xfee0_0000, data: 102 }));
        assert_eq!((msix.raise(3), msix.raise(u32::MAX)), (None, None));
        let mut entry = [0; 8];
        msix.read(40, &mut entry);
        assert_eq!(entry, 102_u64.to_le_bytes());
        assert_eq!((msix.vectors(), msix.bar_bytes()), (3, 4096));
        assert_eq!(Msix::new(129).bar_bytes(), 8192);
        assert_eq!(Msix::new(u16::MAX).bar_bytes(), 1 << 16);
    }

    #[test]
    fn a_masked_vector_waits() {
        let msix = ready(40);
        msix.write(16 * 35 + 12, &[1, 0, 0, 0]);
        assert_eq!((msix.raise(35), msix.raise(35)), (None, None));
        assert_eq!((pending(&msix, 0), pending(&msix, 1)), (0, 1 << 3));
        let sent = msix.write(16 * 35 + 12, &[0; 4]).map(|message| message.data);
        assert_eq!((sent, pending(&msix, 1)), (Some(135), 0));
    }

    #[test]
    fn all_wait_while_the_function_is_masked_and_nothing_while_it_is_off() {
        let msix = ready(2);
        assert!(control(&msix, MsixControl { masked: true, ..ON }).is_empty());
        assert_eq!((msix.raise(0), msix.raise(1)), (None, None));
        assert_eq!(control(&msix, ON), [100, 101]);
        assert!(control(&msix, MsixControl { enabled: false, masked: false }).is_empty());
        assert_eq!(msix.raise(0), None);
        assert!(control(&msix, ON).is_empty());
    }

    #[test]
    fn odd_accesses_do_nothing() {
        let msix = ready(1);
        for (offset, bytes) in [(1, 4), (4, 8), (0, 2), (0, 16), (16, 4), (u64::MAX - 3, 4)] {
            assert_eq!(msix.write(offset, &vec![0xff; bytes]), None);
            let mut data = vec![0xff; bytes];
            msix.read(offset, &mut data);
            assert_eq!(data, vec![0; bytes], "{offset:#x}");
        }
        assert_eq!(msix.raise(0), Some(Message { address: 0xfee0_0000, data: 100 }));
    }
}
