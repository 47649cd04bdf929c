// SPDX-License-Identifier: GPL-2.0-only
//! The real-time thread: it receives the sensor's messages, makes the actuator carry them out, and
//! runs the housekeeping tick while any thread is boosted.
//!
//! The thread's priority is above that of every boosted vCPU. The thread's loop neither allocates
//! nor logs nor takes a lock. It marks in [`RtShared`] what other threads must do.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use paracord_policy::{
    PC_EV_CONFIG, PC_EV_TICK, PC_LEVEL_IRQ, PC_MSG_ASKS, PC_MSG_BOOST, PC_MSG_EXEC,
    PC_MSG_EXT_GONE, PC_MSG_GONE, PC_MSG_NEW, PC_MSG_THREADS, PC_MSG_UNBOOST, PC_TICK_MAX, pc_msg,
};
use paracord_sensor::Sensor;
use paracord_sys::sched;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::boosts::actuator::{Action, Actuator, Effect, Message, VcpuTable};
use crate::boosts::index_set::IndexSet;
use crate::boosts::journal_file::ENTRIES;
use crate::boosts::sensor_table::SensorTable;
use crate::boosts::thread::Level;
use crate::settings::RtSettings;
use crate::wake::{clear_wake, eventfd, wake};

/// How long the start of the thread, or two rounds of its loop, may take before the thread counts
/// as stuck.
const PATIENCE: Duration = Duration::from_secs(2);

/// Name of the thread.
pub const RT_THREAD: &str = "paracord-rt";

const STOP: u32 = 1;
/// Request to have the policy evaluate every vCPU, because a configuration has changed.
const REEVALUATE: u32 = 2;
/// Request to hand boosts over to paracord's scheduler, which is now active.
const SCHEDULER_CAME: u32 = 4;
/// Request to take over the boosts of paracord's scheduler, which is about to be stopped.
const SCHEDULER_GOES: u32 = 8;

/// State that the real-time thread shares with other threads.
#[derive(Debug)]
pub struct RtShared {
    requests: AtomicU32,
    vcpu_priority: AtomicU32,
    tick_ns: AtomicU64,
    /// Number of rounds of the loop that have begun. If a thread makes a store, then reads this
    /// number, and later sees that the number has grown by two, the real-time thread has seen the
    /// store.
    rounds: AtomicU64,
    /// vCPUs whose host line must be written.
    pub host_lines: IndexSet,
    wake_rt: OwnedFd,
    wake_host_lines: OwnedFd,
    wake_daemon: OwnedFd,
}

impl RtShared {
    fn new(settings: &RtSettings) -> io::Result<RtShared> {
        let shared = RtShared {
            requests: AtomicU32::new(0),
            vcpu_priority: AtomicU32::new(0),
            tick_ns: AtomicU64::new(0),
            rounds: AtomicU64::new(0),
            host_lines: IndexSet::new(),
            wake_rt: eventfd()?,
            wake_host_lines: eventfd()?,
            wake_daemon: eventfd()?,
        };
        shared.store(settings);
        Ok(shared)
    }

    fn store(&self, settings: &RtSettings) {
        self.vcpu_priority.store(settings.vcpu_priority, Ordering::Relaxed);
        self.tick_ns.store(settings.tick.as_nanos() as u64, Ordering::Relaxed);
    }

    fn request(&self, request: u32) {
        self.requests.fetch_or(request, Ordering::Release);
        wake(&self.wake_rt);
    }

    /// A file descriptor that becomes readable when vCPUs have come or gone, when a VMM has made a
    /// thread, or when paracord's scheduler has been unloaded.
    pub fn daemon_fd(&self) -> BorrowedFd<'_> {
        self.wake_daemon.as_fd()
    }

    /// A file descriptor that becomes readable when indices have been added to
    /// [`host_lines`](RtShared::host_lines).
    pub fn host_lines_fd(&self) -> BorrowedFd<'_> {
        self.wake_host_lines.as_fd()
    }

    /// Wakes the thread that writes the marked host lines.
    pub fn publish_host_lines(&self) {
        wake(&self.wake_host_lines);
    }
}

/// Longest tick interval while a VMM thread other than a vCPU runs with a boost. Such a thread
/// causes no VM exits, so only the tick evaluates it while it runs.
const IO_TICK: Duration = Duration::from_millis(10);

/// The running real-time thread. Dropping this value restores every boosted thread, and ends the
/// real-time thread.
#[derive(Debug)]
pub struct RtThread {
    shared: Arc<RtShared>,
    thread: Option<JoinHandle<()>>,
}

impl RtThread {
    /// Starts the thread. When this function returns, the thread has its priority and consumes
    /// messages.
    ///
    /// # Errors
    /// If the thread or the ring buffer cannot be created, if the kernel refuses the thread its
    /// priority (which needs CAP_SYS_NICE), or if the thread does not start in time.
    pub fn start(
        sensor: Arc<Sensor>,
        table: Arc<SensorTable>,
        mut actuator: Actuator,
        settings: &RtSettings,
    ) -> io::Result<RtThread> {
        let shared = Arc::new(RtShared::new(settings)?);
        let (report, started) = sync_channel(1);
        let priority = settings.actuator_priority;
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name(RT_THREAD.into()).spawn(move || {
            if let Err(error) = sched::become_realtime(priority) {
                let _ = report.send(Err(error));
                return;
            }
            let run = Loop { sensor: &sensor, table: &table, shared: &theirs };
            run.run(
                &mut actuator,
                || drop(report.send(Ok(()))),
                |error| {
                    drop(report.send(Err(io::Error::other(error))));
                },
            );
            actuator.restore_all(&*table);
        })?;
        let running = RtThread { shared, thread: Some(thread) };
        match started.recv_timeout(PATIENCE) {
            Ok(Ok(())) => Ok(running),
            Ok(Err(error)) => Err(error),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                Err(io::Error::other("the real-time thread did not start"))
            }
        }
    }

    /// The state that the thread shares with other threads.
    pub fn shared(&self) -> &Arc<RtShared> {
        &self.shared
    }

    /// Sets the interval of the tick, and the priority of later boosts. The priority of the
    /// real-time thread itself does not change.
    pub fn configure(&self, settings: &RtSettings) {
        self.shared.store(settings);
        wake(&self.shared.wake_rt);
    }

    /// Makes the policy evaluate every vCPU again.
    pub fn reevaluate(&self) {
        self.shared.request(REEVALUATE);
    }

    /// Turns the active boosts into boosts by paracord's scheduler, which must be active. No boost
    /// is lost. Returns false if the thread is stuck.
    #[must_use]
    pub fn scheduler_came(&self) -> bool {
        self.shared.request(SCHEDULER_CAME);
        self.wait_round()
    }

    /// Turns the active boosts into real-time boosts, so that paracord's scheduler can be stopped.
    /// No boost is lost. Returns false if the thread is stuck.
    #[must_use]
    pub fn scheduler_goes(&self) -> bool {
        self.shared.request(SCHEDULER_GOES);
        self.wait_round()
    }

    /// Waits until the real-time thread has seen all stores that the caller has made so far.
    /// Returns false if the thread is stuck.
    pub fn wait_round(&self) -> bool {
        let seen = self.shared.rounds.load(Ordering::Acquire);
        let start = Instant::now();
        // Wait until two more rounds have begun. The round in progress may have begun before the
        // caller's stores. The next round begins after these stores, and has ended when the round
        // after it begins.
        while self.shared.rounds.load(Ordering::Acquire) < seen + 2 {
            if start.elapsed() > PATIENCE {
                return false;
            }
            wake(&self.shared.wake_rt);
            std::thread::sleep(Duration::from_micros(200));
        }
        true
    }
}

impl Drop for RtThread {
    fn drop(&mut self) {
        self.shared.request(STOP);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn level_of(message: &pc_msg) -> Level {
    if u32::from(message.level) == PC_LEVEL_IRQ { Level::Interrupt } else { Level::Full }
}

struct Loop<'a> {
    sensor: &'a Sensor,
    table: &'a SensorTable,
    shared: &'a RtShared,
}

impl Loop<'_> {
    fn run(
        &self,
        actuator: &mut Actuator,
        started: impl FnOnce(),
        failed: impl FnOnce(paracord_sensor::Error),
    ) {
        let lives_changed = Cell::new(false);
        let scheduler_gone = Cell::new(false);
        let actuator = RefCell::new(actuator);
        let ring = self.sensor.messages(|message| match message.kind {
            PC_MSG_EXT_GONE => scheduler_gone.set(true),
            kind => {
                if [PC_MSG_NEW, PC_MSG_GONE, PC_MSG_EXEC, PC_MSG_THREADS].contains(&kind) {
                    lives_changed.set(true);
                }
                self.take(&mut actuator.borrow_mut(), &message);
            }
        });
        let (ring, messages_fd) = match (ring, self.sensor.messages_fd()) {
            (Ok(ring), Ok(fd)) => (ring, fd),
            (Err(error), _) | (_, Err(error)) => return failed(error),
        };
        started();
        let mut last_tick = Instant::now();
        // Whether a VMM thread other than a vCPU was running with a real-time boost at the last
        // tick.
        let mut has_io = false;
        let mut indices = Vec::with_capacity(ENTRIES as usize);
        loop {
            self.shared.rounds.fetch_add(1, Ordering::AcqRel);
            let tick = Duration::from_nanos(self.shared.tick_ns.load(Ordering::Relaxed));
            let tick = if has_io { tick.min(IO_TICK) } else { tick };
            let active = actuator.borrow().is_active();
            self.wait(&messages_fd, active.then(|| tick.saturating_sub(last_tick.elapsed())));
            let requests = self.shared.requests.swap(0, Ordering::AcqRel);
            if requests & SCHEDULER_GOES != 0 {
                // Most boosts by the scheduler were not reported. Now they are.
                self.reevaluate(&mut indices);
            }
            // An error means EINTR, or that the ring buffer is empty.
            let _ = ring.consume();
            if requests & STOP != 0 {
                return;
            }
            let mut actuator = actuator.borrow_mut();
            actuator.set_priority(self.shared.vcpu_priority.load(Ordering::Relaxed));
            let mut host_lines = false;
            // If the vCPU has a slot in a mapped region, mark its host line, and wake the thread
            // that writes host lines. For any other vCPU, wake no thread.
            let mut changed = |index| {
                if self.table.has_line(index) {
                    self.shared.host_lines.mark(index);
                    host_lines = true;
                }
            };
            actuator.carry_out(self.table, &mut changed);
            if requests & SCHEDULER_CAME != 0 {
                actuator.scheduler_came(self.table, &mut changed);
            }
            let is_gone = scheduler_gone.take();
            if is_gone || requests & SCHEDULER_GOES != 0 {
                actuator.scheduler_gone(self.table, &mut changed);
                lives_changed.set(true);
            }
            if is_gone || requests & REEVALUATE != 0 {
                self.reevaluate(&mut indices);
            }
            if active && last_tick.elapsed() >= tick {
                last_tick = Instant::now();
                has_io = self.tick(&mut actuator, &mut indices, &mut changed);
            }
            if host_lines {
                wake(&self.shared.wake_host_lines);
            }
            if lives_changed.take() {
                wake(&self.shared.wake_daemon);
            }
        }
    }

    /// Passes a message about a thread to the actuator.
    fn take(&self, actuator: &mut Actuator, message: &pc_msg) {
        let action = match message.kind {
            PC_MSG_BOOST => Action::Boost(level_of(message)),
            PC_MSG_UNBOOST => Action::Unboost,
            PC_MSG_GONE => Action::Gone,
            PC_MSG_EXEC => Action::Exec,
            PC_MSG_ASKS => {
                let (request, limit) = (message.asks & 0xffff, message.asks >> 16);
                return actuator.ask(self.table, message.vcpu, message.tid, request, limit);
            }
            _ => return,
        };
        let (index, tid, decided_ns) = (message.vcpu, message.tid, message.now_ns);
        actuator.take(Message { action, index, tid, decided_ns });
    }

    /// Makes the policy evaluate every thread whose record is ready. `indices` is preallocated
    /// space for the indices of these threads.
    fn reevaluate(&self, indices: &mut Vec<u32>) {
        indices.clear();
        indices.extend((0..ENTRIES).filter(|&n| self.table.live_thread(n).is_some()));
        let _ = self.sensor.evaluate(PC_EV_CONFIG, indices);
    }

    /// Runs the housekeeping tick: reconciles the actuator with the sensor's records, and makes the
    /// policy evaluate all boosted threads. Returns true if a VMM thread other than a vCPU runs
    /// with a real-time boost.
    fn tick(
        &self,
        actuator: &mut Actuator,
        indices: &mut Vec<u32>,
        changed: &mut impl FnMut(u32),
    ) -> bool {
        actuator.reconcile(self.table, changed);
        indices.clear();
        indices.extend(actuator.boosted_indices());
        let has_io = actuator.stats().effect() == Effect::Realtime
            && indices.iter().any(|index| self.table.runs_io(*index));
        let _ = self.sensor.evaluate(PC_EV_TICK, indices);
        has_io
    }

    fn wait(&self, messages: &OwnedFd, timeout: Option<Duration>) {
        let timeout = timeout
            .map(|t| Timespec { tv_sec: t.as_secs() as i64, tv_nsec: i64::from(t.subsec_nanos()) });
        let mut fds = [
            PollFd::new(messages, PollFlags::IN),
            PollFd::new(&self.shared.wake_rt, PollFlags::IN),
        ];
        if poll(&mut fds, timeout.as_ref()).is_ok() && fds[1].revents().contains(PollFlags::IN) {
            clear_wake(&self.shared.wake_rt);
        }
    }
}

// `evaluate` splits its argument into chunks of PC_TICK_MAX indices, without allocating.
const _: () = assert!(PC_TICK_MAX > 0);
