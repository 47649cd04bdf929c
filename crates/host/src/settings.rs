// SPDX-License-Identifier: GPL-2.0-only
//! What the daemon runs with: plain values, already checked, no file format.
//!
//! A configuration file becomes [`Settings`] by conversion; the daemon never
//! sees text. Times are in microseconds here and become nanoseconds once, in
//! the conversion to `struct pc_boost_config` (policy/boost_types.h).

use std::path::PathBuf;
use std::time::Duration;

use paracord_devices::pmu::{EventSet, Quota};
use paracord_policy::{
    PC_MODE_OBSERVE, PC_MODE_OFF, PC_MODE_ON, PC_PERF_CARRY, PC_PERF_CHARGE, PC_PERF_HOLD,
    PC_PERF_PLACE, PC_PERF_REQUEST, PC_PERF_SHARED, PC_PERF_TRACK, pc_boost_config,
    pc_reason_config,
};
use serde::{Deserialize, Serialize};

pub use crate::config::{Override, PlaceKeys, VmRules, Who};
use crate::machine::governors::Frequency;

const NS_PER_US: u64 = 1000;

/// What paracord does with decisions (`PC_MODE_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Nothing is decided.
    Off,
    /// Decided and counted, not carried out.
    Observe,
    /// Decided, counted and carried out.
    #[default]
    On,
}

/// Why a vCPU is boosted (`PARACORD_REASON_*`); the discriminant is the bit's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reason {
    /// The vCPU wakes from a halt.
    Wake = 0,
    /// An interrupt is pending or injected.
    Irq = 1,
    /// A guest task above SCHED_OTHER runs.
    Rt = 2,
    /// Preemption is off in the guest.
    Critical = 3,
}

impl Reason {
    /// All reasons in the order of their bits.
    pub const ALL: [Reason; 4] = [Reason::Wake, Reason::Irq, Reason::Rt, Reason::Critical];

    /// The reasons in a mask of `1 << PARACORD_REASON_*`; unknown bits are ignored.
    pub fn from_mask(mask: u8) -> Vec<Reason> {
        Self::ALL.into_iter().filter(|&r| mask & (1 << r as u8) != 0).collect()
    }

    /// The name used in configuration, output and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Wake => "wake",
            Reason::Irq => "irq",
            Reason::Rt => "rt",
            Reason::Critical => "critical",
        }
    }
}

/// One reason's switch and limits (`struct pc_reason_config`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReasonConfig {
    /// Whether this reason may boost.
    pub enabled: bool,
    /// Longest continuous grant, running time. 0: no grant.
    pub grant_max_us: u64,
    /// Running time per period of one vCPU.
    pub budget_us: u64,
}

/// How one VM is boosted (`struct pc_boost_config`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoostConfig {
    /// Off, observe or on.
    pub mode: Mode,
    /// Whether a region that the VM maps is used (false: as an unmodified guest).
    pub use_region: bool,
    /// Whether a hint also boosts at a VM exit, not only at preemption.
    pub hints_at_exit: bool,
    /// Whether what the guest's governor asks for counts.
    pub guest_requests: bool,
    /// Whether threads of the VMM's own that work for the VM are boosted when they wake.
    pub io: bool,
    /// Period of every budget.
    pub period_us: u64,
    /// All reasons together, running time per period of one vCPU.
    pub vcpu_budget_us: u64,
    /// All vCPUs of the VM together, running time per period.
    pub vm_budget_us: u64,
    /// All threads of the VMM's own together, running time per period.
    pub io_budget_us: u64,
    /// Per period and host CPU: kept for unboosted work.
    pub cpu_kept_us: u64,
    /// Shortest time from one boost of a vCPU to its next.
    pub actuation_min_us: u64,
    /// Upper bound of the growing throttle, periods.
    pub penalty_max_periods: u32,
    /// Indexed by [`Reason`].
    pub reason: [ReasonConfig; 4],
}

impl Default for BoostConfig {
    /// The policy's own defaults (policy/boost_defaults.h), the only place of their numbers.
    fn default() -> Self {
        BoostConfig::of(&paracord_policy::defaults(), &paracord_policy::io_defaults())
    }
}

impl BoostConfig {
    /// From the policy's configurations of vCPUs and of a VMM's other threads.
    fn of(c: &pc_boost_config, io: &pc_boost_config) -> Self {
        BoostConfig {
            mode: match c.mode {
                PC_MODE_ON => Mode::On,
                PC_MODE_OBSERVE => Mode::Observe,
                _ => Mode::Off,
            },
            use_region: true,
            hints_at_exit: c.hints_at_exit != 0,
            guest_requests: true,
            io: true,
            period_us: c.period_ns / NS_PER_US,
            vcpu_budget_us: c.vcpu_budget_ns / NS_PER_US,
            vm_budget_us: c.vm_budget_ns / NS_PER_US,
            io_budget_us: io.vm_budget_ns / NS_PER_US,
            cpu_kept_us: c.cpu_kept_ns / NS_PER_US,
            actuation_min_us: c.actuation_min_ns / NS_PER_US,
            penalty_max_periods: c.penalty_max_periods,
            reason: c.reason.map(|r| ReasonConfig {
                enabled: r.enabled != 0,
                grant_max_us: r.grant_max_ns / NS_PER_US,
                budget_us: r.budget_ns / NS_PER_US,
            }),
        }
    }

    /// The policy's configurations of vCPUs and of the VMM's other threads.
    pub fn of_threads(&self) -> (pc_boost_config, pc_boost_config) {
        let ns = |us: u64| us.saturating_mul(NS_PER_US);
        let vcpus = pc_boost_config {
            mode: match self.mode {
                Mode::On => PC_MODE_ON,
                Mode::Observe => PC_MODE_OBSERVE,
                Mode::Off => PC_MODE_OFF,
            },
            penalty_max_periods: self.penalty_max_periods,
            hints_at_exit: self.hints_at_exit.into(),
            reserved: 0,
            period_ns: ns(self.period_us),
            vcpu_budget_ns: ns(self.vcpu_budget_us),
            vm_budget_ns: ns(self.vm_budget_us),
            cpu_kept_ns: ns(self.cpu_kept_us),
            actuation_min_ns: ns(self.actuation_min_us),
            reason: self.reason.map(|r| pc_reason_config {
                enabled: r.enabled.into(),
                reserved: 0,
                grant_max_ns: ns(r.grant_max_us),
                budget_ns: ns(r.budget_us),
            }),
        };
        let io_threads = pc_boost_config {
            vm_budget_ns: ns(self.io_budget_us),
            penalty_max_periods: vcpus
                .penalty_max_periods
                .min(paracord_policy::io_defaults().penalty_max_periods),
            ..vcpus
        };
        (vcpus, io_threads)
    }
}

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

/// A quarter of all records (`PC_VCPUS_MAX`): anybody who may open /dev/kvm takes one per vCPU thread.
const VCPUS_PER_USER: u32 = paracord_policy::PC_VCPUS_MAX / 4;

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

/// Everything the daemon runs with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Journal, lock file and control socket live here.
    pub run_dir: PathBuf,
    /// Region files live here.
    pub region_dir: PathBuf,
    /// Upper bound on every VM's mode (observe turns `on` into `observe`).
    pub mode: Mode,
    /// When paracord's own scheduler runs the host's ordinary tasks, and gives boosts their effect (actuator ext).
    pub own_scheduler: OwnScheduler,
    /// vCPUs of one user other than root that are looked after.
    pub vcpus_per_user: u32,
    /// The rt actuator.
    pub rt: RtSettings,
    /// The performance policy.
    pub perf: PerfSettings,
    /// Counters of guests.
    pub counters: CounterSettings,
    /// The supervisor.
    pub supervisor: SupervisorSettings,
    /// How VMs are boosted, by their names.
    pub vm_rules: VmRules,
}

impl Settings {
    /// The configuration of a VM; `overrides` are what
    /// `paracord vm set` changed since the last reload, oldest first.
    pub fn vm<'a>(&self, who: impl Into<Who<'a>>, overrides: &[Override]) -> BoostConfig {
        let config = self.vm_rules.resolve(who, overrides);
        BoostConfig {
            mode: config.mode.min(self.mode),
            guest_requests: config.guest_requests && self.perf.guest_requests,
            ..config
        }
    }
}

impl Settings {
    /// Where the configuration has the vCPUs of a VM run.
    pub fn place<'a>(&self, who: impl Into<Who<'a>>) -> PlaceKeys {
        self.vm_rules.place(who)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            run_dir: PathBuf::from("/run/paracord"),
            region_dir: PathBuf::from("/dev/shm/paracord"),
            mode: Mode::On,
            own_scheduler: OwnScheduler::WhereKept,
            vcpus_per_user: VCPUS_PER_USER,
            rt: RtSettings::default(),
            perf: PerfSettings::default(),
            counters: CounterSettings::default(),
            supervisor: SupervisorSettings::default(),
            vm_rules: VmRules::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_global_mode_is_an_upper_bound() {
        let settings = Settings { mode: Mode::Observe, ..Settings::default() };
        assert_eq!(settings.vm("any", &[]).mode, Mode::Observe);
        let off = crate::config::keys::parse_override("mode", "off").unwrap();
        assert_eq!(settings.vm("any", &[off]).mode, Mode::Off);
    }

    #[test]
    fn guests_may_ask_where_neither_the_host_nor_the_vm_says_no() {
        let no = crate::config::keys::parse_override("guest_requests", "false").unwrap();
        let asks = |host, overrides: &[Override]| {
            let perf = PerfSettings { guest_requests: host, ..PerfSettings::default() };
            Settings { perf, ..Settings::default() }.vm("any", overrides).guest_requests
        };
        assert!(asks(true, &[]) && !asks(false, &[]) && !asks(true, &[no]));
    }

    #[test]
    fn the_policy_gets_back_what_it_gave() {
        let defaults = (paracord_policy::defaults(), paracord_policy::io_defaults());
        assert_eq!(BoostConfig::default().of_threads(), defaults);
    }

    #[test]
    fn mask_ignores_unknown_bits() {
        assert_eq!(Reason::from_mask(0b1111_0101), vec![Reason::Wake, Reason::Rt]);
    }
}
