// SPDX-License-Identifier: GPL-2.0-only
//! A BPF array mapped into this process.

use std::{
    io,
    marker::PhantomData,
    os::fd::{AsRawFd, BorrowedFd},
    ptr::{self, NonNull},
};

/// Types that lie in the sensor's arrays, or that its programs are run on.
///
/// # Safety
///
/// Plain integers only: every bit pattern is a value, and the type has the size
/// and layout of the map's value (the generated types assert theirs).
pub unsafe trait Record: Copy {}

// SAFETY: generated from bpf/sensor_shared.h, integers and arrays of them.
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

/// A mapped BPF array of `len` records that BPF programs write at the same time.
pub struct Array<T: Record> {
    base: NonNull<T>,
    len: usize,
    bytes: usize,
    records: PhantomData<T>,
}

// SAFETY: the mapping belongs to the process, not to a thread; all access is by
// volatile or atomic operations on integers.
unsafe impl<T: Record> Send for Array<T> {}
// SAFETY: as above.
unsafe impl<T: Record> Sync for Array<T> {}

impl<T: Record> Array<T> {
    /// Maps the first `len` records of a `BPF_F_MMAPABLE` array.
    pub(crate) fn map(fd: BorrowedFd<'_>, len: usize) -> io::Result<Self> {
        // The kernel rounds a value's size up to eight bytes; ours are multiples already.
        const { assert!(size_of::<T>() % 8 == 0) };
        let bytes = len * size_of::<T>();
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a fresh shared mapping at an address of the kernel's choice.
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

    /// Address of a record, valid as long as the array; `None` outside of it.
    pub(crate) fn at(&self, index: u32) -> Option<NonNull<T>> {
        let index = usize::try_from(index).ok().filter(|index| *index < self.len)?;
        // SAFETY: inside the mapping, by the check above.
        Some(unsafe { self.base.add(index) })
    }

    /// A copy of a record. Its fields may be from different moments.
    #[must_use]
    pub fn read(&self, index: u32) -> Option<T> {
        // SAFETY: in bounds, aligned, and any bytes are a valid T (`Record`).
        self.at(index).map(|record| unsafe { record.as_ptr().read_volatile() })
    }

    /// Stores a whole record, which this side alone writes; nothing outside the array.
    pub(crate) fn write(&self, index: u32, value: &T)
    where
        T: Copy,
    {
        if let Some(record) = self.at(index) {
            // SAFETY: in bounds and aligned, plain integers.
            unsafe { record.as_ptr().write_volatile(*value) };
        }
    }
}

impl<T: Record> Drop for Array<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping that `map` made; nothing borrowed from it outlives self.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}
