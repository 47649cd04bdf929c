// SPDX-License-Identifier: GPL-2.0-only
//! The periodic checks of the main thread.

use std::time::{Duration, Instant};

use super::manager::Manager;
use super::running::Running;
use crate::timer::Timer;

/// Interval between two checks for guest drivers in regions.
pub(super) const REGION_POLL: Duration = Duration::from_millis(500);
/// Interval between two scans for new and gone threads. A scan also notices a new or gone vCPU if
/// the message about it was lost.
pub(super) const SCAN_POLL: Duration = Duration::from_secs(5);
/// Interval between two checks of the CPU limits of vCPUs' control groups. Boosts can escape a new
/// limit for at most this long.
pub(super) const QUOTA_POLL: Duration = Duration::from_secs(1);

/// Interval between two looks at VMMs that have just made threads. It limits how much time a VMM
/// can cost that makes threads all the time.
pub(super) const NEW_THREADS_POLL: Duration = Duration::from_millis(50);

pub(super) struct Timers {
    pub regions: Timer,
    pub scan: Timer,
    pub new_threads: Timer,
    pub perf: Timer,
    pub quotas: Timer,
    pub reserves: Timer,
    alive: Timer,
}

impl Timers {
    pub fn new(now: Instant) -> Timers {
        let timer = Timer::new(now);
        Timers {
            regions: timer,
            scan: timer,
            new_threads: timer,
            perf: timer,
            quotas: timer,
            reserves: timer,
            alive: timer,
        }
    }

    /// Time until the first of the periodic checks is due.
    pub fn rest(&self, running: &Running, now: Instant) -> Duration {
        let polls = [
            self.scan.rest(SCAN_POLL, now),
            self.perf.rest(SCAN_POLL, now),
            self.quotas.rest(quota_poll(running), now),
        ];
        let regions = running.vms.have_regions().then(|| self.regions.rest(REGION_POLL, now));
        let threads =
            running.vms.have_new_threads().then(|| self.new_threads.rest(NEW_THREADS_POLL, now));
        let refill =
            running.followers.refill_interval().map(|interval| self.reserves.rest(interval, now));
        polls.into_iter().chain(regions).chain(threads).chain(refill).min().unwrap_or(SCAN_POLL)
    }

    /// Time until the manager must hear again that the main thread does not hang. `None` if the
    /// manager has no watchdog.
    pub fn until_alive(&self, manager: &dyn Manager, now: Instant) -> Option<Duration> {
        manager.alive_interval().map(|interval| self.alive.rest(interval, now))
    }

    /// If it is due, tells the manager that the main thread does not hang.
    pub fn tell_alive(&mut self, manager: &mut dyn Manager, now: Instant) {
        if manager.alive_interval().is_some_and(|interval| self.alive.is_due(interval, now)) {
            manager.alive();
        }
    }
}

/// Interval between two checks of CPU limits. The interval is longer while no VM runs.
pub(super) fn quota_poll(running: &Running) -> Duration {
    if running.vms.is_empty() { SCAN_POLL } else { QUOTA_POLL }
}
