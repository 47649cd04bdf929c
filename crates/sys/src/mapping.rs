// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Words in a file that several processes share.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A file that is mapped shared, for reading and writing, as 64-bit words.
///
/// Use this only for files that no process outside this project can change, as in a run directory
/// that root owns. After a process has truncated the file, the next access raises SIGBUS.
#[derive(Debug)]
pub struct SharedWords {
    start: NonNull<AtomicU64>,
    words: usize,
    // Keeps the file's lock, if the caller took one, for as long as the mapping exists.
    _file: File,
}

impl SharedWords {
    /// Maps the first `words` words of `file`, which must be at least that long.
    ///
    /// # Errors
    /// `UnexpectedEof` if the file is shorter; otherwise the error of mmap(2).
    pub fn map(file: File, words: usize) -> io::Result<SharedWords> {
        let bytes = words.checked_mul(size_of::<AtomicU64>()).ok_or(io::ErrorKind::InvalidInput)?;
        if bytes == 0 || file.metadata()?.len() < bytes as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // SAFETY: the hint is null, so the kernel chooses a free range and no existing mapping
        // changes.
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
        // SAFETY: `map` mapped `words` words at a page boundary, so they are aligned, and they stay
        // mapped until drop. Other processes also write the words, which atomics allow. Any bit
        // pattern is a valid AtomicU64.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: this is exactly the range that `map` mapped, and no reference into it outlives
        // `self`. An error would mean that the range is not mapped, so it is ignored.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.words * size_of::<AtomicU64>()) };
    }
}

// SAFETY: the memory is accessed only through `&[AtomicU64]`, which is Sync. The mapping belongs to
// the process, not to a thread.
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
