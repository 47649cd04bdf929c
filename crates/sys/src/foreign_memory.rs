// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Writes into a file that an untrusted user owns, without the file's lock and without SIGBUS.
//!
//! write(2) takes the lock of the inode. The owner of the file can hold that lock as long as they
//! like: if they call write(2) with a buffer whose pages a userfaultfd or a FUSE server delivers,
//! the call holds the lock until the page is present. A store into a shared mapping takes no such
//! lock, but raises SIGBUS after the owner has truncated the file.
//!
//! [`ForeignMemory`] maps the file and never touches the mapping. process_vm_writev(2), with this
//! process as the target, copies into the mapping. This call takes no lock of the inode, and
//! returns an error where a store would raise SIGBUS.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Maximum number of parts of one write.
const PARTS_MAX: usize = 4;

/// The first bytes of a file that an untrusted user owns.
#[derive(Debug)]
pub struct ForeignMemory {
    start: NonNull<libc::c_void>,
    bytes: usize,
}

impl ForeignMemory {
    /// Maps the first `bytes` bytes of `file`, which must be open for reading and writing. The file
    /// may be shorter, now or later.
    ///
    /// # Errors
    /// The error of mmap(2).
    pub fn map(file: &File, bytes: usize) -> io::Result<ForeignMemory> {
        // SAFETY: the hint is null, so the kernel chooses a free range and no existing mapping
        // changes.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                file.as_fd(),
                0,
            )
        }?;
        let start = NonNull::new(start).ok_or(io::ErrorKind::InvalidData)?;
        Ok(ForeignMemory { start, bytes })
    }

    /// Writes at most four parts, one after the other, each at its offset.
    ///
    /// # Errors
    /// `InvalidInput` if a part lies outside of the mapping, or if there are too many parts. EFAULT
    /// if a part lies outside of the file, because the file has become shorter. The parts before
    /// that part may have been written.
    pub fn write(&self, parts: &[(u64, &[u8])]) -> io::Result<()> {
        let mut from = [IoSlice::new(&[]); PARTS_MAX];
        let mut to = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; PARTS_MAX];
        if parts.len() > PARTS_MAX {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut bytes = 0;
        for (n, (offset, part)) in parts.iter().enumerate() {
            let offset = usize::try_from(*offset).map_err(|_| io::ErrorKind::InvalidInput)?;
            if offset.checked_add(part.len()).is_none_or(|end| end > self.bytes) {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            from[n] = IoSlice::new(part);
            to[n].iov_base = self.start.as_ptr().wrapping_byte_add(offset);
            to[n].iov_len = part.len();
            bytes += part.len();
        }
        let count = parts.len() as libc::c_ulong;
        let own = std::process::id() as libc::pid_t;
        // SAFETY: IoSlice has the layout of iovec, and `from` borrows the parts. All ranges in `to`
        // lie in the mapping, which exists until drop, and to which no Rust reference exists. The
        // kernel checks each access itself.
        let written = unsafe {
            libc::process_vm_writev(own, from.as_ptr().cast(), count, to.as_ptr(), count, 0)
        };
        match usize::try_from(written) {
            Err(_) => Err(io::Error::last_os_error()),
            Ok(written) if written == bytes => Ok(()),
            Ok(_) => Err(io::Error::from_raw_os_error(libc::EFAULT)),
        }
    }
}

impl Drop for ForeignMemory {
    fn drop(&mut self) {
        // SAFETY: this is exactly the range that `map` mapped, and nothing refers to it. An error
        // would mean that the range is not mapped, so it is ignored.
        let _ = unsafe { munmap(self.start.as_ptr(), self.bytes) };
    }
}

// SAFETY: the mapping belongs to the process, not to a thread, and only the kernel accesses it.
unsafe impl Send for ForeignMemory {}
// SAFETY: as above.
unsafe impl Sync for ForeignMemory {}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileExt, MetadataExt};

    use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, memfd_create};

    use super::*;

    const PAGE: u64 = 4096;

    fn file() -> File {
        let file: File = memfd_create("region", MemfdFlags::CLOEXEC).unwrap().into();
        file.set_len(2 * PAGE).unwrap();
        file
    }

    #[test]
    fn parts_arrive_and_those_outside_are_refused() {
        let file = file();
        let memory = ForeignMemory::map(&file, 2 * PAGE as usize).unwrap();
        // The first part crosses a page.
        memory.write(&[(PAGE - 2, b"abcd"), (7, b"x")]).unwrap();
        let mut copy = [0; 4];
        file.read_exact_at(&mut copy, PAGE - 2).unwrap();
        assert_eq!(&copy, b"abcd");
        file.read_exact_at(&mut copy[..1], 7).unwrap();
        assert_eq!(copy[0], b'x');
        for outside in [2 * PAGE, 2 * PAGE - 1, u64::MAX] {
            let refused = memory.write(&[(outside, b"xy")]).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
        }
    }

    #[test]
    fn a_truncated_file_is_an_error_and_no_signal() {
        let file = file();
        let memory = ForeignMemory::map(&file, 2 * PAGE as usize).unwrap();
        file.set_len(PAGE).unwrap();
        assert_eq!(memory.write(&[(PAGE, b"x")]).unwrap_err().raw_os_error(), Some(libc::EFAULT));
        memory.write(&[(PAGE - 1, b"x")]).unwrap();
        memory.write(&[(PAGE - 1, b"xy")]).unwrap_err();
        file.set_len(2 * PAGE).unwrap();
        memory.write(&[(PAGE, b"x")]).unwrap();
    }

    /// fallocate(2) holds the lock of the inode until it has allocated all pages. A write that
    /// waits for the lock cannot end before that.
    #[test]
    fn a_write_does_not_wait_for_the_lock_of_the_file() {
        let (file, bytes) = (file(), 48 << 20);
        let memory = ForeignMemory::map(&file, 2 * PAGE as usize).unwrap();
        memory.write(&[(0, b"x")]).unwrap();
        let allocated = || file.metadata().unwrap().blocks() * 512;
        // The scheduler may run only the other thread, so that the write comes too late: try again.
        let overtakes = (0..50).any(|_| {
            fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, PAGE, bytes)
                .unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| fallocate(&file, FallocateFlags::empty(), PAGE, bytes).unwrap());
                while allocated() < 4 * PAGE {
                    std::hint::spin_loop();
                }
                memory.write(&[(0, b"y")]).unwrap();
                allocated() < bytes
            })
        });
        assert!(overtakes, "each write waited until the owner let go of the file");
    }
}
