// SPDX-License-Identifier: GPL-2.0-only
//! Waits for signals, commands, changes of vCPUs, and the supervisor's end.

use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, getppid, pidfd_open};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::error::{DaemonError, system};
use crate::handle::MessageReceiver;
use crate::supervisor::take_signal;
use crate::wake::clear_wake;

/// The sources that wake the main thread.
pub(super) struct Wait {
    end: UnixStream,
    reload: UnixStream,
    supervisor: Option<OwnedFd>,
    pub messages: MessageReceiver,
}

/// The sources that have woken the main thread.
#[derive(Default)]
pub(super) struct Woken {
    pub end: bool,
    pub reload: bool,
    pub supervisor_gone: bool,
    pub vcpus: bool,
}

impl Wait {
    pub fn new(supervisor: Option<u32>, messages: MessageReceiver) -> Result<Wait, DaemonError> {
        let stream = |signals: &[i32]| -> io::Result<UnixStream> {
            let (out, input) = UnixStream::pair()?;
            out.set_nonblocking(true)?;
            for &signal in signals {
                signal_hook::low_level::pipe::register(signal, input.try_clone()?)?;
            }
            Ok(out)
        };
        Ok(Wait {
            end: stream(&[SIGTERM, SIGINT]).map_err(system("signal handlers"))?,
            reload: stream(&[SIGHUP]).map_err(system("signal handlers"))?,
            supervisor: supervisor.map(watch_supervisor).transpose()?,
            messages,
        })
    }

    /// Waits until a source is ready, for at most `timeout`. `vcpus`: the descriptor
    /// [`daemon_fd`](crate::boosts::rt_thread::RtShared::daemon_fd).
    pub fn wait(&self, vcpus: Option<BorrowedFd<'_>>, timeout: Option<Duration>) -> Woken {
        let timeout = timeout
            .map(|t| Timespec { tv_sec: t.as_secs() as i64, tv_nsec: i64::from(t.subsec_nanos()) });
        let messages = self.messages.fd();
        let mut fds = vec![
            PollFd::new(&self.end, PollFlags::IN),
            PollFd::new(&self.reload, PollFlags::IN),
            PollFd::new(&messages, PollFlags::IN),
        ];
        let supervisor_at = fds.len();
        fds.extend(self.supervisor.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
        let vcpus_at = fds.len();
        fds.extend(vcpus.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
        if poll(&mut fds, timeout.as_ref()).is_err() {
            return Woken::default();
        }
        let ready = |n: usize| fds.get(n).is_some_and(|fd| fd.revents().contains(PollFlags::IN));
        let woken = Woken {
            end: take_signal(&self.end),
            reload: take_signal(&self.reload),
            supervisor_gone: self.supervisor.is_some() && ready(supervisor_at),
            vcpus: vcpus.is_some() && ready(vcpus_at),
        };
        if let Some(fd) = vcpus.filter(|_| woken.vcpus) {
            clear_wake(fd);
        }
        woken
    }
}

/// Opens a pidfd of the supervisor, if the supervisor is still the parent of this process.
fn watch_supervisor(pid: u32) -> Result<OwnedFd, DaemonError> {
    let gone = || system("the supervisor")(io::Error::from(io::ErrorKind::NotFound));
    let pid = Pid::from_raw(pid as i32).ok_or_else(gone)?;
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).map_err(|_| gone())?;
    // Check the parent after pidfd_open(2): either the pidfd is that of the parent, or the parent
    // is gone.
    if getppid() == Some(pid) { Ok(pidfd) } else { Err(gone()) }
}
