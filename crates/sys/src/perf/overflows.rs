// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Overflows of a sampling event: a listener is notified of each one, and shared memory shows
//! whether there was one.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::PerfEvent;

/// Offset of data_head in `struct perf_event_mmap_page` (include/uapi/linux/perf_event.h).
const DATA_HEAD: usize = 1024;
/// `struct f_owner_ex`; F_OWNER_TID.
#[repr(C)]
struct Owner {
    kind: libc::c_int,
    pid: libc::pid_t,
}
const OWNER_TID: libc::c_int = 0;
const SET_OWNER: libc::c_int = 15;
/// `_IOW('$', 8, __u32)`.
const IOC_SET_BPF: u32 = 0x4004_2408;

/// The receiver of notifications about overflows.
#[derive(Clone, Debug)]
pub enum Listener {
    /// This thread gets SIGIO.
    Thread(u32),
    /// A BPF program of type perf_event runs, on the CPU where the event's thread runs. The program
    /// must return 1. If it returns 0, the kernel writes no record, and [`Overflows::happened`]
    /// does not see the overflow.
    Program(Arc<OwnedFd>),
}

/// The event's ring buffer, into which the kernel writes a record for each overflow. Nobody reads
/// the records, because the kernel's write position is all that is needed. The buffer is mapped
/// read-only, so the kernel overwrites old records.
#[derive(Debug)]
pub struct Overflows {
    start: NonNull<u8>,
    bytes: usize,
    seen: u64,
}

impl Overflows {
    /// Watches `event`, which must have been opened with a period.
    ///
    /// # Errors
    /// EPERM if the user may not lock that much memory (kernel.perf_event_mlock_kb,
    /// RLIMIT_MEMLOCK); otherwise the error of mmap(2), fcntl(2) or ioctl(2).
    pub fn watch(event: &PerfEvent, listener: &Listener) -> io::Result<Overflows> {
        // One page that describes the ring, and one page of records.
        let bytes = 2 * rustix::param::page_size();
        let (rights, flags) = (ProtFlags::READ, MapFlags::SHARED);
        // SAFETY: the hint is null, so the kernel chooses a free range and no existing mapping
        // changes.
        let start =
            unsafe { mmap(std::ptr::null_mut(), bytes, rights, flags, event.0.as_fd(), 0) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::InvalidData)?;
        let overflows = Overflows { start, bytes, seen: 0 };
        match listener {
            Listener::Thread(tid) => signal_to(event, *tid)?,
            Listener::Program(program) => {
                event.switch(IOC_SET_BPF, program.as_raw_fd() as libc::c_ulong)?;
            }
        }
        Ok(overflows)
    }

    /// Whether the event has overflowed since the last call. This is a load from memory, without a
    /// system call.
    pub fn happened(&mut self) -> bool {
        let head = self.start.as_ptr().wrapping_add(DATA_HEAD).cast::<AtomicU64>();
        // SAFETY: the address is inside the mapping and aligned, because the mapping begins on a
        // page. The kernel writes the word concurrently, which an atomic allows.
        let now = unsafe { &*head }.load(Ordering::Acquire);
        std::mem::replace(&mut self.seen, now) != now
    }
}

fn signal_to(event: &PerfEvent, tid: u32) -> io::Result<()> {
    let pid = tid.try_into().map_err(|_| io::ErrorKind::InvalidInput)?;
    let owner = Owner { kind: OWNER_TID, pid };
    // SAFETY: the descriptor is open. The command reads one structure, which is valid for the call.
    let set = unsafe { libc::fcntl(event.0.as_raw_fd(), SET_OWNER, &raw const owner) };
    if set != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open, and the command takes no pointer.
    match unsafe { libc::fcntl(event.0.as_raw_fd(), libc::F_SETFL, libc::O_ASYNC) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Drop for Overflows {
    fn drop(&mut self) {
        // SAFETY: this is exactly the range that `watch` mapped, and no reference into it outlives
        // `self`. An error would mean that the range is not mapped, so it is ignored.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

// SAFETY: the memory is only read, by atomic loads. The mapping belongs to the process, not to a
// thread.
unsafe impl Send for Overflows {}

#[cfg(test)]
mod tests {
    use super::super::{PerfAttr, kind};
    use super::*;
    use crate::signal::{block_sigio, take_sigio};

    #[test]
    fn overflows_are_seen_once_and_signalled_to_the_thread() {
        let tid = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        block_sigio();
        // PERF_COUNT_SW_TASK_CLOCK
        let attr = PerfAttr {
            kind: kind::SOFTWARE,
            config: 1,
            sample_period: 1_000_000,
            ..PerfAttr::default()
        };
        let event = PerfEvent::open(tid, &attr).unwrap();
        let mut overflows = Overflows::watch(&event, &Listener::Thread(tid)).unwrap();
        assert!(!overflows.happened());
        event.enable().unwrap();
        while event.read().unwrap().count < 5_000_000 {}
        event.disable().unwrap();
        assert!(overflows.happened());
        assert!(!overflows.happened());
        assert!(take_sigio());
    }
}
