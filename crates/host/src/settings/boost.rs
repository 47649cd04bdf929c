// SPDX-License-Identifier: GPL-2.0-only
//! How a VM is boosted. Times are in microseconds here, and in nanoseconds in
//! `struct pc_boost_config` (policy/boost_types.h).

use paracord_policy::{
    PC_MODE_OBSERVE, PC_MODE_OFF, PC_MODE_ON, pc_boost_config, pc_reason_config,
};
use paracord_sys::clock::NS_PER_US;
use serde::{Deserialize, Serialize};

/// What paracord does with its decisions (`PC_MODE_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Nothing is decided.
    Off,
    /// Decisions are made and counted, but not carried out.
    Observe,
    /// Decisions are made, counted and carried out.
    #[default]
    On,
}

/// Why a vCPU is boosted (`PARACORD_REASON_*`). The discriminant is the number of the bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reason {
    /// The vCPU wakes from a halt.
    Wake = 0,
    /// An interrupt is pending or injected, or the guest runs a normal task of nice -20.
    Irq = 1,
    /// The guest runs a task of a class above SCHED_OTHER.
    Rt = 2,
    /// Preemption is off in the guest.
    Critical = 3,
}

impl Reason {
    /// Number of reasons.
    pub const COUNT: usize = paracord_policy::PC_REASONS as usize;
    /// All reasons, in the order of their bits.
    pub const ALL: [Reason; Reason::COUNT] =
        [Reason::Wake, Reason::Irq, Reason::Rt, Reason::Critical];

    /// The reasons in a mask of `1 << PARACORD_REASON_*`. Unknown bits are ignored.
    pub fn from_mask(mask: u8) -> Vec<Reason> {
        Self::ALL.into_iter().filter(|&r| mask & (1 << r as u8) != 0).collect()
    }

    /// The name in the configuration, in output and in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Wake => "wake",
            Reason::Irq => "irq",
            Reason::Rt => "rt",
            Reason::Critical => "critical",
        }
    }

    /// The letter that stands for the reason in `paracord top`.
    pub fn letter(self) -> char {
        self.name().chars().next().map_or('?', |first| first.to_ascii_uppercase())
    }
}

/// Switch and limits of one reason (`struct pc_reason_config`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReasonConfig {
    /// Whether this reason may boost.
    pub enabled: bool,
    /// Longest running time of one grant; 0: no grant.
    pub grant_max_us: u64,
    /// Boosted running time of one vCPU per period.
    pub budget_us: u64,
}

/// How one VM is boosted (`struct pc_boost_config`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoostConfig {
    /// Off, observe or on.
    pub mode: Mode,
    /// Whether paracord uses the region that the VM maps or that its guest has announced. False:
    /// the VM is treated as an unmodified guest.
    pub use_region: bool,
    /// Whether a hint also boosts at a VM exit, not only at preemption.
    pub hints_at_exit: bool,
    /// Whether the requests of the guest's frequency governor count.
    pub guest_requests: bool,
    /// Whether host lines are written into the guest's own memory.
    pub host_line: bool,
    /// Whether the host's performance domains are written into the guest's own memory.
    pub frequencies: bool,
    /// Whether events are counted for a guest whose region lies in its own memory.
    pub counters: bool,
    /// Whether other threads of the VMM that work for the VM are boosted when they wake.
    pub io: bool,
    /// Period of all budgets.
    pub period_us: u64,
    /// Boosted running time of one vCPU per period, all reasons together.
    pub vcpu_budget_us: u64,
    /// Boosted running time of all vCPUs of the VM together, per period.
    pub vm_budget_us: u64,
    /// Boosted running time of all other threads of the VMM together, per period.
    pub io_budget_us: u64,
    /// Time per period that every host CPU keeps for unboosted work.
    pub cpu_kept_us: u64,
    /// Minimum average time from one boost of a vCPU to the next.
    pub actuation_min_us: u64,
    /// Maximum length of a throttle, in periods. The throttle becomes longer with each strike.
    pub penalty_max_periods: u32,
    /// Settings of the reasons, indexed by [`Reason`].
    pub reason: [ReasonConfig; Reason::COUNT],
}

impl Default for BoostConfig {
    /// The defaults of the policy. Only policy/boost_defaults.h contains their values.
    fn default() -> Self {
        BoostConfig::of(&paracord_policy::defaults(), &paracord_policy::io_defaults())
    }
}

impl BoostConfig {
    /// Converts the policy's configurations for vCPUs (`c`) and for a VMM's other threads (`io`).
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
            host_line: true,
            frequencies: true,
            counters: true,
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

    /// The policy's configurations for vCPUs and for the VMM's other threads.
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

#[cfg(test)]
mod tests {
    use super::*;

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
