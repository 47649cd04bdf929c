// SPDX-License-Identifier: GPL-2.0-only
//! Settings of the parts of the daemon.

use std::time::Duration;

use paracord_devices::pmu::{EventSet, Quota};
use paracord_policy::{
    PC_PERF_CARRY, PC_PERF_CHARGE, PC_PERF_HOLD, PC_PERF_PLACE, PC_PERF_REQUEST, PC_PERF_SHARED,
    PC_PERF_TRACK,
};

use crate::machine::governors::Frequency;

/// The rt actuator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtSettings {
    /// SCHED_RR priority of a boosted vCPU, 1..=98.
    pub vcpu_priority: u32,
    /// SCHED_FIFO priority of the daemon's actuator thread, at most 99. It is above
    /// `vcpu_priority`, so that an unboost is never late.
    pub actuator_priority: u32,
    /// Period of paracord's tick, which evaluates boosted vCPUs that cause no event themselves.
    /// This tick runs only while a thread is boosted of which the daemon knows. It need not be fast:
    /// a running vCPU exits at each tick of the host's kernel, and on a CPU where the kernel's tick
    /// is off (`nohz_full`), no other task waits.
    pub tick: Duration,
}

impl Default for RtSettings {
    fn default() -> Self {
        RtSettings { vcpu_priority: 8, actuator_priority: 40, tick: Duration::from_millis(50) }
    }
}

/// The performance policy of paracord's scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerfSettings {
    /// Whether frequency governors get requests for the performance that tasks need.
    pub requests: bool,
    /// Whether the level of a burst is carried over a sleep.
    pub carry: bool,
    /// Whether capped tasks are charged for the time that their work would take at their cap.
    pub charge_capped: bool,
    /// Whether requests fall only after a hold window.
    pub hold: bool,
    /// Whether tasks are placed with the kernel's energy model.
    pub placement: bool,
    /// Whether clamps that programs have requested from the kernel are taken over.
    pub import: bool,
    /// Whether the requests of guests' frequency governors count.
    pub guest_requests: bool,
}

impl Default for PerfSettings {
    fn default() -> Self {
        PerfSettings {
            requests: true,
            carry: true,
            charge_capped: true,
            hold: true,
            placement: true,
            import: false,
            guest_requests: true,
        }
    }
}

impl PerfSettings {
    /// Returns the `PC_PERF_*` features of a CPU. `frequency`: `None` if the CPU's governor does
    /// not follow requests. `placing`: whether tasks can be placed with the kernel's energy model.
    pub fn features(&self, frequency: Option<Frequency>, placing: bool) -> u32 {
        let mut features = 0;
        for (wanted, feature) in [
            (frequency.is_some() && self.requests, PC_PERF_TRACK | PC_PERF_REQUEST),
            (frequency == Some(Frequency::Shared), PC_PERF_SHARED),
            (placing && self.requests, PC_PERF_PLACE),
            (self.carry, PC_PERF_CARRY),
            (self.charge_capped, PC_PERF_CHARGE),
            (self.hold, PC_PERF_HOLD),
        ] {
            if wanted {
                features |= feature;
            }
        }
        features
    }
}

/// What the supervisor does after the daemon has died without being stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SupervisorSettings {
    /// Whether the supervisor starts the daemon again. False: it restores all threads and exits.
    pub restart: bool,
    /// Number of restarts after which the supervisor gives up. If the daemon has run for a minute,
    /// the count starts again.
    pub restarts_max: u32,
}

impl Default for SupervisorSettings {
    fn default() -> Self {
        SupervisorSettings { restart: true, restarts_max: 5 }
    }
}

/// Counters for guests whose VMM does not provide any. The default limits are those of the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterSettings {
    /// Whether the daemon serves counters to guests whose region offers counters.
    pub serve: bool,
    /// Events that guests may count.
    pub events: EventSet,
    /// Limits of each VM.
    pub quota: Quota,
}

impl Default for CounterSettings {
    fn default() -> Self {
        CounterSettings { serve: true, events: EventSet::ALL, quota: Quota::default() }
    }
}

/// When paracord's own scheduler runs the host's ordinary tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnScheduler {
    /// Actuator rt or observe: never.
    Never,
    /// Actuator auto: while paracord's scheduler preserves all features of the kernel's scheduler
    /// that the host uses.
    WhereKept,
    /// Actuator ext: always, if the kernel accepts the scheduler.
    Always,
}
