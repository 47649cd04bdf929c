// SPDX-License-Identifier: GPL-2.0-only
//! How the supervisor learns, before the daemon has ended, that the daemon no longer boosts
//! anything.

use std::path::Path;
use std::time::Duration;

use paracord_sys::proc;
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::boosts::rt_thread::RT_THREAD;

/// Interval at which the supervisor looks for the daemon's real-time thread after the daemon's
/// start. The thread starts once the BPF programs are loaded, or when KVM becomes available.
const SEEK_EVERY: Duration = Duration::from_secs(1);

/// What the supervisor knows about the end of the daemon's real-time thread.
pub enum RtEnd {
    /// The thread was not found yet.
    Sought,
    /// The descriptor of the thread is readable when the thread has ended.
    Awaited(OwnedFd),
    /// The thread has ended, or its end cannot be seen (before Linux 6.9).
    Known,
}

impl RtEnd {
    /// Looks for the thread in process `pid`, unless the thread was found before.
    pub fn look(self, proc_root: &Path, pid: u32) -> RtEnd {
        let RtEnd::Sought = self else { return self };
        let is_rt = |tid: &u32| proc::comm(proc_root, *tid).is_ok_and(|name| name == RT_THREAD);
        let found = proc::threads(proc_root, pid).ok().and_then(|mut tids| tids.find(is_rt));
        let Some(tid) = found else { return RtEnd::Sought };
        // PIDFD_THREAD (include/uapi/linux/pidfd.h), which rustix does not know.
        let of_thread = PidfdFlags::from_bits_retain(libc::O_EXCL as u32);
        let opened = Pid::from_raw(tid as i32).and_then(|tid| pidfd_open(tid, of_thread).ok());
        opened.map_or(RtEnd::Known, RtEnd::Awaited)
    }

    /// The descriptor, if the end of the thread is awaited.
    pub fn fd(&self) -> Option<&OwnedFd> {
        if let RtEnd::Awaited(fd) = self { Some(fd) } else { None }
    }

    /// Time until the next call of [`look`](RtEnd::look). `None` if no further call is needed.
    pub fn patience(&self) -> Option<Duration> {
        matches!(self, RtEnd::Sought).then_some(SEEK_EVERY)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn is_readable(fd: &OwnedFd, seconds: i64) -> bool {
        let timeout = Timespec { tv_sec: seconds, tv_nsec: 0 };
        poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&timeout)).unwrap() == 1
    }

    /// A thread of this process stands in for the daemon's real-time thread. The process itself
    /// does not end.
    #[test]
    fn the_end_of_the_real_time_thread_is_seen_although_its_process_goes_on() {
        let (proc_root, pid) = (Path::new("/proc"), std::process::id());
        assert!(matches!(RtEnd::Sought.look(proc_root, pid), RtEnd::Sought));
        let (begin, begun) = channel();
        let (end, ends) = channel::<()>();
        let body = move || {
            begin.send(()).unwrap();
            let _ = ends.recv();
        };
        let thread = std::thread::Builder::new().name(RT_THREAD.into()).spawn(body).unwrap();
        begun.recv().unwrap();
        let found = RtEnd::Sought.look(proc_root, pid);
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let version: Vec<u32> = release.split('.').map_while(|part| part.parse().ok()).collect();
        if version < vec![6, 9] {
            assert!(matches!(found, RtEnd::Known), "Linux {release} has no PIDFD_THREAD");
        } else {
            let fd = found.fd().unwrap();
            assert!(!is_readable(fd, 0));
            drop(end);
            assert!(is_readable(fd, 10));
            return thread.join().unwrap();
        }
        drop(end);
        thread.join().unwrap();
    }
}
