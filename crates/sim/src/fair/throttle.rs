// SPDX-License-Identifier: GPL-2.0-only
//! Throttling: the quota of a queue is used up. Its tasks leave it one by one, each when it is
//! about to return to user mode, and wait in limbo. A task stays among the CPU's tasks until it has
//! been picked once more.

use std::collections::VecDeque;

use super::{bandwidth::SLICE_NS, queue::Leave};
use crate::{
    bpf::TaskId,
    kernel::fair_state::{EntityId, Fair, QueueId},
};

impl Fair {
    /// `throttled_hierarchy()`.
    #[must_use]
    pub fn is_throttled(&self, q: QueueId) -> bool {
        self.queues[q].throttle_count > 0
    }

    /// The queue of a group on a CPU and all queues below it, parents first
    /// (`walk_tg_tree_from()`).
    fn below(&self, q: QueueId) -> Vec<QueueId> {
        let cpu = self.queues[q].cpu;
        let mut found = vec![q];
        let mut next = 0;
        while let Some(q) = found.get(next) {
            let children = &self.groups[self.queues[*q].group].children;
            found.extend(children.iter().map(|child| child * self.cpus + cpu));
            next += 1;
        }
        found
    }

    /// Stops the time for the load of an empty queue that is throttled (`dequeue_entity()`,
    /// `tg_throttle_down()`).
    pub fn stop_pelt_clock(&mut self, q: QueueId) {
        let pelt = self.clocks[self.queues[q].cpu].pelt;
        let queue = &mut self.queues[q];
        (queue.stopped, queue.stopped_at) = (true, pelt);
    }

    /// Continues the queue's clock of load tracking, if it is stopped (`enqueue_entity()`,
    /// `tg_unthrottle_up()`).
    pub fn start_pelt_clock(&mut self, q: QueueId) {
        let pelt = self.clocks[self.queues[q].cpu].pelt;
        let queue = &mut self.queues[q];
        if std::mem::take(&mut queue.stopped) {
            queue.stopped_ns += pelt.saturating_sub(queue.stopped_at);
        }
    }

    /// `throttle_cfs_rq()`. Returns false if the pool had runtime, so that the queue is not
    /// throttled. A running queue takes a slice.
    pub fn throttle(&mut self, q: QueueId) -> bool {
        let runs = self.queues[q].h_curr.is_some_and(|curr| self.entities[curr].on_rq);
        if self.assign(q, if runs { SLICE_NS } else { 1 }) {
            return false;
        }
        let group = self.queues[q].group;
        self.groups[group].bandwidth.throttled.push_back(q);
        for q in self.below(q) {
            self.queues[q].throttle_count += 1;
            if self.queues[q].throttle_count == 1 && self.queues[q].nr_queued == 0 {
                self.stop_pelt_clock(q);
            }
        }
        self.queues[q].throttled = true;
        if let Some(curr) = self.timelines[self.queues[q].cpu].curr.filter(|_| runs) {
            self.entities[curr].throttle_work = true;
        }
        true
    }

    /// `throttle_cfs_rq_work()`: a task returns to user mode. Returns whether it has left its
    /// queue.
    pub fn throttle_work(&mut self, se: EntityId) -> bool {
        let work = std::mem::take(&mut self.entities[se].throttle_work);
        let q = self.entities[se].queue;
        if !work || !self.is_throttled(q) || self.entities[se].throttled {
            return false;
        }
        let why = Leave { sleep: true, throttle: true, ..Leave::default() };
        self.dequeue_task(se, why);
        self.enter_limbo(se);
        true
    }

    fn enter_limbo(&mut self, se: EntityId) {
        let Some(task) = self.entities[se].task else { return };
        let q = self.entities[se].queue;
        self.queues[q].limbo.push_front(task);
        self.entities[se].throttled = true;
    }

    /// `dequeue_throttled_task()`: a task leaves limbo, because it moves elsewhere or sleeps.
    pub fn dequeue_throttled(&mut self, se: EntityId, why: Leave) {
        let entity = &mut self.entities[se];
        entity.throttled = !why.sleep;
        let task = entity.task;
        self.queues[entity.queue].limbo.retain(|other| Some(*other) != task);
    }

    /// `enqueue_throttled_task()`. Returns whether the task goes to limbo again, because its new
    /// queue is throttled, too.
    pub fn enqueue_throttled(&mut self, se: EntityId) -> bool {
        let cpu = self.cpu_of(se);
        if self.is_throttled(self.entities[se].queue) && self.timelines[cpu].curr != Some(se) {
            self.enter_limbo(se);
            return true;
        }
        self.comes_back(se);
        false
    }

    fn comes_back(&mut self, se: EntityId) {
        let now = self.clocks[self.cpu_of(se)].now;
        let entity = &mut self.entities[se];
        (entity.throttled, entity.released_at) = (false, now);
    }

    /// `unthrottle_cfs_rq()`. The clocks and accounts of the CPU must be up to date.
    pub fn unthrottle(&mut self, q: QueueId) {
        if self.queues[q].limited && self.queues[q].runtime_ns <= 0 {
            return;
        }
        self.queues[q].throttled = false;
        let (group, cpu) = (self.queues[q].group, self.queues[q].cpu);
        self.groups[group].bandwidth.throttled.retain(|other| *other != q);
        // Children are unthrottled first.
        for q in self.below(q).into_iter().rev() {
            self.unthrottle_one(q);
        }
        if self.timelines[cpu].curr.is_none() && self.queues[cpu].h_nr_queued > 0 {
            self.resched.push(cpu);
        }
    }

    /// `tg_unthrottle_up()`.
    fn unthrottle_one(&mut self, q: QueueId) {
        self.queues[q].throttle_count -= 1;
        if self.queues[q].throttle_count > 0 {
            return;
        }
        self.start_pelt_clock(q);
        let mut waiting: VecDeque<TaskId> = std::mem::take(&mut self.queues[q].limbo);
        while self.queues[q].throttle_count == 0 {
            let Some(task) = waiting.pop_front() else { break };
            let se = self.of_task(task);
            self.comes_back(se);
            self.enqueue_task(se, false);
        }
        // The queue is throttled again, so the other tasks stay.
        waiting.append(&mut self.queues[q].limbo);
        self.queues[q].limbo = waiting;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        eevdf::machine::{MS, grouped, passes},
        weight::NICE_0_LOAD,
    };
    use crate::mix::Quota;

    #[test]
    fn tasks_leave_when_they_are_about_to_run_and_come_back_with_the_quota() {
        let (mut fair, tasks) = grouped(&[NICE_0_LOAD, NICE_0_LOAD]);
        let quota = Quota { quota_ns: 5 * MS, period_ns: 100 * MS, burst_ns: 0 };
        fair.set_quota(1, Some(quota), 0);
        fair.set_next(tasks[0], true);
        passes(&mut fair, 6 * MS);
        assert!(fair.queues[1].throttled && fair.queues[1].limbo.is_empty());
        assert_eq!(fair.queues[0].h_nr_queued, 2, "tasks stay until they leave the kernel");
        assert!(fair.throttle_work(tasks[0]));
        assert_eq!(fair.pick_task(0), Some(1));
        fair.put_prev(tasks[0], Some(tasks[1]));
        fair.set_next(tasks[1], true);
        assert!(fair.throttle_work(tasks[1]));
        fair.put_prev(tasks[1], None);
        assert_eq!((fair.pick_task(0), fair.queues[1].stopped), (None, true));
        fair.clocks[0].now += 100 * MS;
        let seq = fair.groups[1].bandwidth.seq;
        fair.period_ends(1, seq);
        assert_eq!(fair.queues[0].h_nr_queued, 2);
        assert!(fair.queues[1].limbo.is_empty() && !fair.entities[tasks[0]].throttled);
    }
}
