// SPDX-License-Identifier: GPL-2.0-only
//! Writes host lines. The host lines tell each guest whether its vCPUs are boosted, on which CPUs
//! the vCPUs run, and how fast those CPUs are.
//!
//! A separate thread writes the lines, because a write can wait for memory, and no decision may
//! wait for a write. The thread has precedence over normal tasks, because a guest uses its line to
//! decide whether to kick. The thread never preempts a boosted vCPU, because that would interrupt
//! the boost that the line reports. The thread holds no lock of the daemon while it writes. For
//! each write, however, the kernel takes the lock of the daemon's address space, as it does for a
//! page fault.
//!
//! Boosts are written when they happen, except to lines in guests' own memory: the sensor writes
//! them there. The place of a vCPU (its CPU, and how fast this CPU is) is checked only if the guest
//! reads places. While at least one such vCPU runs, the places are checked every 8 ms. While all
//! such vCPUs sleep, the places are checked less often. The work that a guest can cause is
//! therefore bounded.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use paracord_abi::{HostBoost, layout};
use paracord_sensor::Sensor;
use paracord_sys::clock::now_ns;
use paracord_sys::sched;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::boosts::actuator::ActuatorStats;
use crate::boosts::rt_thread::RtShared;
use crate::regions::line_changes::{LineChange, LineChanges};
use crate::regions::place_line::{Line, Seen, is_worth_telling, pressure};
use crate::wake::clear_wake;

/// SCHED_FIFO priority of the thread. It is the lowest priority, and a boosted vCPU may have the
/// same priority.
const PRIORITY: u32 = 1;

/// Interval between two checks of places. In this time, a guest with 100 or 250 ticks per second
/// has about one or two ticks.
const LOOK: Duration = Duration::from_millis(8);
/// While every vCPU sleeps, the interval grows up to this value.
const LOOK_SLEEPING: Duration = Duration::from_millis(128);

/// How long the daemon waits for the thread to end when the daemon itself ends. The wait is
/// limited, because a write of the thread may hang.
const END_PATIENCE: Duration = Duration::from_secs(1);

/// The line of each vCPU, by the index of the vCPU. If a new line replaces an old one, all parts of
/// the line are written again.
type Lines = HashMap<u32, Arc<Line>>;

/// The running thread that writes host lines. Dropping this value ends the thread.
#[derive(Debug)]
pub struct HostLines {
    /// The lines as the main thread knows them. The real-time thread has its own copy.
    lines: Mutex<Lines>,
    changes: Arc<LineChanges>,
    shared: Arc<RtShared>,
    stop: Arc<AtomicBool>,
    /// Disconnected when the thread has ended.
    ended: Receiver<()>,
}

impl HostLines {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the thread cannot be created.
    pub fn start(
        sensor: Arc<Sensor>,
        stats: Arc<ActuatorStats>,
        shared: Arc<RtShared>,
    ) -> io::Result<HostLines> {
        let changes = Arc::<LineChanges>::default();
        let stop = Arc::new(AtomicBool::new(false));
        let mut writer = Writer {
            sensor,
            stats,
            shared: Arc::clone(&shared),
            changes: Arc::clone(&changes),
            lines: Lines::new(),
            stop: Arc::clone(&stop),
            seen: HashMap::new(),
            pause: LOOK,
        };
        let (ending, ended) = channel::<()>();
        std::thread::Builder::new().name("paracord-lines".into()).spawn(move || {
            // If the priority is refused, the only effect is that lines are written later.
            let _ = sched::become_realtime(PRIORITY);
            writer.run();
            drop(ending);
        })?;
        Ok(HostLines { lines: Mutex::default(), changes, shared, stop, ended })
    }

    /// Sets the line of vCPU `index`, and makes the thread write the line.
    pub fn attach(&self, index: u32, line: Line) {
        let line = Arc::new(line);
        self.own().insert(index, Arc::clone(&line));
        self.changes.add(index, Some(line));
        self.shared.publish_host_lines();
    }

    /// Removes the line of vCPU `index`. The place in the line is set to unknown, because a guest
    /// that keeps running must not rely on the last place.
    pub fn detach(&self, index: u32) {
        if self.own().remove(&index).is_some() {
            self.changes.add(index, None);
            self.shared.publish_host_lines();
        }
    }

    /// The line of vCPU `index`.
    pub fn line(&self, index: u32) -> Option<Arc<Line>> {
        self.own().get(&index).cloned()
    }

    /// Makes the thread write the line of vCPU `index`.
    pub fn refresh(&self, index: u32) {
        self.shared.host_lines.mark(index);
        self.shared.publish_host_lines();
    }

    fn own(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for HostLines {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.shared.publish_host_lines();
        let _ = self.ended.recv_timeout(END_PATIENCE);
    }
}

struct Writer {
    sensor: Arc<Sensor>,
    stats: Arc<ActuatorStats>,
    shared: Arc<RtShared>,
    changes: Arc<LineChanges>,
    lines: Lines,
    stop: Arc<AtomicBool>,
    /// For each vCPU whose place the guest reads: the line that was written, and the state of the
    /// vCPU at the last check.
    seen: HashMap<u32, (Arc<Line>, Seen)>,
    pause: Duration,
}

impl Writer {
    fn run(&mut self) {
        let mut last_look = Instant::now();
        loop {
            let follows = !self.seen.is_empty();
            self.wait(follows.then(|| self.pause.saturating_sub(last_look.elapsed())));
            self.take_changes();
            let shared = Arc::clone(&self.shared);
            shared.host_lines.drain(|index| self.write(index));
            if self.stop.load(Ordering::Acquire) {
                // The last changes may have come after the call of `take_changes` above.
                self.take_changes();
                self.end();
                return;
            }
            if last_look.elapsed() >= self.pause {
                last_look = Instant::now();
                self.look();
            }
        }
    }

    fn wait(&self, timeout: Option<Duration>) {
        let timeout = timeout
            .map(|t| Timespec { tv_sec: t.as_secs() as i64, tv_nsec: i64::from(t.subsec_nanos()) });
        let fd = self.shared.host_lines_fd();
        let mut fds = [PollFd::new(&fd, PollFlags::IN)];
        if poll(&mut fds, timeout.as_ref()).is_ok_and(|ready| ready > 0) {
            clear_wake(fd);
        }
    }

    /// Applies the changes that the main thread has made. If the main thread is adding a change at
    /// that moment, this call applies no change, and the main thread then wakes this thread again.
    fn take_changes(&mut self) {
        for LineChange { index, line } in self.changes.take() {
            if let Some(line) = line {
                self.lines.insert(index, line);
                // Write the line here, and do not rely on a mark of the index: the mark may have
                // been drained before the change was taken.
                self.write(index);
                continue;
            }
            self.seen.remove(&index);
            if let Some(line) = self.lines.remove(&index) {
                self.forget_place(&line);
            }
        }
    }

    /// Sets the place to unknown in the line of a vCPU that is gone, unless a new vCPU already uses
    /// the same line. Only a line in a file can be reused.
    fn forget_place(&self, line: &Line) {
        if !line.target.is_in_file()
            || !self.lines.values().any(|other| other.target.is(&line.target))
        {
            let _ = line.target.write_place(line.unknown());
        }
    }

    fn write(&mut self, index: u32) {
        let Some(line) = self.lines.get(&index).cloned() else { return };
        self.write_boost(index, &line);
        let is_new = self.seen.get(&index).is_none_or(|(old, _)| !Arc::ptr_eq(old, &line));
        if !is_new {
            return;
        }
        let told = line.unknown();
        let _ = line.target.write_place(told);
        self.seen.remove(&index);
        if line.follows && self.sensor.capabilities().whereabouts {
            self.seen.insert(index, (line, Seen { told, waited_ns: 0, at_ns: 0 }));
            self.pause = LOOK;
        }
    }

    fn write_boost(&self, index: u32, line: &Line) {
        let Some(vcpu) = self.sensor.vcpus().get(index) else { return };
        if vcpu.tid() != line.tid {
            return;
        }
        let policy_state = vcpu.state();
        let state = if self.stats.is_actuated(index) || vcpu.boosted_unreported() {
            layout::PARACORD_BOOST_ON
        } else if policy_state.throttled != 0 {
            layout::PARACORD_BOOST_THROTTLED
        } else {
            layout::PARACORD_BOOST_OFF
        };
        let on = state == layout::PARACORD_BOOST_ON;
        let boost = HostBoost {
            state: state as u8,
            reasons: if on { policy_state.reasons } else { 0 },
            flags: if vcpu.setup().counts != 0 { layout::PARACORD_HOST_COUNTS as u8 } else { 0 },
            boosts: self.stats.boosts_of(index),
            throttles: vcpu.counters().throttles as u32,
        };
        // If the owner has truncated the file, the write fails, and the guest has no line.
        let _ = line.target.write_boost(boost);
    }

    /// Checks the places of the vCPUs that have run since the last check, and writes the places
    /// that have changed enough.
    fn look(&mut self) {
        let lines = &self.lines;
        self.seen.retain(|index, (line, _)| {
            lines.get(index).is_some_and(|current| Arc::ptr_eq(current, line))
        });
        let ran = |(index, (line, seen)): (&u32, &(Arc<Line>, Seen))| {
            let vcpu = self.sensor.vcpus().get(*index).filter(|vcpu| vcpu.tid() == line.tid)?;
            (vcpu.on_cpu() || vcpu.run_since_ns() >= seen.at_ns).then_some(*index)
        };
        let indices: Vec<u32> = self.seen.iter().filter_map(ran).collect();
        self.pause = if indices.is_empty() { (self.pause * 2).min(LOOK_SLEEPING) } else { LOOK };
        let now = now_ns();
        let seen = &mut self.seen;
        let _ = self.sensor.whereabouts(&indices, |index, at| {
            let Some((line, seen)) = seen.get_mut(&index) else { return };
            let waited_ns = at.waited_ns.saturating_sub(seen.waited_ns);
            let share = match seen.at_ns {
                0 => 0,
                before => pressure(waited_ns, now.saturating_sub(before)),
            };
            let place = line.place(&at, share);
            (seen.waited_ns, seen.at_ns) = (at.waited_ns, now);
            // If the write fails, for example because accesses to the region are paused, the next
            // check tries again.
            if is_worth_telling(&seen.told, &place) && line.target.write_place(place).is_ok() {
                seen.told = place;
            }
        });
    }

    /// Sets all places to unknown, because nothing keeps the lines current after the end of this
    /// thread.
    fn end(&self) {
        for line in self.lines.values() {
            let _ = line.target.write_place(line.unknown());
        }
    }
}
