// SPDX-License-Identifier: GPL-2.0-only
//! Checks that, over any time, no group runs for longer than its quota and the quotas above it
//! allow. The times are measured by the simulator.

use crate::{
    kernel::{Class, Kernel},
    mix::Quota,
    time::{NS_PER_US, Ns},
};

/// The state of a group at the last check.
#[derive(Clone, Copy, Default)]
struct Pool {
    /// The quota in force.
    quota: Option<Quota>,
    /// The time that the group may still run. Below 0: the group has run this much too long.
    left_ns: i64,
}

/// What the checks remember.
#[derive(Default)]
pub struct Quotas {
    at: Ns,
    pools: Vec<Pool>,
    /// Time charged so far, by task.
    ran_ns: Vec<Ns>,
}

/// Makes the check.
pub fn look(k: &mut Kernel, seen: &mut Quotas) {
    seen.refill(k);
    seen.charge(k);
    let over =
        (1..k.groups.len()).find(|group| seen.pools[*group].left_ns < -overrun_ns(k, *group));
    if let Some(group) = over {
        let us = -seen.pools[group].left_ns / signed(NS_PER_US);
        k.fault(format!(
            "group {} has run {us} us longer than its quota allows",
            k.groups[group].path
        ));
        seen.pools[group].left_ns = 0;
    }
}

/// How much longer than its quota a group may run. The group pays this debt later. It has four
/// parts: (1) On each CPU, a tick must end the turn, and the simulator also learns at a tick how
/// long a task ran. (2) The quota of a period may be used at the beginning of the period, while the
/// pool here grows steadily. (3) Moves between groups may add a hundredth of the quota. (4) A task
/// that has waited so long that the kernel would unload the scheduler may add a thousandth of a
/// CPU.
fn overrun_ns(k: &Kernel, group: usize) -> i64 {
    let Some(quota) = k.groups[group].quota else { return 0 };
    let turns_ns = 2 * (k.machine.tick_ns() + super::waits::EVERY_NS) * turns(k, quota.quota_ns);
    let moved_ns = portion(k.now, quota) / 100;
    signed(turns_ns + 2 * quota.quota_ns).saturating_add(moved_ns + signed(k.now / 1000))
}

/// Number of CPUs that can run a group at the same time, because its quota has a portion for each.
fn turns(k: &Kernel, quota_ns: Ns) -> u64 {
    (k.machine.cpus as u64).min(1 + quota_ns / 1_000_000)
}

/// The runtime that a quota grants in this time.
fn portion(time_ns: Ns, quota: Quota) -> i64 {
    let granted = u128::from(time_ns) * u128::from(quota.quota_ns) / u128::from(quota.period_ns);
    i64::try_from(granted).unwrap_or(i64::MAX / 2)
}

fn signed(ns: Ns) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

impl Quotas {
    /// Refills the pools steadily, up to the quota of a period and the burst.
    fn refill(&mut self, k: &Kernel) {
        self.pools.resize(k.groups.len(), Pool::default());
        let passed_ns = k.now - std::mem::replace(&mut self.at, k.now);
        // When a quota is set, running tasks continue on all CPUs until a tick.
        let set_ns =
            signed(2 * (k.machine.tick_ns() + super::waits::EVERY_NS) * k.machine.cpus as u64);
        for (pool, group) in self.pools.iter_mut().zip(&k.groups) {
            let Some(quota) = group.quota else {
                *pool = Pool::default();
                continue;
            };
            let most = signed(quota.quota_ns + quota.burst_ns);
            if pool.quota != group.quota {
                *pool = Pool { quota: group.quota, left_ns: most + set_ns };
            }
            pool.left_ns = (pool.left_ns + portion(passed_ns, quota)).min(most.max(pool.left_ns));
        }
    }

    /// Charges the groups of all tasks, and the groups above them, for the running time since the
    /// last check. Real-time tasks need no quota.
    fn charge(&mut self, k: &Kernel) {
        self.ran_ns.resize(k.tasks.len(), 0);
        for (task, ran_ns) in k.tasks.iter().zip(&mut self.ran_ns) {
            let before = std::mem::replace(ran_ns, task.account.ran_ns);
            // A new task may have the index of a task that has ended.
            let since = task.account.ran_ns.checked_sub(before).unwrap_or(task.account.ran_ns);
            let mut group = task.group;
            if task.class() != Class::Normal {
                continue;
            }
            while group != 0 {
                if self.pools[group].quota.is_some() {
                    self.pools[group].left_ns -= signed(since);
                }
                group = k.groups[group].parent;
            }
        }
    }
}
