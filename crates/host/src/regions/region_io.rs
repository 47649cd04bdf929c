// SPDX-License-Identifier: GPL-2.0-only
//! Reads and writes a region file that the VM's user owns.
//!
//! The user may truncate the file, punch holes into it, or hold its lock. No access by the daemon
//! may wait for that user:
//!
//! - Reads use pread(2), which takes no lock on a tmpfs file. Other file systems are refused.
//! - Writes use [`ForeignMemory`], because write(2) takes the lock on the file.
//!
//! An access can then wait only for the kernel itself, which may have to allocate memory or to read
//! from swap. After an access has waited too long, [`Pauses`] refuses accesses to the region for a
//! while.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use paracord_abi::HEADER_BYTES;
use paracord_sys::clock::now_ns;
use paracord_sys::foreign_memory::ForeignMemory;
use paracord_sys::sched::waits;

use crate::regions::file_system::FileSystem;
use crate::regions::pauses::Pauses;

/// Maximum number of bytes of a region that are mapped. The daemon's memory is locked, and the
/// mapping counts as part of that memory. A region with 4096 slots takes up 8 MiB.
const MAPPED_MAX_BYTES: u64 = 16 << 20;

/// An open region file.
#[derive(Debug)]
pub struct RegionIo {
    file: File,
    memory: ForeignMemory,
    pauses: Pauses,
}

impl RegionIo {
    /// Takes over `file`, and maps its first `bytes` bytes for writes.
    ///
    /// # Errors
    /// If the file is not on tmpfs, or if `bytes` is too large. Also the error of fstatfs(2) or
    /// mmap(2).
    pub fn new(file: File, bytes: u64) -> io::Result<RegionIo> {
        if FileSystem::of(&rustix::fs::fstatfs(&file)?) != FileSystem::Tmpfs {
            return Err(io::Error::other(
                "is not on tmpfs, so that a write could wait for a disk or a server",
            ));
        }
        if bytes > MAPPED_MAX_BYTES {
            return Err(io::Error::other(format!(
                "its slots end at byte {bytes}, beyond {MAPPED_MAX_BYTES}"
            )));
        }
        let memory = ForeignMemory::map(&file, bytes as usize)?;
        Ok(RegionIo { file, memory, pauses: Pauses::default() })
    }

    /// Fills `copy` from the bytes at `offset`. This function is for the main thread.
    ///
    /// # Errors
    /// The error of pread(2), `UnexpectedEof`, or `WouldBlock` while accesses to the region are
    /// paused.
    pub fn read(&self, copy: &mut [u8], offset: u64) -> io::Result<()> {
        self.timed(false, || self.file.read_exact_at(copy, offset))
    }

    /// Like [`read`](RegionIo::read), but for real-time threads: while this access hangs, no other
    /// thread begins an access.
    ///
    /// # Errors
    /// As [`read`](RegionIo::read).
    pub fn read_slot(&self, copy: &mut [u8], offset: u64) -> io::Result<()> {
        self.timed(true, || self.file.read_exact_at(copy, offset))
    }

    /// Reads the header of the region, or as much of the header as the file contains.
    ///
    /// # Errors
    /// As [`read`](RegionIo::read).
    pub fn read_header(&self) -> io::Result<Vec<u8>> {
        self.timed(false, || read_header(&self.file))
    }

    /// Writes the parts one after the other, each at its own offset.
    ///
    /// # Errors
    /// As [`ForeignMemory::write`], or `WouldBlock` while accesses to the region are paused.
    pub fn write(&self, parts: &[(u64, &[u8])]) -> io::Result<()> {
        self.timed(true, || self.memory.write(parts))
    }

    /// Number of accesses that took too long.
    pub fn slow(&self) -> u64 {
        self.pauses.slow()
    }

    /// Time for which accesses to the region are still paused; 0: they are not paused.
    pub fn left_out_ns(&self) -> u64 {
        self.pauses.left_ns(now_ns())
    }

    fn timed<T>(&self, watched: bool, access: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let start_ns = now_ns();
        let token = self.pauses.begin(start_ns, watched)?;
        let waits_before = waits();
        let done = access();
        // A thread that was only preempted has not waited.
        self.pauses.end(token, now_ns(), waits() != waits_before);
        done
    }
}

/// Reads as much of the header as the file contains.
pub(crate) fn read_header(file: &File) -> io::Result<Vec<u8>> {
    let mut header = vec![0; HEADER_BYTES];
    let mut have = 0;
    while have < HEADER_BYTES {
        match file.read_at(&mut header[have..], have as u64) {
            Ok(0) => break,
            Ok(n) => have += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    header.truncate(have);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regions::pauses::SLOW_NS;

    #[test]
    fn an_access_that_hangs_keeps_all_others_away_and_is_counted() {
        let file = tempfile::tempfile_in("/dev/shm").unwrap();
        file.set_len(4096).unwrap();
        let io = RegionIo::new(file, 4096).unwrap();
        io.write(&[(0, b"x")]).unwrap();
        let refused = |done: io::Result<()>| {
            assert_eq!(done.unwrap_err().kind(), io::ErrorKind::WouldBlock);
        };
        let hangs = io.pauses.begin(now_ns() - 2 * SLOW_NS, true).unwrap();
        refused(io.write(&[(0, b"y")]));
        refused(io.read(&mut [0], 0));
        assert!(io.read_header().is_err());
        io.pauses.end(hangs, now_ns(), true);
        refused(io.write(&[(0, b"y")]));
        assert!(io.slow() == 1 && io.left_out_ns() > 0);
    }
}
