// SPDX-License-Identifier: GPL-2.0-only
//! Counters of the actuator.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::boosts::journal_file::ENTRIES;
use crate::snapshot::{ActuatorSnapshot, HISTOGRAM_BUCKETS, Histogram};

/// Where a boost takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// In the actuator, which makes a system call.
    Realtime,
    /// In the kernel: paracord's scheduler carries out the boost. The sensor sends a message about
    /// the boost only if the daemon has to write a host line.
    Scheduler,
}

impl Effect {
    /// Name of the actuator whose boosts take effect in this way.
    pub fn name(self) -> &'static str {
        match self {
            Effect::Realtime => "rt",
            Effect::Scheduler => "ext",
        }
    }
}

pub(super) fn bump(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Counters that other threads read. Accesses to a counter are relaxed, because no counter depends
/// on another.
#[derive(Debug)]
pub struct ActuatorStats {
    pub(super) in_scheduler: AtomicBool,
    boosted_now: AtomicU32,
    boosts: AtomicU64,
    pub(super) raised: AtomicU64,
    pub(super) unboosts: AtomicU64,
    pub(super) coalesced: AtomicU64,
    pub(super) gone: AtomicU64,
    pub(super) refused_rt: AtomicU64,
    pub(super) refused_quota: AtomicU64,
    pub(super) changed_by_others: AtomicU64,
    pub(super) errors: AtomicU64,
    last_errno: AtomicU32,
    pub(super) requests: AtomicU64,
    pub(super) requests_now: AtomicU32,
    pub(super) no_clamps: AtomicBool,
    latency: [AtomicU64; HISTOGRAM_BUCKETS],
    pub(super) boosts_of: Vec<AtomicU32>,
    actuated: Vec<AtomicU32>,
}

impl ActuatorStats {
    pub(super) fn new() -> ActuatorStats {
        let per_vcpu = || (0..ENTRIES).map(|_| AtomicU32::new(0)).collect();
        ActuatorStats {
            in_scheduler: AtomicBool::new(false),
            boosted_now: AtomicU32::new(0),
            boosts: AtomicU64::new(0),
            raised: AtomicU64::new(0),
            unboosts: AtomicU64::new(0),
            coalesced: AtomicU64::new(0),
            gone: AtomicU64::new(0),
            refused_rt: AtomicU64::new(0),
            refused_quota: AtomicU64::new(0),
            changed_by_others: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            last_errno: AtomicU32::new(0),
            requests: AtomicU64::new(0),
            requests_now: AtomicU32::new(0),
            no_clamps: AtomicBool::new(false),
            latency: [const { AtomicU64::new(0) }; HISTOGRAM_BUCKETS],
            boosts_of: per_vcpu(),
            actuated: per_vcpu(),
        }
    }

    /// Counts a boost of vCPU `index` that has just become active.
    pub(super) fn began(&self, index: u32) {
        self.boosted_now.fetch_add(1, Ordering::Relaxed);
        self.boosts_of[index as usize].fetch_add(1, Ordering::Relaxed);
        self.actuated[index as usize].store(1, Ordering::Release);
        bump(&self.boosts);
    }

    /// Notes that a boost of vCPU `index` has ended.
    pub(super) fn ended(&self, index: u32) {
        self.boosted_now.fetch_sub(1, Ordering::Relaxed);
        self.actuated[index as usize].store(0, Ordering::Release);
    }

    /// Counts a decision that was carried out `late_ns` after it was made.
    pub(super) fn carried_out(&self, late_ns: u64) {
        let bucket = (63 - (late_ns | 1).leading_zeros()) as usize;
        bump(&self.latency[bucket.min(HISTOGRAM_BUCKETS - 1)]);
    }

    /// Counts a failed system call. If the call failed because the thread has ended, counts a gone
    /// thread instead of an error.
    pub(super) fn failed(&self, error: &io::Error) {
        match error.raw_os_error() {
            Some(libc::ESRCH) => bump(&self.gone),
            errno => {
                bump(&self.errors);
                self.last_errno.store(errno.unwrap_or(0) as u32, Ordering::Relaxed);
            }
        }
    }

    /// Whether any thread is boosted.
    pub(super) fn is_active(&self) -> bool {
        self.boosted_now.load(Ordering::Relaxed) != 0
    }

    /// Where boosts take effect now.
    pub fn effect(&self) -> Effect {
        if self.in_scheduler.load(Ordering::Relaxed) { Effect::Scheduler } else { Effect::Realtime }
    }

    /// Number of boosts of vCPU `index` since the vCPU was set up. The number wraps.
    pub fn boosts_of(&self, index: u32) -> u32 {
        self.boosts_of[index as usize].load(Ordering::Relaxed)
    }

    /// Whether a boost of vCPU `index` is active now.
    pub fn is_actuated(&self, index: u32) -> bool {
        self.actuated[index as usize].load(Ordering::Acquire) != 0
    }

    /// Number of errors, and the errno of the last failed system call.
    pub fn errors(&self) -> (u64, i32) {
        let errno = self.last_errno.load(Ordering::Relaxed);
        (self.errors.load(Ordering::Relaxed), errno as i32)
    }

    /// Whether a guest has requested performance on a kernel without utilisation clamps.
    pub fn lacks_clamps(&self) -> bool {
        self.no_clamps.load(Ordering::Relaxed)
    }

    /// The counters as plain values.
    pub fn snapshot(&self) -> ActuatorSnapshot {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ActuatorSnapshot {
            kind: self.effect().name().into(),
            boosted_now: self.boosted_now.load(Ordering::Relaxed),
            boosts: get(&self.boosts),
            raised: get(&self.raised),
            unboosts: get(&self.unboosts),
            coalesced: get(&self.coalesced),
            gone: get(&self.gone),
            refused_rt: get(&self.refused_rt),
            refused_quota: get(&self.refused_quota),
            changed_by_others: get(&self.changed_by_others),
            errors: get(&self.errors),
            observed: 0,
            requests: get(&self.requests),
            requests_now: self.requests_now.load(Ordering::Relaxed),
            actuation_latency: Histogram { buckets: self.latency.iter().map(get).collect() },
        }
    }
}
