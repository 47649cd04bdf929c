// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The memory map of an x86-64 machine.
//!
//! | address | what |
//! |---|---|
//! | 0x500 | GDT, for a bzImage |
//! | 0x6000 | boot information for the kernel |
//! | 0x9000 | page tables, for a bzImage |
//! | 0x2_0000 | kernel command line |
//! | 0xe_0000 | ACPI tables |
//! | 0xf_fff0 | reset vector: the code there resets the machine |
//! | 0x10_0000 | RAM up to 3 GiB; the rest of the RAM begins at 4 GiB |
//! | 0xc000_0000 | BARs |
//! | 0xfec0_0000, 0xfee0_0000 | I/O APIC, local APICs |
//!
//! | port | what |
//! |---|---|
//! | 0x60 | keyboard controller, of which only the reset line exists |
//! | 0x2f8, 0x3f8 | serial ports |
//! | 0x600 | ACPI sleep control, sleep status, reset |
//! | 0xcf8 | PCI configuration |

use std::ops::Range;

use crate::arch::SerialPlace;

/// The GDT of the 64-bit entry.
pub const GDT: u64 = 0x500;
/// hvm_start_info (PVH) or the zero page (bzImage).
pub const BOOT_INFORMATION: u64 = 0x6000;
/// List of modules, whose only entry is the initramfs.
pub const BOOT_MODULES: u64 = 0x7000;
/// Memory map for the kernel.
pub const BOOT_MEMORY_MAP: u64 = 0x8000;
/// Six pages of page tables.
pub const PAGE_TABLES: u64 = 0x9000;
/// Kernel command line.
pub const CMDLINE: u64 = 0x2_0000;
/// End of the RAM below 1 MiB.
pub const LOW_RAM_END: u64 = 0x9_fc00;
/// ACPI tables.
pub const ACPI: Range<u64> = 0xe_0000..0xf_0000;
/// Address where a CPU begins after a reset, F000:FFF0.
pub const RESET_VECTOR: u64 = 0xf_fff0;
/// Kernels are loaded above this address.
pub const HIGH_RAM: u64 = 0x10_0000;
/// RAM ends here, below the devices, and continues at 4 GiB.
pub const DEVICES: u64 = 0xc000_0000;
const ABOVE_DEVICES: u64 = 1 << 32;
/// Addresses where BARs may be placed.
pub const PCI_MEMORY: Range<u64> = DEVICES..0xf000_0000;
/// I/O APIC.
pub const IO_APIC: u32 = 0xfec0_0000;
/// Local APICs.
pub const LOCAL_APIC: u32 = 0xfee0_0000;
/// Three pages that KVM uses on Intel CPUs.
pub const KVM_TSS: usize = 0xfffb_d000;
/// Serial ports.
pub const SERIAL: [SerialPlace; 2] =
    [SerialPlace { base: 0x3f8, gsi: 4 }, SerialPlace { base: 0x2f8, gsi: 3 }];
/// Keyboard controller: the data port. The command port is four ports above it.
pub const KEYBOARD: u64 = 0x60;
/// The ACPI registers of power.rs.
pub const POWER: u16 = 0x600;
/// The PCI configuration ports.
pub const PCI_CONFIG: u64 = 0xcf8;

/// RAM as pairs of start and size.
pub fn ram(bytes: u64) -> Vec<(u64, u64)> {
    let low = bytes.min(DEVICES);
    let mut ranges = vec![(0, low)];
    if bytes > low {
        ranges.push((ABOVE_DEVICES, bytes - low));
    }
    ranges
}

/// Memory that the kernel may use, as pairs of start and size: RAM without the part below 1 MiB
/// that is not RAM on a PC.
pub fn usable(bytes: u64) -> Vec<(u64, u64)> {
    let mut ranges = ram(bytes);
    ranges[0] = (HIGH_RAM, ranges[0].1 - HIGH_RAM);
    ranges.insert(0, (0, LOW_RAM_END));
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ram_leaves_room_for_devices() {
        assert_eq!(ram(1 << 30), [(0, 1 << 30)]);
        assert_eq!(ram(5 << 30), [(0, 3 << 30), (4 << 30, 2 << 30)]);
        let usable = usable(5 << 30);
        assert_eq!(usable, [(0, 0x9_fc00), (0x10_0000, (3 << 30) - 0x10_0000), (4 << 30, 2 << 30)]);
    }
}
