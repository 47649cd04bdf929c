// SPDX-License-Identifier: GPL-2.0-only
//! Quotas. A group has a pool of runtime per period, and its queues take slices from the pool. The
//! module `throttle` handles a queue that gets none.

use crate::{
    kernel::{
        Event,
        events::short,
        fair_state::{Bandwidth, Fair, QueueId},
    },
    mix::Quota,
    time::Ns,
};

/// `sysctl_sched_cfs_bandwidth_slice`.
pub const SLICE_NS: i64 = 5_000_000;
/// `min_cfs_rq_runtime`: the runtime that a queue keeps when it becomes empty.
const KEPT_NS: i64 = 1_000_000;
/// `cfs_bandwidth_slack_period`.
const SLACK_NS: Ns = 5_000_000;
/// `min_bandwidth_expiration`: if the period ends within this time, returning slack is not
/// worthwhile.
const SOON_NS: Ns = 2_000_000;

impl Bandwidth {
    /// `tg_set_cfs_bandwidth()`.
    pub fn set(&mut self, quota: Option<Quota>) {
        let signed = |ns: Ns| i64::try_from(ns).unwrap_or(i64::MAX / 2);
        self.quota_ns = quota.map(|quota| signed(quota.quota_ns));
        self.period_ns = quota.map_or(0, |quota| quota.period_ns);
        self.burst_ns = quota.map_or(0, |quota| signed(quota.burst_ns));
    }

    /// `__refill_cfs_bandwidth_runtime()`.
    pub fn refill(&mut self) {
        if let Some(quota_ns) = self.quota_ns {
            self.pool_ns = (self.pool_ns + quota_ns).min(quota_ns + self.burst_ns);
        }
    }

    /// `__assign_cfs_rq_runtime()`: takes runtime for a queue that has `runtime_ns` left and should
    /// have `target_ns`.
    pub fn take(&mut self, runtime_ns: i64, target_ns: i64) -> i64 {
        let wanted = target_ns - runtime_ns;
        if self.quota_ns.is_none() {
            return wanted;
        }
        let amount = wanted.min(self.pool_ns).max(0);
        if self.pool_ns > 0 {
            self.idle = false;
        }
        self.pool_ns -= amount;
        amount
    }
}

impl Fair {
    fn bandwidth(&mut self, q: QueueId) -> &mut Bandwidth {
        &mut self.groups[self.queues[q].group].bandwidth
    }

    /// `start_cfs_bandwidth()`.
    pub fn start_periods(&mut self, group: usize, now: Ns) {
        let bandwidth = &mut self.groups[group].bandwidth;
        if bandwidth.active || bandwidth.quota_ns.is_none() {
            return;
        }
        bandwidth.active = true;
        if let Some(late_ns) = now.checked_sub(bandwidth.expires) {
            bandwidth.expires += (late_ns / bandwidth.period_ns + 1) * bandwidth.period_ns;
        }
        self.arm_period(group);
    }

    fn arm_period(&mut self, group: usize) {
        let bandwidth = &mut self.groups[group].bandwidth;
        bandwidth.seq += 1;
        let event = Event::Period { group: short(group), seq: bandwidth.seq };
        self.due.push((bandwidth.expires, event));
    }

    /// `assign_cfs_rq_runtime()`. Returns whether the queue has runtime afterwards.
    pub fn assign(&mut self, q: QueueId, target_ns: i64) -> bool {
        let (group, cpu) = (self.queues[q].group, self.queues[q].cpu);
        self.start_periods(group, self.clocks[cpu].now);
        let runtime_ns = self.queues[q].runtime_ns;
        let amount = self.bandwidth(q).take(runtime_ns, target_ns);
        self.queues[q].runtime_ns += amount;
        self.queues[q].runtime_ns > 0
    }

    /// `account_cfs_rq_runtime()`. Returns whether the queue is throttled afterwards.
    pub fn account_runtime(&mut self, q: QueueId, ran_ns: i64) -> bool {
        let queue = &mut self.queues[q];
        if !queue.limited {
            return false;
        }
        queue.runtime_ns -= ran_ns;
        queue.runtime_ns <= 0 && (queue.throttled || self.throttle(q))
    }

    /// `check_enqueue_throttle()`, called when the first entity is added to the queue.
    pub fn check_enqueue_throttle(&mut self, q: QueueId) {
        let queue = &self.queues[q];
        if queue.h_curr.is_none() && !queue.throttled {
            self.account_runtime(q, 0);
        }
    }

    /// `return_cfs_rq_runtime()`: an empty queue returns its runtime, except one millisecond.
    pub fn return_runtime(&mut self, q: QueueId) {
        let queue = &self.queues[q];
        let slack_ns = queue.runtime_ns - KEPT_NS;
        if !queue.limited || queue.nr_queued > 0 || slack_ns <= 0 {
            return;
        }
        let (group, now) = (queue.group, self.clocks[queue.cpu].now);
        let bandwidth = &mut self.groups[group].bandwidth;
        if bandwidth.quota_ns.is_some() {
            bandwidth.pool_ns += slack_ns;
            let soon = now + SLACK_NS + SOON_NS > bandwidth.expires;
            let useful = bandwidth.pool_ns > SLICE_NS && !bandwidth.throttled.is_empty();
            if useful && !bandwidth.slack_started && !(bandwidth.active && soon) {
                bandwidth.slack_started = true;
                self.due.push((now + SLACK_NS, Event::Slack { group: short(group) }));
            }
        }
        self.queues[q].runtime_ns -= slack_ns;
    }

    /// `do_sched_cfs_slack_timer()`.
    pub fn slack_is_due(&mut self, group: usize, now: Ns) {
        let bandwidth = &mut self.groups[group].bandwidth;
        bandwidth.slack_started = false;
        if bandwidth.active && bandwidth.expires < now + SOON_NS {
            return;
        }
        if bandwidth.quota_ns.is_some() && bandwidth.pool_ns > SLICE_NS {
            self.distribute(group);
        }
    }

    /// `do_sched_cfs_period_timer()`.
    pub fn period_ends(&mut self, group: usize, seq: u32) {
        let bandwidth = &mut self.groups[group].bandwidth;
        if bandwidth.seq != seq || !bandwidth.active {
            return;
        }
        let waiting = !bandwidth.throttled.is_empty();
        bandwidth.refill();
        if bandwidth.quota_ns.is_none() || bandwidth.idle && !waiting {
            bandwidth.active = false;
            return;
        }
        bandwidth.idle = !waiting;
        bandwidth.expires += bandwidth.period_ns;
        self.arm_period(group);
        if waiting {
            self.distribute(group);
        }
    }

    /// `distribute_cfs_runtime()`: gives each waiting queue so much that it has one nanosecond, in
    /// the order of their waiting.
    fn distribute(&mut self, group: usize) {
        let waiting: Vec<QueueId> =
            self.groups[group].bandwidth.throttled.iter().copied().collect();
        for q in waiting {
            let runtime_ns = self.queues[q].runtime_ns;
            if self.groups[group].bandwidth.pool_ns <= 0 {
                return;
            }
            if !self.queues[q].throttled || runtime_ns > 0 {
                continue;
            }
            let amount = self.bandwidth(q).take(runtime_ns, 1);
            self.queues[q].runtime_ns += amount;
            if self.queues[q].runtime_ns > 0 {
                self.unthrottle(q);
            }
        }
    }

    /// Changes the quota of a group. All of its queues begin anew. The clocks of all CPUs must be
    /// up to date.
    pub fn set_quota(&mut self, group: usize, quota: Option<Quota>, now: Ns) {
        let bandwidth = &mut self.groups[group].bandwidth;
        bandwidth.set(quota);
        if quota.is_none() {
            bandwidth.active = false;
        }
        bandwidth.refill();
        self.start_periods(group, now);
        for cpu in 0..self.cpus {
            let q = group * self.cpus + cpu;
            self.queues[q].limited = quota.is_some();
            self.queues[q].runtime_ns = 1;
            if self.queues[q].throttled {
                self.unthrottle(q);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(quota_ms: u64, burst_ms: u64) -> Bandwidth {
        let mut bandwidth = Bandwidth::default();
        let ms = |ms: u64| ms * 1_000_000;
        let quota = Quota { quota_ns: ms(quota_ms), period_ns: ms(100), burst_ns: ms(burst_ms) };
        bandwidth.set(Some(quota));
        bandwidth
    }

    #[test]
    fn a_pool_is_refilled_up_to_its_quota_and_burst() {
        let mut plain = pool(30, 0);
        plain.refill();
        plain.refill();
        assert_eq!(plain.pool_ns, 30_000_000);
        let mut burst = pool(30, 10);
        burst.refill();
        burst.refill();
        assert_eq!(burst.pool_ns, 40_000_000);
    }

    #[test]
    fn slices_are_taken_until_nothing_is_left() {
        let mut bandwidth = pool(7, 0);
        bandwidth.refill();
        assert_eq!(bandwidth.take(-500_000, SLICE_NS), 5_500_000);
        assert_eq!(bandwidth.take(0, SLICE_NS), 1_500_000);
        assert_eq!(bandwidth.take(0, SLICE_NS), 0);
        assert_eq!(Bandwidth::default().take(-3, 2), 5, "no limit");
    }
}
