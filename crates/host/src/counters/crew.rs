// SPDX-License-Identifier: GPL-2.0-only
//! One thread per CPU. Some threads may be slow to start, because a real-time task that does not
//! sleep can occupy their CPU. The caller that starts the threads waits only for a bounded time. It
//! receives the reports of late threads later.

use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use rustix::fd::OwnedFd;

use crate::stop_thread::StopThread;

/// The channel on which a thread reports once: either that it works, or why it cannot work.
pub(super) type Report = SyncSender<io::Result<()>>;

struct Worker {
    thread: StopThread,
    /// The channel for the thread's report. `None` after the thread has reported.
    starting: Option<Receiver<io::Result<()>>>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        // A thread that has not reported may never run: do not wait for its end.
        if self.starting.is_some() {
            self.thread.abandon();
        }
    }
}

/// The threads. Dropping this value ends them.
#[derive(Default)]
pub(super) struct Crew {
    by_cpu: BTreeMap<u32, Worker>,
    /// CPUs without a working thread, each with the reason.
    lacking: BTreeMap<u32, String>,
}

impl Crew {
    /// Starts a thread for each CPU of `cpus` that has none yet, and waits for the reports of these
    /// threads, for at most `patience` in total. Ends the threads whose CPU is not in `cpus`.
    pub fn follow<Body: FnOnce(&OwnedFd) + Send + 'static>(
        &mut self,
        cpus: &[u32],
        patience: Duration,
        body: impl Fn(u32, Report) -> Body,
    ) {
        self.by_cpu.retain(|cpu, _| cpus.contains(cpu));
        self.lacking.retain(|cpu, _| cpus.contains(cpu));
        for &cpu in cpus {
            if self.by_cpu.contains_key(&cpu) {
                continue;
            }
            let (report, starting) = sync_channel(1);
            match StopThread::start_small(format!("paracord-pmu/{cpu}"), body(cpu, report)) {
                Ok(thread) => {
                    let worker = Worker { thread, starting: Some(starting) };
                    self.by_cpu.insert(cpu, worker);
                }
                Err(error) => drop(self.lacking.insert(cpu, error.to_string())),
            }
        }
        self.await_starting(patience);
    }

    /// Reads the reports that late threads have sent by now.
    pub fn look(&mut self) {
        self.await_starting(Duration::ZERO);
    }

    fn await_starting(&mut self, patience: Duration) {
        let end = Instant::now() + patience;
        let mut failed = Vec::new();
        for (&cpu, worker) in &mut self.by_cpu {
            let Some(starting) = &worker.starting else { continue };
            let left = end.saturating_duration_since(Instant::now());
            let said = match starting.recv_timeout(left) {
                Ok(said) => said,
                Err(RecvTimeoutError::Timeout) => {
                    let why = "it has not begun: something else does not let go of the CPU";
                    self.lacking.insert(cpu, why.into());
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => Err(io::Error::other("it ended")),
            };
            worker.starting = None;
            match said {
                Ok(()) => drop(self.lacking.remove(&cpu)),
                Err(error) => {
                    self.lacking.insert(cpu, error.to_string());
                    failed.push(cpu);
                }
            }
        }
        self.by_cpu.retain(|cpu, _| !failed.contains(cpu));
    }

    /// CPUs without a working thread, each with the reason.
    pub fn lacking(&self) -> &BTreeMap<u32, String> {
        &self.lacking
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    use rustix::event::{PollFd, PollFlags, poll};

    const PATIENCE: Duration = Duration::from_millis(200);

    fn until(stop: &OwnedFd) {
        let _ = poll(&mut [PollFd::new(stop, PollFlags::IN)], None);
    }

    #[test]
    fn one_that_does_not_begin_is_waited_for_only_so_long_and_heard_of_later() {
        let gate = Arc::new(Mutex::new(()));
        let closed = gate.lock().unwrap();
        let mut crew = Crew::default();
        let start = Instant::now();
        let theirs = Arc::clone(&gate);
        crew.follow(&[0, 1, 2, 3], PATIENCE, move |cpu, report| {
            let gate = Arc::clone(&theirs);
            move |stop: &OwnedFd| {
                // The threads of CPUs 2 and 3 stand in for threads whose CPU is occupied by another
                // thread.
                let opened = (cpu >= 2).then(|| gate.lock().unwrap());
                let said = if cpu == 1 { Err(io::Error::other("refused")) } else { Ok(()) };
                report.send(said).unwrap();
                drop(opened);
                until(stop);
            }
        });
        let waited = start.elapsed();
        assert!(waited < 2 * PATIENCE, "for each of them: {waited:?}");
        let lacking: Vec<u32> = crew.lacking().keys().copied().collect();
        assert_eq!(lacking, [1, 2, 3]);
        assert!(crew.lacking()[&1] == "refused" && crew.lacking()[&2].contains("not begun"));
        drop(closed);
        let end = Instant::now() + Duration::from_secs(10);
        while crew.lacking().len() > 1 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
            crew.look();
        }
        assert_eq!(crew.lacking().keys().copied().collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn one_that_never_begins_does_not_hold_up_the_end() {
        let gate = Arc::new(Mutex::new(()));
        let closed = gate.lock().unwrap();
        let mut crew = Crew::default();
        let theirs = Arc::clone(&gate);
        crew.follow(&[0], Duration::ZERO, move |_, report| {
            let gate = Arc::clone(&theirs);
            move |_: &OwnedFd| {
                drop(gate.lock());
                let _ = report.send(Ok(()));
            }
        });
        let start = Instant::now();
        drop(crew);
        assert!(start.elapsed() < Duration::from_secs(1));
        drop(closed);
    }
}
