// SPDX-License-Identifier: GPL-2.0-only
//! Computes the rows of the table from snapshots. Rates cover the last interval, and latencies
//! cover the whole history.

use std::collections::VecDeque;

use paracord_host::settings::{Mode, Reason};
use paracord_host::snapshot::{BoostState, Histogram, Snapshot, VcpuSnapshot, VmSnapshot};
use paracord_sys::clock::NS_PER_S;

use super::keys::Sort;
use crate::status::{asks, speed};

/// Number of snapshots that are kept. This number determines the width of the boost history, and
/// the time over which latencies are counted.
const SNAPSHOTS_MAX: usize = 31;

/// The latest snapshots, oldest first.
#[derive(Debug, Default)]
pub struct History(VecDeque<Snapshot>);

/// One VM and its vCPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    pub name: String,
    pub pid: u32,
    pub vmm: String,
    pub mode: Mode,
    /// Text such as `web, driver 1.0`, `refused` or `none`.
    pub region: String,
    /// Percentage of the VM's budget that is used up. More than 100 means that the VM is in debt.
    pub budget_used_pct: u64,
    pub rows: Vec<Row>,
}

/// One vCPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub vcpu_id: u32,
    pub cpu: u32,
    pub state: BoostState,
    pub reasons: Vec<Reason>,
    pub throttle_cause: Option<String>,
    /// Whether a CPU quota or `cpu.idle` keeps the vCPU from being boosted.
    pub not_boosted: bool,
    /// The performance that the guest's governor requests, as in `paracord vm show`.
    pub asks: String,
    /// The speed of the vCPU's host CPU, as in `paracord vm show`.
    pub speed: String,
    /// Percentage of the interval in which the vCPU ran.
    pub running_pct: u64,
    /// Percentage of the interval in which the vCPU ran boosted.
    pub boosted_pct: u64,
    pub boosts_per_s: u64,
    /// Throttles since the vCPU was found.
    pub throttles: u64,
    pub exits_per_s: u64,
    pub wakeups_per_s: u64,
    pub boosted: Latency,
    pub unboosted: Latency,
    /// Number of boosts in each interval of the history, oldest first.
    pub boost_history: Vec<u64>,
}

/// Time from wakeup to running. The fields are `None` if there were no wakeups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    pub p50_ns: Option<u64>,
    pub p99_ns: Option<u64>,
}

impl Latency {
    fn of(h: &Histogram) -> Latency {
        Latency { p50_ns: h.percentile_ns(500), p99_ns: h.percentile_ns(990) }
    }
}

fn boosts(v: &VcpuSnapshot) -> u64 {
    v.counters.boosts.iter().sum()
}

/// Finds the same vCPU in another snapshot. A thread ID alone is not enough, because the kernel may
/// have given it to another thread.
fn same<'s>(
    in_: Option<&'s Snapshot>,
    vm: &VmSnapshot,
    v: &VcpuSnapshot,
) -> Option<&'s VcpuSnapshot> {
    let vm = in_?.vms.iter().find(|x| x.pid == vm.pid && x.name == vm.name)?;
    vm.vcpus.iter().find(|x| x.tid == v.tid && x.vcpu_id == v.vcpu_id)
}

impl History {
    /// Adds a snapshot. A snapshot that is from another daemon, or that is not newer than the last
    /// one, starts a new history.
    pub fn push(&mut self, snapshot: Snapshot) {
        if self.0.back().is_some_and(|old| {
            old.started_ns != snapshot.started_ns || old.taken_ns >= snapshot.taken_ns
        }) {
            self.0.clear();
        }
        if self.0.len() == SNAPSHOTS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(snapshot);
    }

    /// The latest snapshot.
    pub fn now(&self) -> Option<&Snapshot> {
        self.0.back()
    }

    fn before(&self) -> Option<&Snapshot> {
        self.0.len().checked_sub(2).and_then(|i| self.0.get(i))
    }

    /// Number of boosts per second that were carried out on the host.
    pub fn actuations_per_s(&self) -> u64 {
        let Some(now) = self.now() else { return 0 };
        let old = self.before().map_or(0, |b| b.actuator.boosts);
        per_s(now.actuator.boosts.saturating_sub(old), self.interval_ns())
    }

    /// Time between the last two snapshots. With a single snapshot, time since the daemon started.
    fn interval_ns(&self) -> u64 {
        let Some(now) = self.now() else { return 1 };
        let from = self.before().map_or(now.started_ns, |b| b.taken_ns);
        now.taken_ns.saturating_sub(from).max(1)
    }

    /// Returns VMs and vCPUs in the order of `sort`.
    pub fn groups(&self, sort: Sort) -> Vec<Group> {
        let Some(now) = self.now() else { return Vec::new() };
        let mut groups: Vec<Group> = now.vms.iter().map(|vm| self.group(vm, sort)).collect();
        match sort {
            Sort::Name => groups.sort_by(|a, b| (&a.name, a.pid).cmp(&(&b.name, b.pid))),
            _ => groups.sort_by_key(|g| {
                std::cmp::Reverse(g.rows.iter().map(|r| weight(r, sort)).max().unwrap_or(0))
            }),
        }
        groups
    }

    fn group(&self, vm: &VmSnapshot, sort: Sort) -> Group {
        let mut rows: Vec<Row> = vm.vcpus.iter().map(|v| self.row(vm, v)).collect();
        match sort {
            Sort::Name => rows.sort_by_key(|r| r.vcpu_id),
            _ => rows.sort_by_key(|r| (std::cmp::Reverse(weight(r, sort)), r.vcpu_id)),
        }
        let used = i128::from(vm.budget_ns) - i128::from(vm.budget_left_ns);
        let used_pct = used.max(0) * 100 / i128::from(vm.budget_ns.max(1));
        Group {
            name: vm.name.clone(),
            pid: vm.pid,
            vmm: vm.vmm.clone(),
            mode: vm.mode,
            region: match (&vm.region, &vm.region_refused) {
                (Some(r), _) => match &r.guest_abi {
                    Some(abi) => format!("{}, driver {abi}", r.name),
                    None => format!("{}, no driver", r.name),
                },
                (None, Some(_)) => "refused".into(),
                (None, None) => "none".into(),
            },
            budget_used_pct: u64::try_from(used_pct).unwrap_or(u64::MAX),
            rows,
        }
    }

    fn row(&self, vm: &VmSnapshot, v: &VcpuSnapshot) -> Row {
        let interval_ns = self.interval_ns();
        let old = same(self.before(), vm, v).cloned().unwrap_or_default();
        let first =
            same(self.0.front().filter(|_| self.0.len() > 1), vm, v).cloned().unwrap_or_default();
        let rate = |now: u64, old: u64| per_s(now.saturating_sub(old), interval_ns);
        let share = |now: u64, old: u64| {
            let pct = u128::from(now.saturating_sub(old)) * 100 / u128::from(interval_ns);
            u64::try_from(pct.min(100)).unwrap_or(100)
        };
        let (c, o) = (&v.counters, &old.counters);
        Row {
            vcpu_id: v.vcpu_id,
            cpu: v.cpu,
            state: v.state,
            reasons: v.reasons.clone(),
            throttle_cause: v.throttle_cause.clone(),
            not_boosted: v.not_boosted,
            asks: asks(v),
            speed: speed(v),
            running_pct: share(c.running_ns, o.running_ns),
            boosted_pct: share(c.boosted_ns, o.boosted_ns),
            boosts_per_s: rate(boosts(v), boosts(&old)),
            throttles: c.throttles,
            exits_per_s: rate(c.exits, o.exits),
            wakeups_per_s: rate(c.wakeups, o.wakeups),
            boosted: Latency::of(&v.wakeup_latency_boosted.since(&first.wakeup_latency_boosted)),
            unboosted: Latency::of(
                &v.wakeup_latency_unboosted.since(&first.wakeup_latency_unboosted),
            ),
            boost_history: self.boost_history(vm, v),
        }
    }

    fn boost_history(&self, vm: &VmSnapshot, v: &VcpuSnapshot) -> Vec<u64> {
        let totals: Vec<u64> =
            self.0.iter().filter_map(|s| same(Some(s), vm, v).map(boosts)).collect();
        totals.windows(2).map(|w| w[1].saturating_sub(w[0])).collect()
    }
}

fn weight(r: &Row, sort: Sort) -> u64 {
    match sort {
        Sort::Name => 0,
        Sort::Boosts => r.boosts_per_s,
        Sort::Throttles => r.throttles,
        Sort::Exits => r.exits_per_s,
        Sort::Latency => r.unboosted.p99_ns.unwrap_or(0),
    }
}

fn per_s(count: u64, interval_ns: u64) -> u64 {
    let rate = u128::from(count) * u128::from(NS_PER_S) / u128::from(interval_ns.max(1));
    u64::try_from(rate).unwrap_or(u64::MAX)
}
