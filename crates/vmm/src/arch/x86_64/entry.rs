// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Registers of the first vCPU before its first instruction. The other vCPUs wait until the kernel
//! starts them (INIT, SIPI).

use kvm_bindings::{Msrs, kvm_msr_entry, kvm_regs, kvm_segment, kvm_sregs};
use kvm_ioctls::VcpuFd;
use vm_memory::{Bytes, GuestAddress};

use super::layout;
use crate::error::{self, Error};
use crate::memory::Ram;

/// How the kernel is entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// 32-bit mode without paging. EBX has the address of hvm_start_info (docs/misc/pvh.pandoc of
    /// Xen).
    Pvh {
        /// Address of the first instruction.
        address: u64,
    },
    /// 64-bit mode, with the first 4 GiB mapped one to one. RSI has the address of the zero page.
    Long {
        /// Address of the first instruction.
        address: u64,
    },
}

const CR0_PROTECTED: u64 = 1;
const CR0_EXTENSION_TYPE: u64 = 1 << 4;
const CR0_PAGING: u64 = 1 << 31;
const CR4_PAE: u64 = 1 << 5;
const EFER_LONG: u64 = 1 << 8 | 1 << 10;
/// Interrupts are disabled. Bit 1 is always set.
const RFLAGS: u64 = 1 << 1;

/// IA32_MTRR_DEF_TYPE: enabled, write-back. If MTRRs were disabled, all memory would count as
/// uncached.
const MSR_MTRR_DEFAULT: (u32, u64) = (0x2ff, 1 << 11 | 6);

/// GDT selectors that the 64-bit boot protocol requires (__BOOT_CS, __BOOT_DS).
const SELECTOR_CODE: u16 = 0x10;
const SELECTOR_DATA: u16 = 0x18;
/// Types of segments: flat code (readable, executable, accessed), flat data (writable, accessed),
/// and a busy TSS.
const TYPE_CODE: u8 = 0xb;
const TYPE_DATA: u8 = 0x3;
const TYPE_TSS: u8 = 0xb;
/// The GDT's entries: null, unused, 64-bit code, data.
const GDT: [u64; 4] = [0, 0, 0x00af_9b00_0000_ffff, 0x00cf_9300_0000_ffff];

/// Flags of a page table entry: present and writable. LARGE_PAGE is for an entry of a 2 MiB page.
const TABLE: u64 = 0x3;
const LARGE_PAGE: u64 = 0x83;
const PAGE_BYTES: u64 = 4096;
const LARGE_PAGE_SHIFT: u32 = 21;
const DIRECTORIES: u64 = 4;

/// Sets the registers and writes the tables that they point to.
pub fn set(vcpu: &VcpuFd, ram: &Ram, entry: Entry) -> Result<(), Error> {
    let mut special = vcpu.get_sregs().map_err(error::kvm("read registers"))?;
    let mut regs = kvm_regs { rflags: RFLAGS, ..kvm_regs::default() };
    match entry {
        Entry::Pvh { address } => {
            regs.rip = address;
            regs.rbx = layout::BOOT_INFORMATION;
            set_segments(&mut special, false);
            special.cr0 = CR0_PROTECTED | CR0_EXTENSION_TYPE;
        }
        Entry::Long { address } => {
            regs.rip = address;
            regs.rsi = layout::BOOT_INFORMATION;
            set_segments(&mut special, true);
            write_tables(ram)?;
            special.gdt.base = layout::GDT;
            special.gdt.limit = (size_of_val(&GDT) - 1) as u16;
            special.cr3 = layout::PAGE_TABLES;
            special.cr4 = CR4_PAE;
            special.cr0 = CR0_PROTECTED | CR0_EXTENSION_TYPE | CR0_PAGING;
            special.efer = EFER_LONG;
        }
    }
    vcpu.set_sregs(&special).map_err(error::kvm("set registers"))?;
    vcpu.set_regs(&regs).map_err(error::kvm("set registers"))
}

/// Sets the memory types of a vCPU.
pub fn set_memory_type(vcpu: &VcpuFd) -> Result<(), Error> {
    let (index, data) = MSR_MTRR_DEFAULT;
    let msrs = [kvm_msr_entry { index, data, ..kvm_msr_entry::default() }];
    let msrs = Msrs::from_entries(&msrs).map_err(|e| Error::Tables(format!("{e:?}")))?;
    vcpu.set_msrs(&msrs).map_err(error::kvm("set memory types")).map(|_| ())
}

fn set_segments(special: &mut kvm_sregs, long: bool) {
    let flat = |selector, type_| kvm_segment {
        limit: u32::MAX,
        selector,
        type_,
        present: 1,
        s: 1,
        g: 1,
        db: u8::from(!(long && type_ == TYPE_CODE)),
        l: u8::from(long && type_ == TYPE_CODE),
        ..kvm_segment::default()
    };
    special.cs = flat(SELECTOR_CODE, TYPE_CODE);
    let data = flat(SELECTOR_DATA, TYPE_DATA);
    (special.ds, special.es, special.ss, special.fs, special.gs) = (data, data, data, data, data);
    special.tr = kvm_segment { limit: 0x67, type_: TYPE_TSS, present: 1, ..kvm_segment::default() };
}

/// Writes the GDT, and page tables that map the first 4 GiB to themselves.
fn write_tables(ram: &Ram) -> Result<(), Error> {
    let put = |address: u64, value: u64| {
        let written = ram.write_obj(value, GuestAddress(address));
        written.map_err(|e| Error::Tables(e.to_string()))
    };
    for (index, descriptor) in (0u64..).zip(GDT) {
        put(layout::GDT + index * 8, descriptor)?;
    }
    let level3 = layout::PAGE_TABLES + PAGE_BYTES;
    put(layout::PAGE_TABLES, level3 | TABLE)?;
    for directory in 0..DIRECTORIES {
        let level2 = level3 + PAGE_BYTES * (1 + directory);
        put(level3 + directory * 8, level2 | TABLE)?;
        for index in 0..512 {
            let address = (directory * 512 + index) << LARGE_PAGE_SHIFT;
            put(level2 + index * 8, address | LARGE_PAGE)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_gib_are_mapped_to_themselves() {
        let ram = Ram::from_ranges(&[(GuestAddress(0), 1 << 20)]).unwrap();
        write_tables(&ram).unwrap();
        let at = |address: u64| ram.read_obj::<u64>(GuestAddress(address)).unwrap();
        for address in [0u64, 0x20_0000, 0x1234_5678, 0xffff_ffff] {
            let level3 = at(layout::PAGE_TABLES) & !0xfff;
            let level2 = at(level3 + (address >> 30) * 8) & !0xfff;
            let page = at(level2 + (address >> 21 & 511) * 8);
            assert_eq!((page & !0xfff, page & 0xfff), (address & !0x1f_ffff, LARGE_PAGE));
        }
        const { assert!(layout::PAGE_TABLES + PAGE_BYTES * (2 + DIRECTORIES) <= layout::CMDLINE) };
        assert_eq!(at(layout::GDT + u64::from(SELECTOR_CODE)), GDT[2]);
    }

    #[test]
    fn segments_are_flat() {
        let mut special = kvm_sregs::default();
        set_segments(&mut special, true);
        assert_eq!(
            (special.cs.l, special.cs.db, special.ds.db, special.ds.limit),
            (1, 0, 1, u32::MAX)
        );
        set_segments(&mut special, false);
        assert_eq!((special.cs.l, special.cs.db), (0, 1));
    }
}
