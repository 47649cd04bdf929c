// SPDX-License-Identifier: GPL-2.0-only
//! The supervisor is the parent process of the daemon. Whenever the daemon dies, the supervisor
//! restores every thread that the daemon changed, and starts the daemon again.
//!
//! | killed     | who restores                                                        |
//! |------------|---------------------------------------------------------------------|
//! | daemon     | the supervisor, from the journal                                    |
//! | supervisor | the daemon, which notices the death of its parent and ends          |
//! | both       | `paracord restore` (systemd's ExecStopPost), or the next start      |

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use paracord_sys::sched;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tracing::{error, info, warn};

use crate::boosts::journal::{Journal, RestoreReport};
use crate::boosts::uclamp;
use crate::daemon_end::RtEnd;
use crate::place::PlaceJournal;
use crate::run_dir::{RunDir, RunDirError, keep_journals, remove_journal, uclamp_path};
use crate::scheduler::imports;
use crate::settings::Settings;

/// How long the daemon may take to end by itself.
const STOP_PATIENCE: Duration = Duration::from_secs(5);
/// How long a killed daemon may take to exit.
const KILL_PATIENCE: Duration = Duration::from_secs(3);
/// Delay before the first restart. The delay doubles with each restart.
const BACKOFF_FIRST: Duration = Duration::from_millis(100);
const BACKOFF_MAX: Duration = Duration::from_secs(10);
/// If a daemon dies after it has run for at least this long, the count of restarts and the delay
/// are reset.
const GOOD_RUN: Duration = Duration::from_secs(60);

/// Why the supervisor ended with an error.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    /// The process does not run as root.
    #[error("must run as root: it changes the scheduling of other users' processes")]
    NotRoot,
    /// The run directory cannot be used.
    #[error(transparent)]
    RunDir(#[from] RunDirError),
    /// A system call failed.
    #[error("{what}: {source}")]
    System {
        /// The operation that failed.
        what: &'static str,
        /// Error of the call.
        source: io::Error,
    },
    /// The daemon ended with an error of its own, which it has reported.
    #[error("the daemon ended with exit status {0}")]
    Daemon(i32),
    /// The daemon died, and restarts are disabled or their limit is reached.
    #[error("the daemon died ({0}); all threads are restored")]
    Died(String),
}

fn system(what: &'static str) -> impl FnOnce(io::Error) -> SupervisorError {
    move |source| SupervisorError::System { what, source }
}

/// Runs the daemon, and restarts it when it dies, until the supervisor is told to end or the daemon
/// ends by itself. `command` creates the command that starts a daemon process (see
/// [`crate::daemon::run`]). The standard input of that process becomes the lock file.
///
/// # Errors
/// [`SupervisorError`].
pub fn run(
    settings: &Settings,
    proc_root: &Path,
    command: impl Fn() -> Command,
) -> Result<(), SupervisorError> {
    if !rustix::process::geteuid().is_root() {
        return Err(SupervisorError::NotRoot);
    }
    let run_dir = RunDir::lock(&settings.run_dir)?;
    if let Some(report) = run_dir.clean_up(proc_root)? {
        tell("an earlier run left changed threads", &report);
    }
    let journal = keep_journals(&settings.run_dir, proc_root).map_err(RunDirError::from)?;
    let placements = PlaceJournal::open(&settings.run_dir, proc_root).map_err(RunDirError::from)?;
    outrank_vcpus(settings.rt.actuator_priority);
    let signals = Signals::new()?;
    let supervisor = Supervisor { settings, proc_root, run_dir, journal, placements, signals };
    let result = supervisor.watch(&command);
    let report = supervisor.restore();
    if report != RestoreReport::default() {
        tell("the daemon left changed threads", &report);
    }
    if report.failed.is_empty() {
        remove_journal(&settings.run_dir);
    }
    result
}

/// Gives the supervisor a real-time priority above boosted vCPUs. If the daemon no longer ends
/// boosts, boosted vCPUs can take every CPU. The supervisor must be able to run even then. Children
/// of the supervisor start with normal scheduling.
fn outrank_vcpus(priority: u32) {
    if let Err(error) = sched::become_realtime(priority) {
        warn!("supervisor without real-time priority, a recovery may be late: {error}");
    }
    lock_memory();
}

/// Locks the memory of this process, because a page fault must not delay code that ends boosts.
pub(crate) fn lock_memory() {
    use rustix::mm::{MlockAllFlags, mlockall};
    if let Err(error) = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE) {
        warn!("memory is not locked, boosts may be late when memory is short: {error}");
    }
}

fn tell(what: &str, report: &RestoreReport) {
    info!("{what}: {report}");
    for failure in &report.failed {
        error!("not restored: {failure}");
    }
}

struct Signals {
    end: UnixStream,
    reload: UnixStream,
}

impl Signals {
    fn new() -> Result<Signals, SupervisorError> {
        let (end, end_in) = UnixStream::pair().map_err(system("socket pair"))?;
        let (reload, reload_in) = UnixStream::pair().map_err(system("socket pair"))?;
        let register = |signal, to: &UnixStream| {
            to.try_clone().and_then(|to| signal_hook::low_level::pipe::register(signal, to))
        };
        register(SIGTERM, &end_in)
            .and_then(|_| register(SIGINT, &end_in))
            .and_then(|_| register(SIGHUP, &reload_in))
            .map_err(system("signal handlers"))?;
        for stream in [&end, &reload] {
            stream.set_nonblocking(true).map_err(system("socket pair"))?;
        }
        Ok(Signals { end, reload })
    }
}

/// Returns whether a signal has arrived since the last call.
pub(crate) fn take_signal(mut stream: &UnixStream) -> bool {
    let mut some = [0u8; 64];
    matches!(io::Read::read(&mut stream, &mut some), Ok(n) if n > 0)
}

struct Supervisor<'a> {
    settings: &'a Settings,
    proc_root: &'a Path,
    run_dir: RunDir,
    journal: Journal,
    placements: Option<PlaceJournal>,
    signals: Signals,
}

impl Supervisor<'_> {
    fn watch(&self, command: &impl Fn() -> Command) -> Result<(), SupervisorError> {
        let (mut restarts, mut backoff) = (0, BACKOFF_FIRST);
        loop {
            let started = Instant::now();
            let status = self.run_once(command)?;
            if status.success() {
                return Ok(());
            }
            let died = Instant::now();
            let report = self.restore();
            let how = match (status.code(), status.signal()) {
                // The daemon has reported why it ended. After a restart, it would end for the same
                // reason.
                (Some(code), _) if code != PANIC_EXIT => return Err(SupervisorError::Daemon(code)),
                (Some(_), _) => "a bug".to_owned(),
                (_, Some(signal)) => format!("signal {signal}"),
                (None, None) => "unknown".to_owned(),
            };
            let us = died.elapsed().as_micros();
            tell(&format!("the daemon died ({how}), looked after its threads in {us} us"), &report);
            if started.elapsed() >= GOOD_RUN {
                (restarts, backoff) = (0, BACKOFF_FIRST);
            }
            let supervisor = &self.settings.supervisor;
            if !supervisor.restart || restarts >= supervisor.restarts_max {
                return Err(SupervisorError::Died(how));
            }
            restarts += 1;
            info!("starting the daemon again in {} ms", backoff.as_millis());
            if self.wait(&[], Some(backoff)) == Event::End {
                return Ok(());
            }
            backoff = (backoff * 2).min(BACKOFF_MAX);
        }
    }

    fn restore(&self) -> RestoreReport {
        let mut report = self.journal.restore_all(self.proc_root);
        let uclamps = uclamp_path(&self.settings.run_dir);
        if let Err(error) = uclamp::restore_all(&uclamps, self.proc_root, &mut report) {
            report.failed.push(error.to_string());
        }
        if let Some(placements) = &self.placements {
            placements.restore_all(self.proc_root, &mut report);
        }
        imports::give_back(&self.settings.run_dir, self.proc_root, &mut report);
        report
    }

    /// Runs the daemon until it has ended.
    ///
    /// On a busy host, it may take seconds until a killed daemon has ended: its ordinary threads
    /// need CPU time to end, and boosted vCPUs may leave them little. But only the daemon's
    /// real-time thread starts boosts, and that thread ends quickly. So the supervisor ends the
    /// boosts as soon as the real-time thread has ended.
    fn run_once(&self, command: &impl Fn() -> Command) -> Result<ExitStatus, SupervisorError> {
        let lock = self.run_dir.share_lock().map_err(system("duplicating the lock"))?;
        let mut child = command().stdin(lock).spawn().map_err(system("starting the daemon"))?;
        let mut rt = RtEnd::Sought;
        let pidfd = Pid::from_raw(child.id() as i32)
            .ok_or(rustix::io::Errno::SRCH)
            .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()))
            .map_err(|e| system("pidfd of the daemon")(e.into()))?;
        loop {
            rt = rt.look(self.proc_root, child.id());
            match self.wait(&[Some(&pidfd), rt.fd()], rt.patience()) {
                Event::RtEnded => {
                    rt = RtEnd::Known;
                    let report = self.journal.restore_all(self.proc_root);
                    if report != RestoreReport::default() {
                        tell("the daemon boosts nothing any more", &report);
                    }
                }
                Event::Ended => return child.wait().map_err(system("waiting for the daemon")),
                Event::Reload => {
                    let _ = pidfd_send_signal(&pidfd, Signal::HUP);
                }
                Event::End => return self.stop(&mut child, &pidfd),
                Event::Nothing => {}
            }
        }
    }

    fn stop(&self, child: &mut Child, pidfd: &OwnedFd) -> Result<ExitStatus, SupervisorError> {
        let _ = pidfd_send_signal(pidfd, Signal::TERM);
        let start = Instant::now();
        while start.elapsed() < STOP_PATIENCE {
            let left = STOP_PATIENCE.saturating_sub(start.elapsed());
            if self.wait(&[Some(pidfd)], Some(left)) == Event::Ended {
                let status = child.wait().map_err(system("waiting for the daemon"))?;
                // The daemon was told to end. If it died by a signal or a panic, return success, so
                // that it is not started again. Return any other exit status unchanged.
                let kept = status.code().is_some_and(|code| code != PANIC_EXIT);
                return Ok(if kept { status } else { ExitStatus::default() });
            }
        }
        warn!("the daemon does not end, killing it");
        let _ = child.kill();
        let killed = Instant::now();
        while killed.elapsed() < KILL_PATIENCE {
            let left = KILL_PATIENCE.saturating_sub(killed.elapsed());
            if self.wait(&[Some(pidfd)], Some(left)) == Event::Ended {
                child.wait().map_err(system("waiting for the daemon"))?;
                return Ok(ExitStatus::default());
            }
        }
        // The daemon hangs in the kernel and never returns to its own code. So the supervisor can
        // restore the threads that the daemon changed, although the daemon is not gone yet.
        warn!("the daemon is killed and does not die, going on without it");
        Ok(ExitStatus::default())
    }

    /// Waits for a signal, or until one of `others` ends. `others` are the daemon and its real-time
    /// thread.
    fn wait(&self, others: &[Option<&OwnedFd>], timeout: Option<Duration>) -> Event {
        let timeout = timeout
            .map(|t| Timespec { tv_sec: t.as_secs() as i64, tv_nsec: i64::from(t.subsec_nanos()) });
        let mut fds = vec![
            PollFd::new(&self.signals.end, PollFlags::IN),
            PollFd::new(&self.signals.reload, PollFlags::IN),
        ];
        fds.extend(others.iter().flatten().map(|fd| PollFd::new(*fd, PollFlags::IN)));
        let _ = poll(&mut fds, timeout.as_ref());
        let ended = |n: usize| fds.get(n).is_some_and(|fd| fd.revents().contains(PollFlags::IN));
        if ended(2) {
            Event::Ended
        } else if ended(3) {
            Event::RtEnded
        } else if take_signal(&self.signals.end) {
            Event::End
        } else if take_signal(&self.signals.reload) {
            Event::Reload
        } else {
            Event::Nothing
        }
    }
}

/// Exit status of a Rust program that has panicked.
const PANIC_EXIT: i32 = 101;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Event {
    Ended,
    RtEnded,
    End,
    Reload,
    Nothing,
}

#[cfg(test)]
#[path = "supervisor_tests.rs"]
mod tests;
