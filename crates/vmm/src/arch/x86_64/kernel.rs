// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Loads the kernel and writes its boot information. Uses the PVH protocol (for an ELF file with a
//! Xen note, which Linux has with CONFIG_PVH) or the 64-bit boot protocol
//! (Documentation/arch/x86/boot.rst).

use std::fs::File;
use std::io::{Read, Seek};

use linux_loader::loader::bootparam::{boot_e820_entry, boot_params, setup_header};
use linux_loader::loader::elf::PvhBootCapability;
use linux_loader::loader::elf::start_info::{
    hvm_memmap_table_entry, hvm_modlist_entry, hvm_start_info,
};
use linux_loader::loader::{BzImage, Elf, KernelLoader};
use vm_memory::{Address, ByteValued, Bytes, GuestAddress};

use super::entry::Entry;
use super::layout;
use crate::config::Config;
use crate::error::{self, Error};
use crate::initramfs;
use crate::memory::Ram;

const ELF_MAGIC: [u8; 4] = *b"\x7fELF";
/// Offset and value of the magic number of a bzImage.
const BZIMAGE_MAGIC: (u64, [u8; 4]) = (0x202, *b"HdrS");
/// Offset of the 64-bit entry from the load address of the kernel.
const ENTRY_64: u64 = 0x200;
/// Type of a boot loader without an assigned number.
const LOADER_UNKNOWN: u8 = 0xff;
const XEN_HVM_START_MAGIC: u32 = 0x336e_c578;
/// The type RAM in the memory maps of both protocols.
const E820_RAM: u32 = 1;
/// Every kernel accepts an initramfs below this address (initrd_addr_max).
const INITRAMFS_END: u64 = 0x8000_0000;

/// Loads kernel, initramfs and command line. `rsdp` is the address of the ACPI root pointer.
pub fn load(config: &Config, ram: &Ram, rsdp: u64) -> Result<Entry, Error> {
    let path = &config.kernel;
    let mut file = File::open(path).map_err(error::file(path))?;
    let mut start = vec![0; BZIMAGE_MAGIC.0 as usize + 4];
    let refuse = |reason: &str| Error::Content { path: path.clone(), reason: reason.to_owned() };
    let cannot = "is not an x86-64 kernel: use an ELF file or a bzImage";
    file.read_exact(&mut start).map_err(|_| refuse(cannot))?;
    file.rewind().map_err(error::file(path))?;
    let mut cmdline = config.cmdline.clone().into_bytes();
    cmdline.push(0);
    put(config, ram, layout::CMDLINE, &cmdline)?;
    let too_large = |e| refuse(&format!("{e}; is --memory-mib large enough?"));
    if start[..4] == ELF_MAGIC {
        let loaded = Elf::load(ram, None, &mut file, Some(GuestAddress(layout::HIGH_RAM)));
        let loaded = loaded.map_err(too_large)?;
        let PvhBootCapability::PvhEntryPresent(entry) = loaded.pvh_boot_cap else {
            return Err(refuse("has no PVH entry: use a kernel with CONFIG_PVH, or a bzImage"));
        };
        let initramfs = load_initramfs(config, ram, loaded.kernel_end)?;
        pvh(config, ram, rsdp, initramfs)?;
        Ok(Entry::Pvh { address: entry.raw_value() })
    } else if start[BZIMAGE_MAGIC.0 as usize..] == BZIMAGE_MAGIC.1 {
        let loaded = BzImage::load(ram, None, &mut file, Some(GuestAddress(layout::HIGH_RAM)));
        let loaded = loaded.map_err(too_large)?;
        let header = loaded.setup_header.ok_or_else(|| refuse(cannot))?;
        // The address to which the kernel unpacks itself, and the memory that it needs there.
        let work = header.pref_address.saturating_add(header.init_size.into());
        let initramfs = load_initramfs(config, ram, loaded.kernel_end.max(work))?;
        zero_page(config, ram, rsdp, header, initramfs)?;
        Ok(Entry::Long { address: loaded.kernel_load.raw_value() + ENTRY_64 })
    } else {
        Err(refuse(cannot))
    }
}

fn load_initramfs(config: &Config, ram: &Ram, lowest: u64) -> Result<Option<(u64, u64)>, Error> {
    let end = config.memory_bytes.min(layout::DEVICES).min(INITRAMFS_END);
    initramfs::load(config, ram, lowest, end)
}

fn put(config: &Config, ram: &Ram, address: u64, bytes: &[u8]) -> Result<(), Error> {
    ram.write_slice(bytes, GuestAddress(address)).map_err(|_| initramfs::too_little(config))
}

fn pvh(config: &Config, ram: &Ram, rsdp: u64, initramfs: Option<(u64, u64)>) -> Result<(), Error> {
    let map = layout::usable(config.memory_bytes);
    for (index, (addr, size)) in (0u64..).zip(&map) {
        let entry =
            hvm_memmap_table_entry { addr: *addr, size: *size, type_: E820_RAM, reserved: 0 };
        let address = layout::BOOT_MEMORY_MAP + index * size_of_val(&entry) as u64;
        put(config, ram, address, entry.as_slice())?;
    }
    let mut info = hvm_start_info {
        magic: XEN_HVM_START_MAGIC,
        version: 1,
        cmdline_paddr: layout::CMDLINE,
        rsdp_paddr: rsdp,
        memmap_paddr: layout::BOOT_MEMORY_MAP,
        memmap_entries: map.len() as u32,
        ..hvm_start_info::default()
    };
    if let Some((start, end)) = initramfs {
        let module =
            hvm_modlist_entry { paddr: start, size: end - start, ..hvm_modlist_entry::default() };
        put(config, ram, layout::BOOT_MODULES, module.as_slice())?;
        info.nr_modules = 1;
        info.modlist_paddr = layout::BOOT_MODULES;
    }
    put(config, ram, layout::BOOT_INFORMATION, info.as_slice())
}

fn zero_page(
    config: &Config,
    ram: &Ram,
    rsdp: u64,
    header: setup_header,
    initramfs: Option<(u64, u64)>,
) -> Result<(), Error> {
    let mut page = boot_params { hdr: header, acpi_rsdp_addr: rsdp, ..boot_params::default() };
    page.hdr.type_of_loader = LOADER_UNKNOWN;
    // In the machine's memory map, all addresses that are stored here are below 4 GiB.
    page.hdr.cmd_line_ptr = layout::CMDLINE as u32;
    if let Some((start, end)) = initramfs {
        page.hdr.ramdisk_image = start as u32;
        page.hdr.ramdisk_size = (end - start) as u32;
    }
    let map = layout::usable(config.memory_bytes);
    for (entry, (addr, size)) in page.e820_table.iter_mut().zip(&map) {
        *entry = boot_e820_entry { addr: *addr, size: *size, type_: E820_RAM };
    }
    page.e820_entries = map.len() as u8;
    put(config, ram, layout::BOOT_INFORMATION, page.as_slice())
}
