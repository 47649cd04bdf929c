// SPDX-License-Identifier: GPL-2.0-only
//! What the daemon runs with: plain values, already checked, no file format.
//!
//! A configuration file becomes [`Settings`] by conversion; the daemon never
//! sees text. Times are in microseconds here and become nanoseconds once, in
//! the conversion to `struct pc_boost_config` (policy/boost_types.h).

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use crate::config::{Override, VmRules};

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
    /// Period of every budget.
    pub period_us: u64,
    /// All reasons together, running time per period of one vCPU.
    pub vcpu_budget_us: u64,
    /// All vCPUs of the VM together, running time per period.
    pub vm_budget_us: u64,
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
    /// A vCPU may be boosted for at most half of every 100 ms, and a fifth of
    /// each host CPU stays with unboosted work.
    fn default() -> Self {
        let reason =
            |grant_max_us, budget_us| ReasonConfig { enabled: true, grant_max_us, budget_us };
        BoostConfig {
            mode: Mode::On,
            use_region: true,
            period_us: 100_000,
            vcpu_budget_us: 50_000,
            vm_budget_us: 100_000,
            cpu_kept_us: 20_000,
            actuation_min_us: 50,
            penalty_max_periods: 8,
            reason: [
                reason(1_000, 30_000),
                reason(1_000, 30_000),
                reason(10_000, 40_000),
                reason(2_000, 20_000),
            ],
        }
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
    /// Period of the tick that catches boosted vCPU threads which do not exit;
    /// it runs only while something is boosted.
    pub tick: Duration,
}

impl Default for RtSettings {
    fn default() -> Self {
        RtSettings { vcpu_priority: 8, actuator_priority: 40, tick: Duration::from_millis(4) }
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

/// Everything the daemon runs with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Journal, lock file and control socket live here.
    pub run_dir: PathBuf,
    /// Region files live here.
    pub region_dir: PathBuf,
    /// Upper bound on every VM's mode (observe turns `on` into `observe`).
    pub mode: Mode,
    /// The rt actuator.
    pub rt: RtSettings,
    /// The supervisor.
    pub supervisor: SupervisorSettings,
    /// How VMs are boosted, by their names.
    pub vm_rules: VmRules,
}

impl Settings {
    /// The configuration of the VM called `name`; `overrides` are what
    /// `paracord vm set` changed since the last reload, oldest first.
    pub fn vm(&self, name: &str, overrides: &[Override]) -> BoostConfig {
        let config = self.vm_rules.resolve(name, overrides);
        BoostConfig { mode: config.mode.min(self.mode), ..config }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            run_dir: PathBuf::from("/run/paracord"),
            region_dir: PathBuf::from("/dev/shm/paracord"),
            mode: Mode::On,
            rt: RtSettings::default(),
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
    fn mask_ignores_unknown_bits() {
        assert_eq!(Reason::from_mask(0b1111_0101), vec![Reason::Wake, Reason::Rt]);
    }
}
