// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! ACPI tables (ACPI 6.5) of a hardware-reduced machine, which has no ACPI interrupt, no ACPI
//! timer, and no legacy devices except those in the tables. Linux finds all CPUs in the MADT. It
//! finds the serial ports, the PCI bus and the way to power off in the DSDT.

use super::{aml, layout, power};
use crate::serial::SERIAL_BYTES;

const OEM: [u8; 6] = *b"PARCRD";
const OEM_TABLE: [u8; 8] = *b"PARACORD";
/// ID of the maker of the tables.
const CREATOR: [u8; 4] = *b"PCRD";
const REVISION: u32 = 1;
const HEADER_BYTES: usize = 36;
/// IAPC_BOOT_ARCH: no VGA, no CMOS real-time clock. The keyboard controller's bit is not set,
/// because the kernel need not know it.
const BOOT_ARCH: u16 = 1 << 2 | 1 << 5;
/// Tables begin at a multiple of this.
const ALIGNMENT_BYTES: usize = 16;

/// The bytes for `layout::ACPI`, and the address of the RSDP in them.
pub struct Tables {
    /// Bytes to be written at the start of `layout::ACPI`.
    pub bytes: Vec<u8>,
    /// Address of the root pointer.
    pub rsdp: u64,
}

impl Tables {
    /// Builds tables for `vcpus` CPUs, whose APIC IDs count from 0, with or without a PCI bus.
    pub fn build(vcpus: u8, pci: bool) -> Tables {
        let mut tables = Tables { bytes: Vec::new(), rsdp: 0 };
        let dsdt = tables.add(&dsdt(pci));
        let fadt = tables.add(&fadt(dsdt));
        let madt = tables.add(&madt(vcpus));
        let xsdt =
            tables.add(&table(*b"XSDT", 1, &[fadt.to_le_bytes(), madt.to_le_bytes()].concat()));
        tables.rsdp = tables.add(&rsdp(xsdt));
        tables
    }

    /// Appends a table, and returns its address.
    fn add(&mut self, table: &[u8]) -> u64 {
        let at = self.bytes.len().next_multiple_of(ALIGNMENT_BYTES);
        self.bytes.resize(at, 0);
        self.bytes.extend_from_slice(table);
        layout::ACPI.start + at as u64
    }
}

/// The byte that makes the sum of all bytes zero.
fn checksum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0u8, |sum, byte| sum.wrapping_sub(*byte))
}

/// A table: the header that all tables except the root pointer have (5.2.6), and the body.
fn table(signature: [u8; 4], revision: u8, body: &[u8]) -> Vec<u8> {
    let mut table = signature.to_vec();
    table.extend_from_slice(&((HEADER_BYTES + body.len()) as u32).to_le_bytes());
    table.extend_from_slice(&[revision, 0]);
    table.extend_from_slice(&OEM);
    table.extend_from_slice(&OEM_TABLE);
    table.extend_from_slice(&REVISION.to_le_bytes());
    table.extend_from_slice(&CREATOR);
    table.extend_from_slice(&REVISION.to_le_bytes());
    table.extend_from_slice(body);
    table[9] = checksum(&table);
    table
}

/// The root pointer (5.2.5.3). The first checksum covers only the part that existed in ACPI 1.0.
fn rsdp(xsdt: u64) -> Vec<u8> {
    let mut rsdp = b"RSD PTR \0".to_vec();
    rsdp.extend_from_slice(&OEM);
    rsdp.extend_from_slice(&[2, 0, 0, 0, 0]); // revision, no RSDT
    rsdp.extend_from_slice(&36u32.to_le_bytes());
    rsdp.extend_from_slice(&xsdt.to_le_bytes());
    rsdp.extend_from_slice(&[0; 4]);
    rsdp[8] = checksum(&rsdp[..20]);
    rsdp[32] = checksum(&rsdp);
    rsdp
}

/// Offsets of the fields of the FADT (5.2.9) that are not zero. Its other fields describe hardware
/// that this machine does not have.
mod fadt_offset {
    pub const BOOT_ARCH: usize = 109;
    pub const FLAGS: usize = 112;
    pub const RESET_REGISTER: usize = 116;
    pub const RESET_VALUE: usize = 128;
    pub const MINOR_REVISION: usize = 131;
    pub const DSDT: usize = 140;
    pub const SLEEP_CONTROL: usize = 244;
    pub const SLEEP_STATUS: usize = 256;
    pub const END: usize = 276;
}

/// Flags of the FADT (5.2.9.1): the machine has a reset register, and none of ACPI's other
/// hardware.
const FADT_FLAGS: u32 = 1 << 10 | 1 << 20;

fn fadt(dsdt: u64) -> Vec<u8> {
    let mut body = [0; fadt_offset::END - HEADER_BYTES];
    let mut put = |at: usize, bytes: &[u8]| {
        body[at - HEADER_BYTES..][..bytes.len()].copy_from_slice(bytes);
    };
    // A generic address (5.2.3.2): an I/O port, eight bits wide from bit 0, accessed as a byte.
    let port = |offset: u16| {
        [&[1, 8, 0, 1], &u64::from(layout::POWER + offset).to_le_bytes()[..]].concat()
    };
    put(fadt_offset::BOOT_ARCH, &BOOT_ARCH.to_le_bytes());
    put(fadt_offset::FLAGS, &FADT_FLAGS.to_le_bytes());
    put(fadt_offset::RESET_REGISTER, &port(power::RESET));
    put(fadt_offset::RESET_VALUE, &[power::RESET_VALUE]);
    put(fadt_offset::MINOR_REVISION, &[5]);
    put(fadt_offset::DSDT, &dsdt.to_le_bytes());
    put(fadt_offset::SLEEP_CONTROL, &port(power::SLEEP_CONTROL));
    put(fadt_offset::SLEEP_STATUS, &port(power::SLEEP_STATUS));
    table(*b"FACP", 6, &body)
}

/// Interrupt controllers (5.2.12): the enabled local APIC of each CPU, and the I/O APIC.
fn madt(vcpus: u8) -> Vec<u8> {
    let mut body = layout::LOCAL_APIC.to_le_bytes().to_vec();
    body.extend_from_slice(&[0; 4]); // no 8259
    for id in 0..vcpus {
        body.extend_from_slice(&[0, 8, id, id, 1, 0, 0, 0]);
    }
    body.extend_from_slice(&[1, 12, vcpus, 0]);
    body.extend_from_slice(&layout::IO_APIC.to_le_bytes());
    body.extend_from_slice(&[0; 4]); // its first interrupt
    table(*b"APIC", 1, &body)
}

fn dsdt(pci: bool) -> Vec<u8> {
    // The sleep type, the value for PM1b (which does not exist), and two reserved values.
    let sleep = [power::SLEEP_TYPE_S5, 0, 0, 0].map(aml::integer);
    let mut body = aml::name(*b"_S5_", &aml::package(&sleep));
    for index in 0..layout::SERIAL.len() {
        body.extend_from_slice(&serial(index));
    }
    if pci {
        body.extend_from_slice(&host_bridge());
    }
    table(*b"DSDT", 2, &body)
}

fn in_system_bus(device: &[u8]) -> Vec<u8> {
    aml::scope(*b"_SB_", device)
}

fn serial(index: usize) -> Vec<u8> {
    let place = layout::SERIAL[index];
    let resources = [aml::ports(place.base as u16, SERIAL_BYTES as u8), aml::interrupt(place.gsi)];
    let contents = [
        aml::name(*b"_HID", &aml::eisa_id(*b"PNP", 0x0501)),
        aml::name(*b"_UID", &aml::integer(index as u8)),
        aml::name(*b"_CRS", &aml::resources(&resources)),
    ];
    in_system_bus(&aml::device([b'C', b'O', b'M', b'1' + index as u8], &contents))
}

fn host_bridge() -> Vec<u8> {
    let window = layout::PCI_MEMORY;
    let resources = [
        aml::bus_0(),
        aml::ports(layout::PCI_CONFIG as u16, 8),
        aml::memory_window(window.start as u32..window.end as u32),
    ];
    let contents = [
        aml::name(*b"_HID", &aml::eisa_id(*b"PNP", 0x0a03)),
        aml::name(*b"_UID", &aml::integer(0)),
        aml::name(*b"_CRS", &aml::resources(&resources)),
    ];
    in_system_bus(&aml::device(*b"PCI0", &contents))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(tables: &Tables, address: u64) -> &[u8] {
        let at = (address - layout::ACPI.start) as usize;
        let length = u32::from_le_bytes(tables.bytes[at + 4..at + 8].try_into().unwrap()) as usize;
        let table = &tables.bytes[at..at + length];
        assert_eq!(table.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)), 0, "checksum");
        table
    }

    fn address(bytes: &[u8], at: usize) -> u64 {
        u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
    }

    fn contains(table: &[u8], part: &[u8]) -> bool {
        table.windows(part.len()).any(|window| window == part)
    }

    #[test]
    fn the_chain_from_the_root_pointer_holds() {
        let tables = Tables::build(3, true);
        assert!(tables.bytes.len() as u64 <= layout::ACPI.end - layout::ACPI.start);
        let root = (tables.rsdp - layout::ACPI.start) as usize;
        let rsdp = &tables.bytes[root..root + 36];
        assert_eq!((&rsdp[..8], rsdp[15]), (&b"RSD PTR "[..], 2));
        let xsdt = table(&tables, address(rsdp, 24));
        assert_eq!((&xsdt[..4], xsdt.len()), (&b"XSDT"[..], 36 + 16));

        let fadt = table(&tables, address(xsdt, 36));
        assert_eq!((&fadt[..4], fadt.len()), (&b"FACP"[..], 276));
        let flags = u32::from_le_bytes(fadt[112..116].try_into().unwrap());
        assert_eq!(flags & (1 << 20 | 1 << 10), 1 << 20 | 1 << 10, "hardware-reduced, with reset");
        assert_eq!((address(fadt, 120), fadt[128]), (0x602, power::RESET_VALUE));
        assert_eq!(address(fadt, 248), 0x600, "sleep control");
        assert_eq!(&table(&tables, address(fadt, 140))[..4], b"DSDT");

        let madt = table(&tables, address(xsdt, 44));
        assert_eq!((&madt[..4], madt.len()), (&b"APIC"[..], 44 + 3 * 8 + 12));
        assert_eq!(&madt[44 + 16..44 + 24], [0, 8, 2, 2, 1, 0, 0, 0], "the third CPU");
        assert_eq!(&madt[44 + 24..44 + 32], [1, 12, 3, 0, 0, 0, 0xc0, 0xfe]);
    }

    #[test]
    fn devices_are_named_where_they_are() {
        let with = dsdt(true);
        let without = dsdt(false);
        for name in [&b"_S5_"[..], b"COM1", b"COM2"] {
            assert!(contains(&with, name) && contains(&without, name));
        }
        assert!(contains(&with, b"PCI0") && !contains(&without, b"PCI0"));
        assert!(contains(&with, &[0x47, 1, 0xf8, 0x02, 0xf8, 0x02]), "ports of COM2");
        assert!(contains(&with, &[0, 0, 0, 0xc0, 0xff, 0xff, 0xff, 0xef]), "window of BARs");
    }
}
