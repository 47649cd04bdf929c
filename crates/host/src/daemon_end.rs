// SPDX-License-Identifier: GPL-2.0-only
//! How the supervisor learns early that the daemon is about to end.

use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::FdFlags;
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::boosts::rt_thread::RT_THREAD;

/// Interval at which the daemon's real-time thread is looked for after the daemon's start.
const SEEK_EVERY: Duration = Duration::from_millis(200);

/// What the supervisor knows of the end of the daemon's real-time thread.
pub enum RtEnd {
    /// The thread was not found yet.
    Sought,
    /// The descriptor of the thread is readable when the thread has ended.
    Awaited(OwnedFd),
    /// The thread has ended, or its end cannot be seen.
    Known,
}

impl RtEnd {
    /// Looks for the thread in process `pid`, unless it was found.
    pub fn look(self, proc_root: &Path, pid: u32) -> RtEnd {
        let RtEnd::Sought = self else { return self };
        let Some(tid) = thread_of_name(proc_root, pid, RT_THREAD) else { return RtEnd::Sought };
        // PIDFD_THREAD (include/uapi/linux/pidfd.h), which rustix does not know.
        let of_thread = PidfdFlags::from_bits_retain(libc::O_EXCL as u32);
        let opened = Pid::from_raw(tid).and_then(|tid| pidfd_open(tid, of_thread).ok());
        opened.map_or(RtEnd::Known, RtEnd::Awaited)
    }

    /// The descriptor, if the end of the thread is awaited.
    pub fn fd(&self) -> Option<&OwnedFd> {
        if let RtEnd::Awaited(fd) = self { Some(fd) } else { None }
    }

    /// Time until the next look.
    pub fn patience(&self) -> Option<Duration> {
        matches!(self, RtEnd::Sought).then_some(SEEK_EVERY)
    }
}

/// The ID of the thread of process `pid` with this name.
fn thread_of_name(proc_root: &Path, pid: u32, name: &str) -> Option<i32> {
    let threads = std::fs::read_dir(proc_root.join(format!("{pid}/task"))).ok()?;
    threads.flatten().find_map(|thread| {
        let comm = std::fs::read_to_string(thread.path().join("comm")).ok()?;
        (comm.trim_end() == name).then(|| thread.file_name().to_str()?.parse().ok()).flatten()
    })
}

/// Whether the process or thread of a pidfd has ended.
pub fn has_ended(pidfd: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).is_ok() && fds[0].revents().contains(PollFlags::IN)
}

/// Makes a pipe. A child process that is started while the second end, the one for writing, is open
/// inherits this end.
///
/// # Errors
/// If no file descriptor is left.
pub fn inherited_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::fcntl_setfd(&write, FdFlags::empty())?;
    Ok((read, write))
}

/// Whether the other end of a pipe, into which nothing is written, is closed.
pub fn is_closed(pipe: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(pipe, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).is_ok() && fds[0].revents().contains(PollFlags::HUP)
}
