// SPDX-License-Identifier: GPL-2.0-only
//! Quotas: a group's pool of running time per period, slices of which its queues take, throttling. A queue is
//! throttled as a whole, as before Linux 6.18; since then its tasks are one by one, when they leave the kernel, which
//! is the same for tasks that only compute.

use super::queue::{Leave, Tasks};
use crate::{
    kernel::{
        Event,
        events::short,
        fair_state::{Bandwidth, Fair, QueueId},
    },
    mix::{Ns, Quota},
};

/// `sysctl_sched_cfs_bandwidth_slice`.
const SLICE_NS: i64 = 5_000_000;
/// `min_cfs_rq_runtime`: what a queue keeps when it becomes empty.
const KEPT_NS: i64 = 1_000_000;
/// `cfs_bandwidth_slack_period`.
const SLACK_NS: Ns = 5_000_000;
/// `min_bandwidth_expiration`: a period ends too soon for slack to be of use.
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

    /// `__assign_cfs_rq_runtime()`: what a queue that has `runtime_ns` left gets, to have `target_ns`.
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

    /// `assign_cfs_rq_runtime()`: whether the queue has some then.
    fn assign(&mut self, q: QueueId, target_ns: i64) -> bool {
        let (group, cpu) = (self.queues[q].group, self.queues[q].cpu);
        self.start_periods(group, self.clocks[cpu].now);
        let runtime_ns = self.queues[q].runtime_ns;
        let amount = self.bandwidth(q).take(runtime_ns, target_ns);
        self.queues[q].runtime_ns += amount;
        self.queues[q].runtime_ns > 0
    }

    /// `account_cfs_rq_runtime()`.
    pub fn account_runtime(&mut self, q: QueueId, ran_ns: i64) {
        let queue = &mut self.queues[q];
        if !queue.limited {
            return;
        }
        queue.runtime_ns -= ran_ns;
        if queue.runtime_ns > 0 || queue.throttled {
            return;
        }
        let (cpu, runs) = (queue.cpu, queue.curr.is_some());
        if !self.assign(q, SLICE_NS) && runs {
            self.resched.push(cpu);
        }
    }

    /// `check_cfs_rq_runtime()`: whether the queue is throttled now.
    pub fn check_runtime(&mut self, q: QueueId) -> bool {
        let queue = &self.queues[q];
        if !queue.limited || queue.runtime_ns > 0 {
            return false;
        }
        queue.throttled || self.throttle(q)
    }

    /// `check_enqueue_throttle()`: the first entity comes to the queue.
    pub fn check_enqueue_throttle(&mut self, q: QueueId) {
        let queue = &self.queues[q];
        if !queue.limited || queue.curr.is_some() || queue.throttled {
            return;
        }
        self.account_runtime(q, 0);
        if self.queues[q].runtime_ns <= 0 {
            self.throttle(q);
        }
    }

    /// `return_cfs_rq_runtime()`: an empty queue gives back what it has, but a millisecond.
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
    pub fn slack_is_due(&mut self, group: usize) {
        let bandwidth = &mut self.groups[group].bandwidth;
        bandwidth.slack_started = false;
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

    /// `distribute_cfs_runtime()`: each that waits is made to have a nanosecond, in the order of their waiting.
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

    /// Calls something for a group's queue on a CPU and all below it (`walk_tg_tree_from()`).
    fn below(&mut self, q: QueueId, visit: &mut dyn FnMut(&mut Self, QueueId)) {
        visit(self, q);
        let (group, cpu) = (self.queues[q].group, self.queues[q].cpu);
        for child in 0..self.groups[group].children.len() {
            let child = self.groups[group].children[child];
            self.below(child * self.cpus + cpu, visit);
        }
    }

    fn tasks_below(&self, q: QueueId) -> Tasks {
        let queue = &self.queues[q];
        let idle = if self.groups[queue.group].idle { queue.h_nr_queued } else { queue.h_nr_idle };
        Tasks { queued: queue.h_nr_queued, runnable: queue.h_nr_runnable, idle }
    }

    /// `throttle_cfs_rq()`: whether it is throttled; not: the pool had some after all.
    fn throttle(&mut self, q: QueueId) -> bool {
        if self.assign(q, 1) {
            return false;
        }
        self.bandwidth(q).throttled.push_back(q);
        let pelt = self.clocks[self.queues[q].cpu].pelt;
        self.below(q, &mut |fair, q| {
            let queue = &mut fair.queues[q];
            if queue.throttle_count == 0 {
                queue.stopped_at = pelt;
            }
            queue.throttle_count += 1;
        });
        self.queues[q].throttled = true;
        let mut tasks = self.tasks_below(q);
        let mut above = self.queues[q].entity;
        while let Some(se) = above {
            if !self.entities[se].on_rq {
                return true;
            }
            let delayed = self.entities[se].delayed;
            self.dequeue_entity(se, Leave { sleep: true, special: true, delayed });
            let parent = self.entities[se].queue;
            tasks = self.take_tasks(parent, tasks);
            above = self.queues[parent].entity;
            if self.queues[parent].throttled {
                return true;
            }
            if self.queues[parent].weight > 0 {
                break;
            }
        }
        self.rest_of_groups(above, |fair, q| {
            tasks = fair.take_tasks(q, tasks);
        });
        true
    }

    /// `unthrottle_cfs_rq()`.
    pub fn unthrottle(&mut self, q: QueueId) {
        self.queues[q].throttled = false;
        let cpu = self.queues[q].cpu;
        let (now, pelt) = (self.clocks[cpu].now, self.clocks[cpu].pelt);
        let bandwidth = self.bandwidth(q);
        bandwidth.throttled.retain(|other| *other != q);
        bandwidth.released_at = now;
        self.below(q, &mut |fair, q| {
            let queue = &mut fair.queues[q];
            queue.throttle_count -= 1;
            if queue.throttle_count == 0 {
                queue.stopped_ns += pelt.saturating_sub(queue.stopped_at);
            }
        });
        if self.queues[q].weight == 0 {
            return;
        }
        let mut tasks = self.tasks_below(q);
        let mut above = self.queues[q].entity;
        while let Some(se) = above {
            if self.entities[se].on_rq {
                if self.entities[se].delayed {
                    self.enqueue_task(se, false);
                }
                break;
            }
            self.enqueue_entity(se, false);
            let parent = self.entities[se].queue;
            tasks = self.add_tasks(parent, tasks);
            above = self.queues[parent].entity;
            if self.queues[parent].throttled {
                return;
            }
        }
        self.rest_of_groups(above, |fair, q| {
            tasks = fair.add_tasks(q, tasks);
        });
        self.resched.push(cpu);
    }

    /// A group's quota changes: all its queues begin anew. Clocks of all CPUs are right.
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

    /// `throttled_hierarchy()`.
    #[must_use]
    pub fn is_throttled(&self, q: QueueId) -> bool {
        self.queues[q].throttle_count > 0
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
