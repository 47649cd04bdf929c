// SPDX-License-Identifier: GPL-2.0-only
//! What the main thread looks at again and again.

use std::time::{Duration, Instant};

use super::running::Running;
use crate::timer::Timer;

/// How often guest drivers are looked for in regions.
pub(super) const REGION_POLL: Duration = Duration::from_millis(500);
/// A message about a new or gone vCPU that was lost is made up for after this.
pub(super) const SCAN_POLL: Duration = Duration::from_secs(5);
/// How often CPU limits above vCPUs are looked for: a VM that gets one gets past it for at most that long.
pub(super) const QUOTA_POLL: Duration = Duration::from_secs(1);

pub(super) struct Timers {
    pub regions: Timer,
    pub scan: Timer,
    pub perf: Timer,
    pub quotas: Timer,
    pub reserves: Timer,
}

impl Timers {
    pub fn new(now: Instant) -> Timers {
        let timer = Timer::new(now);
        Timers { regions: timer, scan: timer, perf: timer, quotas: timer, reserves: timer }
    }

    /// Until the first of them is due.
    pub fn rest(&self, running: &Running, now: Instant) -> Duration {
        let polls = [
            self.scan.rest(SCAN_POLL, now),
            self.perf.rest(SCAN_POLL, now),
            self.quotas.rest(quota_poll(running), now),
        ];
        let regions = running.vms.have_regions().then(|| self.regions.rest(REGION_POLL, now));
        let refill =
            running.vms.refill_interval().map(|interval| self.reserves.rest(interval, now));
        polls.into_iter().chain(regions).chain(refill).min().unwrap_or(SCAN_POLL)
    }
}

/// How often quotas are looked for.
pub(super) fn quota_poll(running: &Running) -> Duration {
    if running.vms.is_empty() { SCAN_POLL } else { QUOTA_POLL }
}
