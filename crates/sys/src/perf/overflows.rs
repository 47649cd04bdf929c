// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Overflows of an event that samples: somebody is told when there is one, and memory says so.

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

/// Who is told of overflows.
#[derive(Clone, Debug)]
pub enum Listener {
    /// This thread gets SIGIO.
    Thread(u32),
    /// A BPF program of type perf_event runs, on the CPU on which the event's thread runs. It returns 1: else the kernel
    /// writes no record, and nothing [has happened](Overflows::happened).
    Program(Arc<OwnedFd>),
}

/// The event's ring buffer: a record lies in it for each overflow. Nobody reads them, so that they are overwritten; how
/// far the kernel got is enough.
#[derive(Debug)]
pub struct Overflows {
    start: NonNull<u8>,
    bytes: usize,
    seen: u64,
}

impl Overflows {
    /// Of `event`, which was opened with a period.
    ///
    /// # Errors
    /// EPERM beyond what the user may lock (kernel.perf_event_mlock_kb, RLIMIT_MEMLOCK); what fcntl(2) or ioctl(2)
    /// returns.
    pub fn watch(event: &PerfEvent, listener: &Listener) -> io::Result<Overflows> {
        // The page that describes the ring, and the ring.
        let bytes = 2 * rustix::param::page_size();
        let (rights, flags) = (ProtFlags::READ, MapFlags::SHARED);
        // SAFETY: a null hint lets the kernel choose a free range, so no existing mapping changes.
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

    /// Whether there were any since this was asked last. A load, and no system call.
    pub fn happened(&mut self) -> bool {
        let head = self.start.as_ptr().wrapping_add(DATA_HEAD).cast::<AtomicU64>();
        // SAFETY: inside the mapping, which begins on a page; the kernel writes it too, which an atomic allows.
        let now = unsafe { &*head }.load(Ordering::Acquire);
        std::mem::replace(&mut self.seen, now) != now
    }
}

fn signal_to(event: &PerfEvent, tid: u32) -> io::Result<()> {
    let pid = tid.try_into().map_err(|_| io::ErrorKind::InvalidInput)?;
    let owner = Owner { kind: OWNER_TID, pid };
    // SAFETY: an open descriptor; the command reads one structure, which is valid for the call.
    let set = unsafe { libc::fcntl(event.0.as_raw_fd(), SET_OWNER, &raw const owner) };
    if set != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: an open descriptor; the command takes no pointer.
    match unsafe { libc::fcntl(event.0.as_raw_fd(), libc::F_SETFL, libc::O_ASYNC) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Drop for Overflows {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `watch` got, and no reference into it outlives `self`. An error would mean
        // that it is not mapped: nothing to do.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

// SAFETY: the memory is only read, by atomic loads, and belongs to the process, not to a thread.
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
