// SPDX-License-Identifier: GPL-2.0-only
//! A BPF array that is mapped into this process.

use std::{
    io,
    marker::PhantomData,
    os::fd::{AsRawFd, BorrowedFd},
    ptr::{self, NonNull},
};

/// Types of the records in the sensor's arrays, and of the contexts of its programs.
///
/// # Safety
///
/// The type consists of plain integers only, so every bit pattern is a valid value. It has the size
/// and layout of the map's value. Assertions check the size and layout of the generated types.
pub unsafe trait Record: Copy {}

// SAFETY: the type is generated from bpf/sensor_shared.h and consists of integers and arrays of
// integers.
unsafe impl Record for paracord_policy::pc_vcpu {}
// SAFETY: as above.
unsafe impl Record for paracord_policy::pc_vm {}
// SAFETY: as above.
unsafe impl Record for paracord_policy::pc_cpu {}
// SAFETY: as above.
unsafe impl Record for paracord_policy::pc_rq {}
// SAFETY: as above.
unsafe impl Record for paracord_policy::pc_ext_exit {}
// SAFETY: as above.
unsafe impl Record for paracord_policy::pc_unrecorded {}
// SAFETY: as above.
unsafe impl Record for paracord_policy::pc_energy {}
// SAFETY: as above.
unsafe impl Record for paracord_policy::pc_adoption {}
// SAFETY: as above.
unsafe impl Record for paracord_policy::pc_adopt_call {}
// SAFETY: as above.
unsafe impl Record for paracord_policy::pc_tick {}
// SAFETY: as above.
unsafe impl Record for paracord_policy::pc_clamp_call {}
// SAFETY: as above.
unsafe impl Record for paracord_policy::pc_where {}
// SAFETY: as above.
unsafe impl Record for paracord_policy::pc_reserve {}
// SAFETY: as above.
unsafe impl Record for paracord_policy::pc_announcement {}
// SAFETY: as above.
unsafe impl Record for paracord_policy::pc_domain_image {}
// SAFETY: as above.
unsafe impl Record for paracord_policy::pc_pmu_mail {}

/// A mapped BPF array of `len` records, which BPF programs write concurrently.
pub struct Array<T: Record> {
    base: NonNull<T>,
    len: usize,
    bytes: usize,
    records: PhantomData<T>,
}

// SAFETY: the mapping belongs to the process, not to a thread. All accesses are volatile or atomic
// operations on integers.
unsafe impl<T: Record> Send for Array<T> {}
// SAFETY: as above.
unsafe impl<T: Record> Sync for Array<T> {}

impl<T: Record> Array<T> {
    /// Maps the first `len` records of a `BPF_F_MMAPABLE` array.
    pub(crate) fn map(fd: BorrowedFd<'_>, len: usize) -> io::Result<Self> {
        // The kernel rounds the size of a value up to a multiple of eight bytes, so the size of T
        // must be such a multiple.
        const { assert!(size_of::<T>() % 8 == 0) };
        let bytes = len * size_of::<T>();
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: this makes a new shared mapping at an address that the kernel chooses.
        let address = unsafe {
            libc::mmap(ptr::null_mut(), bytes, protection, libc::MAP_SHARED, fd.as_raw_fd(), 0)
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, len, bytes, records: PhantomData })
    }

    /// Number of records.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no records.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Address of a record, valid as long as the array; `None` if `index` is beyond the array.
    pub(crate) fn at(&self, index: u32) -> Option<NonNull<T>> {
        let index = usize::try_from(index).ok().filter(|index| *index < self.len)?;
        // SAFETY: the check above ensures that the record is inside the mapping.
        Some(unsafe { self.base.add(index) })
    }

    /// A copy of a record. Its fields may have been read at different moments.
    #[must_use]
    pub fn read(&self, index: u32) -> Option<T> {
        // SAFETY: the record is in bounds and aligned, and any bytes are a valid T (`Record`).
        self.at(index).map(|record| unsafe { record.as_ptr().read_volatile() })
    }

    /// Stores a whole record. No BPF program may write the record at the same time. Does nothing if
    /// `index` is beyond the array.
    pub(crate) fn write(&self, index: u32, value: &T)
    where
        T: Copy,
    {
        if let Some(record) = self.at(index) {
            // SAFETY: the record is in bounds and aligned, and consists of plain integers.
            unsafe { record.as_ptr().write_volatile(*value) };
        }
    }
}

impl<T: Record> Drop for Array<T> {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `map` made, and nothing that borrows from it outlives
        // self.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}
