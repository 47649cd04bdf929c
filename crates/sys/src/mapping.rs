// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Words of a file, shared between processes.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A file mapped shared for reading and writing, as 64-bit words.
///
/// For files that only this project's processes can change (a root-owned run
/// directory): whoever shortens the file makes the next access a SIGBUS.
#[derive(Debug)]
pub struct SharedWords {
    start: NonNull<AtomicU64>,
    words: usize,
    // Keeps the file's lock, if the caller took one, as long as the mapping.
    _file: File,
}

impl SharedWords {
    /// Maps the first `words` words of `file`, which must be that long.
    ///
    /// # Errors
    /// `UnexpectedEof` when the file is shorter; what mmap(2) returns.
    pub fn map(file: File, words: usize) -> io::Result<SharedWords> {
        let bytes = words.checked_mul(size_of::<AtomicU64>()).ok_or(io::ErrorKind::InvalidInput)?;
        if bytes == 0 || file.metadata()?.len() < bytes as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // SAFETY: a null hint lets the kernel choose a free range, so no
        // existing mapping changes.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::POPULATE,
                file.as_fd(),
                0,
            )
        }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(SharedWords { start, words, _file: file })
    }
}

impl Deref for SharedWords {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: `map` mapped `words` words from a page boundary, hence
        // aligned, and they stay mapped until drop. Other processes write them
        // too, which atomics allow; any bit pattern is a valid AtomicU64.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `map` got, and no reference into it
        // outlives `self`. An error would mean that it is not mapped: nothing to do.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.words * size_of::<AtomicU64>()) };
    }
}

// SAFETY: the memory is only reached through `&[AtomicU64]`, which is Sync, and
// belongs to the process, not to a thread.
unsafe impl Send for SharedWords {}
// SAFETY: as above.
unsafe impl Sync for SharedWords {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn two_mappings_see_each_other_and_short_files_are_refused() {
        let path = std::env::temp_dir().join(format!("paracord-words-{}", std::process::id()));
        let open = || {
            File::options().read(true).write(true).create(true).truncate(false).open(&path).unwrap()
        };
        open().set_len(64).unwrap();
        assert_eq!(SharedWords::map(open(), 9).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        let (one, two) =
            (SharedWords::map(open(), 8).unwrap(), SharedWords::map(open(), 8).unwrap());
        one[7].store(42, Ordering::Release);
        assert_eq!((two[7].load(Ordering::Acquire), two.len()), (42, 8));
        std::fs::remove_file(&path).unwrap();
    }
}
