// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The guest's RAM, and the shared region behind a BAR: mappings of this process that KVM shows the guest.
//!
//! Unsafe code of the VMM is here and in signal_mask.rs only.

use std::sync::Arc;

use kvm_bindings::kvm_userspace_memory_region;
use kvm_ioctls::VmFd;
use vm_memory::{GuestAddress, GuestMemory, GuestMemoryMmap, GuestMemoryRegion, MmapRegion};

use crate::error::{self, Error};

/// RAM, as KVM and the loaders see it.
pub type Ram = GuestMemoryMmap<()>;

/// Maps RAM at `ranges` (start, bytes; ascending) and shows it to the guest in KVM's slots 0, 1 and so on.
///
/// The caller keeps the result until no vCPU can run any more.
///
/// # Errors
/// [`Error::Memory`], [`Error::Kvm`].
pub fn create_ram(vm: &VmFd, ranges: &[(u64, u64)]) -> Result<Ram, Error> {
    let mib = ranges.iter().map(|(_, bytes)| bytes).sum::<u64>() >> 20;
    let failed = |reason: String| Error::Memory { mib, reason };
    let mut wanted = Vec::new();
    for (start, bytes) in ranges {
        let bytes = usize::try_from(*bytes).map_err(|e| failed(e.to_string()))?;
        wanted.push((GuestAddress(*start), bytes));
    }
    let ram = Ram::from_ranges(&wanted).map_err(|e| failed(e.to_string()))?;
    for (slot, range) in (0..).zip(ram.iter()) {
        let place = kvm_userspace_memory_region {
            slot,
            flags: 0,
            guest_phys_addr: range.start_addr().0,
            memory_size: range.len(),
            userspace_addr: range.as_ptr() as u64,
        };
        // SAFETY: the range is a private anonymous mapping of `memory_size` bytes that belongs to `ram`,
        // in which this process holds no references, only volatile accessors. `ram` lives until all vCPU
        // threads are joined (run.rs), so the guest never reaches memory that was unmapped and reused.
        unsafe { vm.set_user_memory_region(place) }.map_err(error::kvm("add memory to the VM"))?;
    }
    Ok(ram)
}

/// A shared mapping that appears in the guest where the guest puts it, or nowhere.
pub struct MovableMemory {
    vm: Arc<VmFd>,
    slot: u32,
    mapping: Arc<MmapRegion<()>>,
    placed: Option<u64>,
}

impl MovableMemory {
    /// Not visible yet. `slot` is KVM's, used by nobody else.
    pub fn new(vm: Arc<VmFd>, slot: u32, mapping: Arc<MmapRegion<()>>) -> MovableMemory {
        MovableMemory { vm, slot, mapping, placed: None }
    }

    /// Bytes of it.
    pub fn bytes(&self) -> u64 {
        self.mapping.size() as u64
    }

    /// Shows it at `address`, a multiple of a page, or hides it.
    ///
    /// # Errors
    /// What KVM returns, such as EEXIST where RAM lies; it is hidden then.
    pub fn place(&mut self, address: Option<u64>) -> Result<(), Error> {
        if self.placed == address {
            return Ok(());
        }
        if self.placed.is_some() {
            // KVM wants a slot to be deleted before it moves and grows into another place.
            self.set_slot(0, 0)?;
            self.placed = None;
        }
        if let Some(address) = address {
            self.set_slot(address, self.bytes())?;
            self.placed = Some(address);
        }
        Ok(())
    }

    fn set_slot(&self, address: u64, bytes: u64) -> Result<(), Error> {
        let place = kvm_userspace_memory_region {
            slot: self.slot,
            flags: 0,
            guest_phys_addr: address,
            memory_size: bytes,
            userspace_addr: self.mapping.as_ptr() as u64,
        };
        // SAFETY: `bytes` is 0 (the slot goes away) or the size of a shared file mapping that this object
        // owns and in which this process holds no references. Dropping the object hides it before.
        unsafe { self.vm.set_user_memory_region(place) }.map_err(error::kvm("move the region"))
    }
}

impl Drop for MovableMemory {
    fn drop(&mut self) {
        if self.place(None).is_err() {
            // The guest still sees it: the mapping must never be replaced by another.
            std::mem::forget(self.mapping.clone());
        }
    }
}
