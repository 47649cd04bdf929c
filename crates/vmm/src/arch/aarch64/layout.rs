// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The memory map of an arm64 machine. It is similar to the map of QEMU's `virt` machine.
//!
//! | address | what |
//! |---|---|
//! | 0x0800_0000 | GICv3 distributor |
//! | 0x0801_0000 | ITS, which receives the interrupts of PCI functions |
//! | 0x080a_0000 | GICv3 redistributors, 128 KiB per vCPU |
//! | 0x0900_0000 | serial ports, one page each |
//! | 0x0a00_0000 | virtual-cpufreq, one page per vCPU |
//! | 0x1000_0000 | BARs |
//! | 0x3f00_0000 | ECAM of bus 0 |
//! | 0x4000_0000 | RAM |

use std::ops::Range;

use crate::arch::SerialPlace;

/// Address and size of the distributor.
pub const GIC_DISTRIBUTOR: (u64, u64) = (0x0800_0000, 0x1_0000);
/// Address and size of the interrupt translation service, which has two frames of 64 KiB.
pub const GIC_ITS: (u64, u64) = (0x0801_0000, 0x2_0000);
/// Address of the redistributors, and size per vCPU.
pub const GIC_REDISTRIBUTORS: (u64, u64) = (0x080a_0000, 0x2_0000);
/// Number of interrupts of the distributor, including the 32 of each CPU.
pub const GIC_INTERRUPTS: u32 = 64;
/// Serial ports. Their GSI is the number of a shared peripheral interrupt.
pub const SERIAL: [SerialPlace; 2] =
    [SerialPlace { base: 0x0900_0000, gsi: 1 }, SerialPlace { base: 0x0900_1000, gsi: 2 }];
/// Address of the frequency device.
pub const CPUFREQ: u64 = 0x0a00_0000;
/// Addresses where BARs may be placed.
pub const PCI_MEMORY: Range<u64> = 0x1000_0000..0x3f00_0000;
/// Address of the configuration spaces.
pub const PCI_ECAM: u64 = 0x3f00_0000;
/// First byte of RAM.
pub const RAM: u64 = 0x4000_0000;

/// RAM as pairs of start and size.
pub fn ram(bytes: u64) -> Vec<(u64, u64)> {
    vec![(RAM, bytes)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::VCPUS_MAX;

    #[test]
    fn the_interrupt_controller_of_all_vcpus_fits() {
        let (start, bytes) = GIC_ITS;
        assert!(GIC_DISTRIBUTOR.0 + GIC_DISTRIBUTOR.1 <= start);
        assert!(start + bytes <= GIC_REDISTRIBUTORS.0);
        let (start, bytes) = GIC_REDISTRIBUTORS;
        assert!(start + u64::from(VCPUS_MAX) * bytes <= SERIAL[0].base);
    }
}
