// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! ACPI tables (ACPI 6.5) of a machine of the hardware-reduced kind: no interrupt of ACPI, no timer, no
//! legacy devices but those named. Linux finds all CPUs in the MADT, and in the DSDT the serial ports, the
//! PCI bus and how to power off.

use acpi_tables::aml::{
    AddressSpace, AddressSpaceCacheable, Device, EISAName, IO, Interrupt, Name, Package, Path,
    ResourceTemplate, Scope,
};
use acpi_tables::fadt::{FADTBuilder, Flags};
use acpi_tables::gas::{AccessSize, AddressSpace as Space, GAS};
use acpi_tables::madt::{
    EnabledStatus, IoApic, LocalInterruptController, MADT, ProcessorLocalApic,
};
use acpi_tables::rsdp::Rsdp;
use acpi_tables::sdt::Sdt;
use acpi_tables::xsdt::XSDT;
use acpi_tables::{Aml, AmlSink};

use super::{layout, power};
use crate::serial::SERIAL_BYTES;

const OEM: [u8; 6] = *b"PARCRD";
const OEM_TABLE: [u8; 8] = *b"PARACORD";
const OEM_REVISION: u32 = 1;
/// IAPC_BOOT_ARCH: no VGA, no real-time clock in CMOS. No keyboard controller either, by an absent bit.
const BOOT_ARCH: u16 = 1 << 2 | 1 << 5;
/// Tables begin on this.
const ALIGNMENT_BYTES: usize = 16;

/// Bytes for `layout::ACPI`, and the address of the RSDP within.
pub struct Tables {
    /// To be put at the start of `layout::ACPI`.
    pub bytes: Vec<u8>,
    /// Address of the root pointer.
    pub rsdp: u64,
}

struct Bytes(Vec<u8>);

impl AmlSink for Bytes {
    fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }
}

fn bytes_of(table: &dyn Aml) -> Vec<u8> {
    let mut sink = Bytes(Vec::new());
    table.to_aml_bytes(&mut sink);
    sink.0
}

impl Tables {
    /// Tables for `vcpus` CPUs, whose APIC ids count from 0, and a PCI bus or none.
    pub fn build(vcpus: u8, pci: bool) -> Tables {
        let mut tables = Tables { bytes: Vec::new(), rsdp: 0 };
        let dsdt = tables.add(&bytes_of(&dsdt(pci)));
        let fadt = tables.add(&bytes_of(&fadt(dsdt)));
        let madt = tables.add(&bytes_of(&madt(vcpus)));
        let mut xsdt = XSDT::new(OEM, OEM_TABLE, OEM_REVISION);
        xsdt.add_entry(fadt);
        xsdt.add_entry(madt);
        let xsdt = tables.add(&bytes_of(&xsdt));
        tables.rsdp = tables.add(&bytes_of(&Rsdp::new(OEM, xsdt)));
        tables
    }

    /// Appends a table; its address.
    fn add(&mut self, table: &[u8]) -> u64 {
        let at = self.bytes.len().next_multiple_of(ALIGNMENT_BYTES);
        self.bytes.resize(at, 0);
        self.bytes.extend_from_slice(table);
        layout::ACPI.start + at as u64
    }
}

fn fadt(dsdt: u64) -> impl Aml {
    let port = |offset: u16| {
        let address = u64::from(layout::POWER + offset);
        GAS::new(Space::SystemIo, 8, 0, AccessSize::ByteAccess, address)
    };
    let mut fadt = FADTBuilder::new(OEM, OEM_TABLE, OEM_REVISION)
        .dsdt_64(dsdt)
        .flag(Flags::HwReducedAcpi)
        .flag(Flags::ResetRegSup);
    fadt.iapc_boot_arch = BOOT_ARCH.into();
    fadt.sleep_control_reg = port(power::SLEEP_CONTROL);
    fadt.sleep_status_reg = port(power::SLEEP_STATUS);
    fadt.reset_reg = port(power::RESET);
    fadt.reset_value = power::RESET_VALUE;
    fadt.finalize()
}

fn madt(vcpus: u8) -> MADT {
    let address = LocalInterruptController::Address(layout::LOCAL_APIC);
    let mut madt = MADT::new(OEM, OEM_TABLE, OEM_REVISION, address);
    for id in 0..vcpus {
        madt.add_structure(ProcessorLocalApic::new(id, id, EnabledStatus::Enabled));
    }
    madt.add_structure(IoApic::new(vcpus, layout::IO_APIC, 0));
    madt
}

fn dsdt(pci: bool) -> Sdt {
    const HEADER_BYTES: u32 = 36;
    let mut dsdt = Sdt::new(*b"DSDT", HEADER_BYTES, 2, OEM, OEM_TABLE, OEM_REVISION);
    // The value for PM1b, which does not exist, and two that are reserved.
    let sleep: [&dyn Aml; 4] = [&power::SLEEP_TYPE_S5, &0u8, &0u8, &0u8];
    dsdt.append_slice(&bytes_of(&Name::new("_S5_".into(), &Package::new(sleep.to_vec()))));
    for index in 0..layout::SERIAL.len() {
        dsdt.append_slice(&serial(index));
    }
    if pci {
        dsdt.append_slice(&host_bridge());
    }
    dsdt
}

fn in_system_bus(device: &Device<'_>) -> Vec<u8> {
    bytes_of(&Scope::new(Path::new("_SB_"), vec![device]))
}

fn serial(index: usize) -> Vec<u8> {
    let place = layout::SERIAL[index];
    let port = place.base as u16;
    let io = IO::new(port, port, 1, SERIAL_BYTES as u8);
    let interrupt = Interrupt::new(true, true, false, false, place.gsi);
    let (hid, uid) = (EISAName::new("PNP0501"), index as u8);
    let children: [&dyn Aml; 3] = [
        &Name::new("_HID".into(), &hid),
        &Name::new("_UID".into(), &uid),
        &Name::new("_CRS".into(), &ResourceTemplate::new(vec![&io, &interrupt])),
    ];
    in_system_bus(&Device::new(Path::new(&format!("COM{}", index + 1)), children.to_vec()))
}

fn host_bridge() -> Vec<u8> {
    let window = layout::PCI_MEMORY;
    let bus = AddressSpace::new_bus_number(0u16, 0u16);
    let config = IO::new(layout::PCI_CONFIG as u16, layout::PCI_CONFIG as u16, 1, 8);
    let cacheable = AddressSpaceCacheable::NotCacheable;
    let (first, last) = (window.start as u32, (window.end - 1) as u32);
    let memory = AddressSpace::new_memory(cacheable, true, first, last, None);
    let hid = EISAName::new("PNP0A03");
    let children: [&dyn Aml; 3] = [
        &Name::new("_HID".into(), &hid),
        &Name::new("_UID".into(), &0u8),
        &Name::new("_CRS".into(), &ResourceTemplate::new(vec![&bus, &config, &memory])),
    ];
    in_system_bus(&Device::new(Path::new("PCI0"), children.to_vec()))
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
        let with = bytes_of(&dsdt(true));
        let without = bytes_of(&dsdt(false));
        for name in [&b"_S5_"[..], b"COM1", b"COM2"] {
            assert!(contains(&with, name) && contains(&without, name));
        }
        assert!(contains(&with, b"PCI0") && !contains(&without, b"PCI0"));
        assert!(contains(&with, &[0x47, 1, 0xf8, 0x02, 0xf8, 0x02]), "ports of COM2");
        assert!(contains(&with, &[0, 0, 0, 0xc0, 0xff, 0xff, 0xff, 0xef]), "window of BARs");
    }
}
