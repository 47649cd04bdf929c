// SPDX-License-Identifier: GPL-2.0-only
//! What the parts of the daemon run with.

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
    /// SCHED_FIFO priority of the daemon's actuator thread, above
    /// `vcpu_priority` so that an unboost is never late, at most 99.
    pub actuator_priority: u32,
    /// Period of the tick that looks at boosted vCPUs without an event of their own; it
    /// runs only while something is boosted. A vCPU that runs exits at each tick of the host,
    /// and on a CPU without a tick (`nohz_full`) nobody waits: this one need not be fast.
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
    /// Frequency governors are asked for what tasks need.
    pub requests: bool,
    /// A burst's level is carried over a sleep.
    pub carry: bool,
    /// Capped tasks pay in time.
    pub charge_capped: bool,
    /// Requests fall only after a window.
    pub hold: bool,
    /// Tasks are placed by the kernel's energy model.
    pub placement: bool,
    /// Clamps that programs gave to the kernel are taken over.
    pub import: bool,
    /// What guests' governors ask for counts.
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
    /// `PC_PERF_*` of a CPU whose governor listens (`None`: does not); `placing`: there is a model to place by.
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

/// What the supervisor does when the daemon died unasked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SupervisorSettings {
    /// Start the daemon again (false: restore every thread and exit).
    pub restart: bool,
    /// Restarts without a minute of good running in between before it gives up.
    pub restarts_max: u32,
}

impl Default for SupervisorSettings {
    fn default() -> Self {
        SupervisorSettings { restart: true, restarts_max: 5 }
    }
}

/// Counters of guests whose VMM serves none. The defaults are the policy's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterSettings {
    /// Guests whose region offers counters have them.
    pub serve: bool,
    /// What they may count.
    pub events: EventSet,
    /// Of each VM.
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
    /// Actuator rt or observe.
    Never,
    /// Actuator auto: as long as it keeps all that the host uses of the kernel's.
    WhereKept,
    /// Actuator ext: wherever the kernel takes it.
    Always,
}
