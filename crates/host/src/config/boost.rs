// SPDX-License-Identifier: GPL-2.0-only
//! The keys of `[boost]` and `[vm."NAME"]`, in the units of the configuration file. Budgets are
//! shares of the period, so a longer period also means longer budgets.

use paracord_sys::clock::US_PER_MS;

use super::value::Share;
use crate::settings::{BoostConfig, Mode, Reason, ReasonConfig};

/// `[boost.REASON]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReasonKeys {
    /// Whether this reason may lead to boosts.
    pub enabled: bool,
    /// Longest running time of one boost, µs.
    pub grant_us: u32,
    /// Budget of one vCPU for this reason, as a share of the period.
    pub budget: Share,
}

/// The keys of `[boost]`, and the additional keys of a VM section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoostKeys {
    /// What the policy does for the VM. The global mode is an upper bound.
    pub mode: Mode,
    /// Whether the VM's shared region is used.
    pub use_region: bool,
    /// Whether a guest's hint also leads to a boost at a VM exit, and not only at preemption.
    pub hints_at_exit: bool,
    /// Whether the host follows the requests of the guest's frequency governor.
    pub guest_requests: bool,
    /// Whether host lines are written into the guest's own memory.
    pub host_line: bool,
    /// Whether performance domains are written into the guest's own memory.
    pub frequencies: bool,
    /// Whether events are counted for the guest if it has no device.
    pub counters: bool,
    /// Whether the VMM's other threads are boosted.
    pub io: bool,
    /// Period of all budgets, ms.
    pub period_ms: u32,
    /// Budget of one vCPU for all reasons together.
    pub vcpu_budget: Share,
    /// Budget of all vCPUs of a VM together.
    pub vm_budget: Share,
    /// Budget of all other threads of a VMM together.
    pub io_budget: Share,
    /// Share of every host CPU that is kept for unboosted work.
    pub cpu_kept: Share,
    /// Longest time for which a vCPU is throttled, in periods. The time grows each time the vCPU
    /// exhausts its budgets.
    pub penalty_max_periods: u32,
    /// Shortest average time from one boost of a vCPU to the next, µs.
    pub actuation_min_us: u32,
    /// Keys of the reasons, indexed by [`Reason`].
    pub reasons: [ReasonKeys; Reason::COUNT],
}

impl BoostKeys {
    /// The keys of a reason.
    pub fn reason(&self, r: Reason) -> &ReasonKeys {
        &self.reasons[r as usize]
    }

    /// The keys of a reason, mutable.
    pub fn reason_mut(&mut self, r: Reason) -> &mut ReasonKeys {
        &mut self.reasons[r as usize]
    }
}

impl Default for BoostKeys {
    /// The policy's own defaults.
    fn default() -> Self {
        BoostKeys::from(&BoostConfig::default())
    }
}

impl From<&BoostConfig> for BoostKeys {
    fn from(c: &BoostConfig) -> Self {
        let share = |part_us| Share::of(part_us, c.period_us);
        let small = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        BoostKeys {
            mode: c.mode,
            use_region: c.use_region,
            hints_at_exit: c.hints_at_exit,
            guest_requests: c.guest_requests,
            host_line: c.host_line,
            frequencies: c.frequencies,
            counters: c.counters,
            io: c.io,
            period_ms: small(c.period_us / US_PER_MS),
            vcpu_budget: share(c.vcpu_budget_us),
            vm_budget: share(c.vm_budget_us),
            io_budget: share(c.io_budget_us),
            cpu_kept: share(c.cpu_kept_us),
            penalty_max_periods: c.penalty_max_periods,
            actuation_min_us: small(c.actuation_min_us),
            reasons: c.reason.map(|r| ReasonKeys {
                enabled: r.enabled,
                grant_us: small(r.grant_max_us),
                budget: share(r.budget_us),
            }),
        }
    }
}

impl From<&BoostKeys> for BoostConfig {
    fn from(k: &BoostKeys) -> Self {
        let period_us = u64::from(k.period_ms) * US_PER_MS;
        BoostConfig {
            mode: k.mode,
            use_region: k.use_region,
            hints_at_exit: k.hints_at_exit,
            guest_requests: k.guest_requests,
            host_line: k.host_line,
            frequencies: k.frequencies,
            counters: k.counters,
            io: k.io,
            period_us,
            vcpu_budget_us: k.vcpu_budget.of_period(period_us),
            vm_budget_us: k.vm_budget.of_period(period_us),
            io_budget_us: k.io_budget.of_period(period_us),
            cpu_kept_us: k.cpu_kept.of_period(period_us),
            actuation_min_us: u64::from(k.actuation_min_us),
            penalty_max_periods: k.penalty_max_periods,
            reason: k.reasons.map(|r| ReasonConfig {
                enabled: r.enabled,
                grant_max_us: u64::from(r.grant_us),
                budget_us: r.budget.of_period(period_us),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_defaults_can_be_written_in_the_units_of_the_file() {
        let c = BoostConfig::default();
        assert_eq!(BoostConfig::from(&BoostKeys::from(&c)), c);
    }

    #[test]
    fn budgets_follow_the_period() {
        let mut k = BoostKeys::default();
        let before = BoostConfig::from(&k).vcpu_budget_us;
        k.period_ms *= 2;
        assert_eq!(BoostConfig::from(&k).vcpu_budget_us, before * 2);
    }
}
