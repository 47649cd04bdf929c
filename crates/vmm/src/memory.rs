// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The guest's RAM, and the shared region at a BAR. Both are mappings of this process that KVM
//! makes visible to the guest.
//!
//! The VMM's unsafe code is only in this file and in signal_mask.rs.

use std::sync::Arc;

use kvm_bindings::kvm_userspace_memory_region;
use kvm_ioctls::VmFd;
use vm_memory::{GuestAddress, GuestMemory, GuestMemoryMmap, GuestMemoryRegion, MmapRegion};

use crate::error::{self, Error};

/// RAM, as KVM and the loaders use it.
pub type Ram = GuestMemoryMmap<()>;

/// Maps RAM at `ranges` (start and size, ascending) and makes it visible to the guest in KVM's
/// slots 0, 1 and so on.
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
        // SAFETY: the range is a private anonymous mapping of `memory_size` bytes that belongs to
        // `ram`. This process holds no references into it, only volatile accessors. `ram` lives
        // until all vCPU threads are joined (run.rs), so the guest never reaches memory that was
        // unmapped and reused.
        unsafe { vm.set_user_memory_region(place) }.map_err(error::kvm("add memory to the VM"))?;
    }
    Ok(ram)
}

/// A shared mapping. The guest chooses the address at which it appears, or hides it.
pub struct MovableMemory {
    vm: Arc<VmFd>,
    slot: u32,
    mapping: Arc<MmapRegion<()>>,
    placed: Option<u64>,
}

impl MovableMemory {
    /// Makes a mapping that is not visible yet. `slot` is a KVM slot that nothing else uses.
    pub fn new(vm: Arc<VmFd>, slot: u32, mapping: Arc<MmapRegion<()>>) -> MovableMemory {
        MovableMemory { vm, slot, mapping, placed: None }
    }

    /// Size of the mapping.
    pub fn bytes(&self) -> u64 {
        self.mapping.size() as u64
    }

    /// Makes the mapping visible at `address`, a multiple of the page size, or hides it if
    /// `address` is `None`.
    ///
    /// # Errors
    /// The error of KVM, for example EEXIST if there is RAM at this address. The mapping is then
    /// hidden.
    pub fn place(&mut self, address: Option<u64>) -> Result<(), Error> {
        if self.placed == address {
            return Ok(());
        }
        if self.placed.is_some() {
            // KVM requires that a slot is deleted before it moves to an address that overlaps its
            // old one.
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
        // SAFETY: `bytes` is 0 (which deletes the slot) or the size of a shared file mapping. This
        // object owns the mapping, and this process holds no references into it. Dropping the
        // object hides the mapping first.
        unsafe { self.vm.set_user_memory_region(place) }.map_err(error::kvm("move the region"))
    }
}

impl Drop for MovableMemory {
    fn drop(&mut self) {
        if self.place(None).is_err() {
            // The guest still sees the mapping, so its addresses must never be reused.
            std::mem::forget(self.mapping.clone());
        }
    }
}
