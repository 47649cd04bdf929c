// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Configuration space of one conventional PCI function (PCI Local Bus 3.0, chapter 6).
//!
//! It has 256 bytes, and a mask says which of its bits the guest may change. To find the size of a
//! base address register, a guest writes all ones and reads the register back. Address bits worth
//! less than the size cannot be changed, and read as 0. So the value of the lowest address bit that
//! reads as 1 is the size.
//!
//! | offset | register | here |
//! |---|---|---|
//! | 0x00 | vendor, device | fixed |
//! | 0x04 | command | bits 1 (memory space) and 2 (bus master) can be set if the function has a memory BAR |
//! | 0x06 | status | bit 4 is set if the function has capabilities |
//! | 0x08 | revision, class | fixed |
//! | 0x10 | BARs | memory BARs: 64-bit and prefetchable; register BARs: 32-bit; others absent |
//! | 0x2c | subsystem vendor, device | fixed |
//! | 0x34 | capabilities | 0x40 if the function has capabilities |
//! | 0x3c | interrupt line | scratch byte; there is no interrupt pin |
//! | 0x40 | MSI-X | the guest can set the enable and mask bits |

use crate::msix::Msix;

pub use crate::msix::MsixControl;

/// Bytes of a function's configuration space.
pub const CONFIG_BYTES: usize = 256;

const COMMAND: usize = 0x04;
const STATUS: usize = 0x06;
const REVISION: usize = 0x08;
const CLASS: usize = 0x09;
const BARS: usize = 0x10;
const SUBSYSTEM: usize = 0x2c;
const CAPABILITIES: usize = 0x34;
const INTERRUPT_LINE: usize = 0x3c;

/// Offset of the only capability. It consists of ID, next capability, control, table and pending
/// bits.
const MSIX: usize = 0x40;
const MSIX_CONTROL_HIGH: usize = MSIX + 3;

const COMMAND_MEMORY: u8 = 1 << 1;
const COMMAND_MASTER: u8 = 1 << 2;
const STATUS_CAPABILITIES: u8 = 1 << 4;
const MSIX_ID: u8 = 0x11;
/// The enable bit, in the high byte of the control register.
const MSIX_ENABLED: u8 = 1 << 7;
const MSIX_MASKED: u8 = 1 << 6;
/// A memory BAR that is 64 bits wide.
const BAR_64: u32 = 0x4;
const BAR_PREFETCHABLE: u32 = 0x8;
const BAR_FLAGS: u32 = 0xf;
/// Minimum size of a BAR: a page of the guest then never maps more than one BAR.
const BAR_MIN_BYTES: u64 = 4096;

/// How a function identifies itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Vendor and device.
    pub id: (u16, u16),
    /// Class, subclass and programming interface.
    pub class: (u8, u8, u8),
    /// Revision.
    pub revision: u8,
    /// Subsystem's vendor and device.
    pub subsystem: (u16, u16),
}

/// A size that a BAR cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{bytes} bytes cannot be a PCI BAR: the size must be a power of two, 4096 or more")]
pub struct BarSizeError {
    /// The size.
    pub bytes: u64,
}

/// One function's configuration space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigSpace {
    bytes: [u8; CONFIG_BYTES],
    writable: [u8; CONFIG_BYTES],
}

impl ConfigSpace {
    /// Makes a function without BARs.
    pub fn new(identity: &Identity) -> ConfigSpace {
        let mut space = ConfigSpace { bytes: [0; CONFIG_BYTES], writable: [0; CONFIG_BYTES] };
        space.put(0, &identity.id.0.to_le_bytes());
        space.put(2, &identity.id.1.to_le_bytes());
        space.put(REVISION, &[identity.revision]);
        space.put(CLASS, &[identity.class.2, identity.class.1, identity.class.0]);
        space.put(SUBSYSTEM, &identity.subsystem.0.to_le_bytes());
        space.put(SUBSYSTEM + 2, &identity.subsystem.1.to_le_bytes());
        space.writable[INTERRUPT_LINE] = 0xff;
        space
    }

    /// Adds a 64-bit prefetchable memory BAR in registers `index` and `index + 1`; `index` is
    /// 0..=4.
    ///
    /// # Errors
    /// [`BarSizeError`].
    ///
    /// # Panics
    /// If `index` is above 4, because the second register would not exist.
    pub fn with_memory_bar(self, index: usize, bytes: u64) -> Result<ConfigSpace, BarSizeError> {
        assert!(index <= 4, "a 64-bit BAR takes two of six registers");
        self.with_bar(index, bytes, BAR_64 | BAR_PREFETCHABLE)
    }

    /// Adds a 32-bit, non-prefetchable BAR for device registers. `index` is the BAR's register,
    /// 0..=5.
    ///
    /// # Errors
    /// [`BarSizeError`].
    ///
    /// # Panics
    /// If `index` is above 5.
    pub fn with_register_bar(self, index: usize, bytes: u64) -> Result<ConfigSpace, BarSizeError> {
        assert!(index <= 5, "there are six registers");
        if bytes > 1 << 31 {
            return Err(BarSizeError { bytes });
        }
        self.with_bar(index, bytes, 0)
    }

    fn with_bar(
        mut self,
        index: usize,
        bytes: u64,
        flags: u32,
    ) -> Result<ConfigSpace, BarSizeError> {
        if !bytes.is_power_of_two() || bytes < BAR_MIN_BYTES {
            return Err(BarSizeError { bytes });
        }
        let at = BARS + 4 * index;
        self.put(at, &flags.to_le_bytes());
        let address_bits = (!(bytes - 1)).to_le_bytes();
        let width = if flags & BAR_64 != 0 { 8 } else { 4 };
        self.writable[at..at + width].copy_from_slice(&address_bits[..width]);
        self.writable[at] &= !(BAR_FLAGS as u8);
        self.writable[COMMAND] = COMMAND_MEMORY | COMMAND_MASTER;
        Ok(self)
    }

    /// Adds message signalled interrupts, whose table and pending bits are in BAR `bar`.
    pub fn with_msix(mut self, bar: u8, msix: &Msix) -> ConfigSpace {
        self.put(STATUS, &[STATUS_CAPABILITIES]);
        self.put(CAPABILITIES, &[MSIX as u8]);
        self.put(MSIX, &[MSIX_ID, 0]);
        self.put(MSIX + 2, &(msix.vectors() - 1).to_le_bytes());
        let pending = msix.pending_offset() as u32;
        self.put(MSIX + 4, &u32::from(bar).to_le_bytes());
        self.put(MSIX + 8, &(pending | u32::from(bar)).to_le_bytes());
        self.writable[MSIX_CONTROL_HIGH] = MSIX_ENABLED | MSIX_MASKED;
        self
    }

    /// The settings that the guest has made in the MSI-X capability.
    pub fn msix_control(&self) -> MsixControl {
        let set = self.bytes[MSIX_CONTROL_HIGH];
        MsixControl { enabled: set & MSIX_ENABLED != 0, masked: set & MSIX_MASKED != 0 }
    }

    /// Handles a read of registers. An access that is not 1, 2 or 4 bytes wide, not aligned, or
    /// outside the space reads all ones, as if no function answered.
    pub fn read(&self, offset: u64, data: &mut [u8]) {
        match register(offset, data.len()) {
            Some(at) => data.copy_from_slice(&self.bytes[at..at + data.len()]),
            None => data.fill(0xff),
        }
    }

    /// Handles a write of registers. Bits that the guest may not change keep their value. Accesses
    /// that [`read`](Self::read) would answer with all ones do nothing.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        let Some(at) = register(offset, data.len()) else { return };
        for (index, new) in (at..).zip(data) {
            let writable = self.writable[index];
            self.bytes[index] = (self.bytes[index] & !writable) | (new & writable);
        }
    }

    /// Address of the 64-bit BAR in register `index`, 0..=4; `None` while memory space is disabled.
    pub fn memory_bar(&self, index: usize) -> Option<u64> {
        let at = BARS + 4 * index;
        let raw = self.bytes.get(at..at + 8)?.try_into().ok()?;
        self.address(u64::from_le_bytes(raw))
    }

    /// Address of the 32-bit BAR in register `index`, 0..=5; `None` while memory space is disabled.
    pub fn register_bar(&self, index: usize) -> Option<u64> {
        let at = BARS + 4 * index;
        let raw = self.bytes.get(at..at + 4)?.try_into().ok()?;
        self.address(u32::from_le_bytes(raw).into())
    }

    fn address(&self, bar: u64) -> Option<u64> {
        let enabled = self.bytes[COMMAND] & COMMAND_MEMORY != 0;
        enabled.then_some(bar & !u64::from(BAR_FLAGS))
    }

    fn put(&mut self, at: usize, value: &[u8]) {
        self.bytes[at..at + value.len()].copy_from_slice(value);
    }
}

/// Index of the first byte of an access, if PCI's configuration mechanisms can make such an access.
fn register(offset: u64, bytes: usize) -> Option<usize> {
    let at = usize::try_from(offset).ok()?;
    let good = matches!(bytes, 1 | 2 | 4) && at % bytes == 0 && at < CONFIG_BYTES;
    good.then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: Identity = Identity {
        id: (0x1234, 0x5678),
        class: (5, 0, 0),
        revision: 1,
        subsystem: (0xabcd, 0xef01),
    };

    fn space(bar_bytes: u64) -> ConfigSpace {
        ConfigSpace::new(&MEMORY).with_memory_bar(2, bar_bytes).unwrap()
    }

    fn dword(space: &ConfigSpace, offset: u64) -> u32 {
        let mut data = [0; 4];
        space.read(offset, &mut data);
        u32::from_le_bytes(data)
    }

    #[test]
    fn identity_in_all_widths() {
        let space = space(4096);
        assert_eq!(dword(&space, 0), 0x5678_1234);
        assert_eq!(dword(&space, 8), 0x0500_0001);
        assert_eq!(dword(&space, 0x2c), 0xef01_abcd);
        let mut word = [0; 2];
        space.read(2, &mut word);
        assert_eq!(word, [0x78, 0x56]);
        let mut byte = [0];
        space.read(0xb, &mut byte);
        assert_eq!(byte, [5]);
    }

    #[test]
    fn bars_are_sized_as_the_specification_says() {
        for bits in 12..40 {
            let mut space = space(1 << bits);
            space.write(0x18, &[0xff; 4]);
            space.write(0x1c, &[0xff; 4]);
            let read = u64::from(dword(&space, 0x1c)) << 32 | u64::from(dword(&space, 0x18));
            assert_eq!(read & 0xf, 0xc);
            assert_eq!((!(read & !0xf)).wrapping_add(1), 1 << bits);
            assert_eq!(dword(&space, 0x10), 0, "BAR 0 is absent");
            assert_eq!(dword(&space, 0x20), 0, "BAR 4 is absent");
        }
    }

    #[test]
    fn an_address_counts_once_memory_space_is_enabled() {
        let mut space = space(0x1_0000);
        space.write(0x18, &0x1000_1234u32.to_le_bytes());
        space.write(0x1c, &2u32.to_le_bytes());
        assert_eq!(space.memory_bar(2), None);
        space.write(4, &0xffffu16.to_le_bytes());
        assert_eq!(dword(&space, 4), 6, "memory space and bus master, and nothing else");
        assert_eq!(space.memory_bar(2), Some(0x2_1000_0000));
        space.write(4, &[0]);
        assert_eq!(space.memory_bar(2), None);
    }

    #[test]
    fn a_register_bar_is_one_word() {
        let mut space = ConfigSpace::new(&MEMORY).with_register_bar(1, 8192).unwrap();
        space.write(0x14, &[0xff; 4]);
        space.write(0x18, &[0xff; 4]);
        assert_eq!((dword(&space, 0x14), dword(&space, 0x18)), (0xffff_e000, 0));
        space.write(0x14, &0x1234_5678_u32.to_le_bytes());
        assert_eq!(space.register_bar(1), None);
        space.write(4, &[2]);
        assert_eq!(space.register_bar(1), Some(0x1234_4000));
        let refused = ConfigSpace::new(&MEMORY).with_register_bar(0, 1 << 32);
        assert_eq!(refused, Err(BarSizeError { bytes: 1 << 32 }));
    }

    #[test]
    fn the_guest_finds_and_switches_its_interrupts() {
        let mut space = ConfigSpace::new(&MEMORY).with_msix(1, &Msix::new(3));
        assert_eq!((dword(&space, 4), dword(&space, 0x34)), (1 << 20, 0x40));
        assert_eq!([0x40, 0x44, 0x48].map(|at| dword(&space, at)), [0x0002_0011, 1, 2048 | 1]);
        space.write(0x42, &0xc123_u16.to_le_bytes());
        assert_eq!(dword(&space, 0x40), 0xc002_0011);
        assert_eq!(space.msix_control(), MsixControl { enabled: true, masked: true });
    }

    #[test]
    fn read_only_registers_stay() {
        let mut space = space(4096);
        let before = space.clone();
        for offset in (0..CONFIG_BYTES as u64).step_by(4) {
            if ![4, 0x18, 0x1c, 0x3c].contains(&offset) {
                space.write(offset, &[0xa5; 4]);
            }
        }
        assert_eq!(space, before);
    }

    #[test]
    fn odd_accesses_read_ones_and_write_nothing() {
        let mut space = space(4096);
        let before = space.clone();
        let accesses =
            [(1, 2), (2, 4), (0xfe, 4), (0x100, 1), (u64::MAX, 1), (0, 8), (0, 3), (0, 0)];
        for (offset, bytes) in accesses {
            let mut data = vec![0; bytes];
            space.read(offset, &mut data);
            assert_eq!(data, vec![0xff; bytes], "{offset:#x}");
            space.write(offset, &vec![0x5a; bytes]);
        }
        assert_eq!(space, before);
    }

    #[test]
    fn sizes_that_no_bar_can_have() {
        for bytes in [0, 1, 2048, 4095, 12_288] {
            let refused = ConfigSpace::new(&MEMORY).with_memory_bar(0, bytes);
            assert_eq!(refused, Err(BarSizeError { bytes }));
        }
    }
}
