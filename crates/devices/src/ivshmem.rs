// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The PCI function through which a guest finds memory that it shares with its host.
//!
//! A guest sees the same function as with QEMU's `ivshmem-doorbell` (docs/specs/ivshmem-spec.rst of
//! QEMU, revision 1): the memory in BAR 2, the interrupt table in BAR 1, and the device's registers
//! in BAR 0. There are no peers, so the registers read as 0. A guest writes to the doorbell to
//! cause a VM exit, and the VMM raises the interrupts.
//!
//! The model consists only of the configuration space. The VMM maps the memory at
//! [`Ivshmem::window`], serves the registers at [`Ivshmem::registers`] and the interrupt table at
//! [`Ivshmem::interrupts`], and looks up these addresses again after each write to the
//! configuration space.

use crate::msix::{Msix, MsixControl};
use crate::pci_config::{BarSizeError, ConfigSpace, Identity};

/// The 64-bit BAR of the memory.
const MEMORY_BAR: usize = 2;
/// The 32-bit BAR of the device's registers. The next one is the BAR of the interrupt table.
const REGISTER_BAR: usize = 0;
const INTERRUPT_BAR: usize = 1;
/// Size of the register BAR. Four registers are used, and the rest of the page reads as 0.
pub const REGISTER_BYTES: u64 = 4096;

const IDENTITY: Identity = Identity {
    id: (0x1af4, 0x1110),
    // a memory controller for RAM
    class: (0x05, 0x00, 0x00),
    revision: 1,
    subsystem: (0x1af4, 0x1100),
};

/// The PCI function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ivshmem {
    config: ConfigSpace,
}

impl Ivshmem {
    /// Makes a function for `memory_bytes` of memory, with interrupts if `interrupts` is given.
    ///
    /// # Errors
    /// [`BarSizeError`] if the size is not a power of two, or is less than a page.
    pub fn new(memory_bytes: u64, interrupts: Option<&Msix>) -> Result<Ivshmem, BarSizeError> {
        let mut config = ConfigSpace::new(&IDENTITY)
            .with_register_bar(REGISTER_BAR, REGISTER_BYTES)?
            .with_memory_bar(MEMORY_BAR, memory_bytes)?;
        if let Some(msix) = interrupts {
            config = config
                .with_register_bar(INTERRUPT_BAR, msix.bar_bytes())?
                .with_msix(INTERRUPT_BAR as u8, msix);
        }
        Ok(Ivshmem { config })
    }

    /// Handles a read of the configuration space.
    pub fn read(&self, offset: u64, data: &mut [u8]) {
        self.config.read(offset, data);
    }

    /// Handles a write to the configuration space.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        self.config.write(offset, data);
    }

    /// Guest-physical address at which the guest currently wants the memory, a multiple of the
    /// memory's size. The guest chooses the address freely: it may overlap RAM or other devices, or
    /// be 0.
    pub fn window(&self) -> Option<u64> {
        self.config.memory_bar(MEMORY_BAR)
    }

    /// Guest-physical address at which the guest wants the registers ([`REGISTER_BYTES`] bytes).
    pub fn registers(&self) -> Option<u64> {
        self.config.register_bar(REGISTER_BAR)
    }

    /// Guest-physical address at which the guest wants the interrupt table ([`Msix::bar_bytes`]
    /// bytes). Without interrupts, the BAR cannot be written and reads as 0.
    pub fn interrupts(&self) -> Option<u64> {
        self.config.register_bar(INTERRUPT_BAR)
    }

    /// The settings that the guest has made for its interrupts.
    pub fn interrupt_control(&self) -> MsixControl {
        self.config.msix_control()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_like_qemus() {
        let function = Ivshmem::new(1 << 16, None).unwrap();
        let mut data = [0; 4];
        for (offset, expected) in
            [(0, 0x1110_1af4u32), (8, 0x0500_0001), (0x10, 0), (0x18, 0xc), (0x2c, 0x1100_1af4)]
        {
            function.read(offset, &mut data);
            assert_eq!(u32::from_le_bytes(data), expected, "{offset:#x}");
        }
    }

    #[test]
    fn the_window_follows_the_guest() {
        let mut function = Ivshmem::new(1 << 16, Some(&Msix::new(2))).unwrap();
        assert_eq!(function.window(), None);
        function.write(0x18, &0xc012_3456u32.to_le_bytes());
        function.write(4, &[2]);
        assert_eq!(function.window(), Some(0xc012_0000));
        function.write(0x10, &0xc100_1234u32.to_le_bytes());
        assert_eq!(function.registers(), Some(0xc100_1000));
        function.write(0x14, &0xc200_1234u32.to_le_bytes());
        assert_eq!(function.interrupts(), Some(0xc200_1000));
        function.write(0x42, &0x8000u16.to_le_bytes());
        assert_eq!(function.interrupt_control(), MsixControl { enabled: true, masked: false });
    }
}
