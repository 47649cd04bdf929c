// SPDX-License-Identifier: GPL-2.0-only
//! No group runs for longer than its quota and those above it say, over any time. The times are the simulator's.

use crate::{
    kernel::{Class, Kernel},
    mix::Quota,
    time::{NS_PER_US, Ns},
};

/// A group, as seen at the last look.
#[derive(Clone, Copy, Default)]
struct Pool {
    /// Quota, and since when it is in force.
    quota: Option<Quota>,
    /// What it may still run; below 0: it has run that much too long.
    left_ns: i64,
}

/// What looks remember.
#[derive(Default)]
pub struct Quotas {
    at: Ns,
    pools: Vec<Pool>,
    /// By task: charged so far.
    ran_ns: Vec<Ns>,
}

/// Looks.
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

/// What a group may run too long, as debt that it pays later: on each CPU until a tick ends the turn; what tasks run is known
/// to the simulator at a tick, too. A period's quota may be used as the period begins, before it has grown here. Moves
/// between groups: a hundredth of the quota. Who has waited so long that the kernel would eject the scheduler: a thousandth
/// of a CPU.
fn overrun_ns(k: &Kernel, group: usize) -> i64 {
    let Some(quota) = k.groups[group].quota else { return 0 };
    let turns_ns = 2 * (k.machine.tick_ns() + super::waits::EVERY_NS) * turns(k, quota.quota_ns);
    let moved_ns = portion(k.now, quota) / 100;
    signed(turns_ns + 2 * quota.quota_ns).saturating_add(moved_ns + signed(k.now / 1000))
}

/// CPUs that run a group at once, as far as its quota has portions for them.
fn turns(k: &Kernel, quota_ns: Ns) -> u64 {
    (k.machine.cpus as u64).min(1 + quota_ns / 1_000_000)
}

/// What a quota grants in a time.
fn portion(time_ns: Ns, quota: Quota) -> i64 {
    let granted = u128::from(time_ns) * u128::from(quota.quota_ns) / u128::from(quota.period_ns);
    i64::try_from(granted).unwrap_or(i64::MAX / 2)
}

fn signed(ns: Ns) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

impl Quotas {
    /// Pools grow steadily, up to what a period and a burst may have.
    fn refill(&mut self, k: &Kernel) {
        self.pools.resize(k.groups.len(), Pool::default());
        let passed_ns = k.now - std::mem::replace(&mut self.at, k.now);
        // Who runs when a quota is set runs on to a tick, on all CPUs.
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

    /// What tasks have run since the last look, of their groups and those above. Real-time tasks need no quota.
    fn charge(&mut self, k: &Kernel) {
        self.ran_ns.resize(k.tasks.len(), 0);
        for (task, ran_ns) in k.tasks.iter().zip(&mut self.ran_ns) {
            let before = std::mem::replace(ran_ns, task.account.ran_ns);
            // Another task may have the place of one that has ended.
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
