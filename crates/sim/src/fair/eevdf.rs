// SPDX-License-Identifier: GPL-2.0-only
//! Earliest eligible virtual deadline first (EEVDF) among all tasks of a CPU: the average virtual
//! time, lag, and the selection of a task.

use super::weight::virtual_ns;
use crate::kernel::fair_state::{EntityId, Fair};

impl Fair {
    /// The running task, if it is still in its queue.
    #[must_use]
    pub fn running(&self, cpu: usize) -> Option<EntityId> {
        self.timelines[cpu].curr.filter(|curr| self.entities[*curr].on_rq)
    }

    /// Sum of the weighted vruntimes relative to the zero, and sum of the weights. Both include the
    /// running task.
    fn sums(&self, cpu: usize) -> (i128, i128) {
        let timeline = &self.timelines[cpu];
        let (mut sum, mut weight) = (timeline.sum_w_vruntime, timeline.sum_weight);
        if let Some(curr) = self.running(cpu) {
            let se = &self.entities[curr];
            sum += i128::from(se.vruntime - timeline.zero_vruntime) * i128::from(se.h_weight);
            weight += i128::from(se.h_weight);
        }
        (sum, weight)
    }

    /// `avg_vruntime()`. Also sets `zero_vruntime` to the average (`update_zero_vruntime()`).
    pub fn avg_vruntime(&mut self, cpu: usize) -> i64 {
        let (sum, weight) = self.sums(cpu);
        if weight > 0 {
            let delta = match (i64::try_from(sum), i64::try_from(weight)) {
                (Ok(sum), Ok(weight)) => sum.div_euclid(weight),
                _ => i64::try_from(sum.div_euclid(weight)).unwrap_or(0),
            };
            let timeline = &mut self.timelines[cpu];
            timeline.sum_w_vruntime -= timeline.sum_weight * i128::from(delta);
            timeline.zero_vruntime += delta;
        }
        self.timelines[cpu].zero_vruntime
    }

    /// `entity_eligible()`: whether the task is owed time, or owes none.
    #[must_use]
    pub fn eligible(&self, cpu: usize, se: EntityId) -> bool {
        let (sum, weight) = self.sums(cpu);
        let key = self.entities[se].vruntime - self.timelines[cpu].zero_vruntime;
        sum >= i128::from(key) * weight
    }

    /// `entity_lag()`: the virtual time that the task is owed, limited to a slice and a tick of its
    /// own virtual time.
    #[must_use]
    pub fn lag(&self, se: EntityId, avg_vruntime: i64) -> i64 {
        let entity = &self.entities[se];
        let tick_ns = i64::try_from(self.tick_ns).unwrap_or(0);
        let limit = virtual_ns(self.slice_ns + tick_ns, entity.h_weight);
        (avg_vruntime - entity.vruntime).clamp(-limit, limit)
    }

    /// `update_entity_lag()`. Returns whether the lag differs from what vruntime says. The lag of a
    /// task that is about to leave does not become more negative, and it is owed nothing
    /// (DELAY_ZERO).
    pub fn update_lag(&mut self, cpu: usize, se: EntityId) -> bool {
        let avg = self.avg_vruntime(cpu);
        let lag = self.lag(se, avg);
        let entity = &mut self.entities[se];
        entity.vlag = if entity.delayed { lag.max(entity.vlag).min(0) } else { lag };
        avg - entity.vlag != entity.vruntime
    }

    /// `__enqueue_entity()`.
    pub fn tree_insert(&mut self, cpu: usize, se: EntityId) {
        let timeline = &mut self.timelines[cpu];
        let entity = &mut self.entities[se];
        timeline.made += 1;
        let key = (entity.deadline, timeline.made);
        entity.key = Some(key);
        timeline.tree.insert(key, se);
        timeline.sum_w_vruntime +=
            i128::from(entity.vruntime - timeline.zero_vruntime) * i128::from(entity.h_weight);
        timeline.sum_weight += i128::from(entity.h_weight);
    }

    /// `__dequeue_entity()`.
    pub fn tree_remove(&mut self, cpu: usize, se: EntityId) {
        let timeline = &mut self.timelines[cpu];
        let entity = &mut self.entities[se];
        let Some(key) = entity.key.take() else { return };
        timeline.tree.remove(&key);
        timeline.sum_w_vruntime -=
            i128::from(entity.vruntime - timeline.zero_vruntime) * i128::from(entity.h_weight);
        timeline.sum_weight -= i128::from(entity.h_weight);
    }

    /// `place_entity()`: the task gets the lag that it had when it left (PLACE_LAG). If it was
    /// moved while it was runnable, it also gets the rest of its request (PLACE_REL_DEADLINE).
    /// `initial`: the task is new, and begins with half a request (PLACE_DEADLINE_INITIAL).
    /// `others`: the CPU has other tasks.
    pub fn place(&mut self, cpu: usize, se: EntityId, initial: bool, others: bool) {
        let avg = self.avg_vruntime(cpu);
        let mut lag = 0;
        if others && self.entities[se].vlag != 0 {
            // Adding the task moves the average towards it. The task is placed so that its lag
            // after this movement is its earlier lag.
            let load = self.sums(cpu).1;
            let (own, had) = (i128::from(self.entities[se].h_weight), self.entities[se].vlag);
            let more = i128::from(had) * own / load.max(1);
            lag = had.saturating_add(i64::try_from(more).unwrap_or(0));
        }
        let slice_ns = self.slice_ns;
        let entity = &mut self.entities[se];
        entity.vruntime = avg - lag;
        if entity.rel_deadline {
            entity.deadline += entity.vruntime;
            entity.rel_deadline = false;
            return;
        }
        let request = virtual_ns(slice_ns, entity.h_weight);
        entity.deadline = entity.vruntime + if initial { request / 2 } else { request };
    }

    /// `update_deadline()`. Returns whether the request is used up. If it is, a new request begins.
    pub fn update_deadline(&mut self, cpu: usize, se: EntityId) -> bool {
        let slice_ns = self.slice_ns;
        let entity = &mut self.entities[se];
        if entity.vruntime < entity.deadline {
            return false;
        }
        entity.deadline = entity.vruntime + virtual_ns(slice_ns, entity.h_weight);
        self.avg_vruntime(cpu);
        true
    }

    /// `protect_slice()`.
    #[must_use]
    pub fn is_protected(&self, se: EntityId) -> bool {
        let entity = &self.entities[se];
        entity.vruntime < entity.protected_until
    }

    /// `set_protect_slice()`: all requests have the same length, so the task is protected until its
    /// deadline (RUN_TO_PARITY).
    pub fn protect(&mut self, se: EntityId) {
        let entity = &mut self.entities[se];
        entity.protected_until = entity.deadline;
    }

    /// `update_protect_slice()`: another task has come, so the running task is protected for at
    /// most one more slice.
    pub fn update_protection(&mut self, cpu: usize, se: EntityId) {
        let avg = self.avg_vruntime(cpu);
        let slice_ns = self.slice_ns;
        let entity = &mut self.entities[se];
        let until = entity.vruntime.min(avg) + virtual_ns(slice_ns, entity.h_weight);
        entity.protected_until = entity.protected_until.min(until);
    }

    /// `cancel_protect_slice()`.
    pub fn unprotect(&mut self, se: EntityId) {
        let entity = &mut self.entities[se];
        entity.protected_until = entity.protected_until.min(entity.vruntime);
    }

    /// `pick_eevdf()`: among the tasks that are owed time, selects the one with the earliest
    /// deadline. The running task continues while it is protected. The kernel uses a heap of
    /// vruntimes. Here, tasks are visited in the order of their deadlines, because half of a CPU's
    /// tasks, by weight, are eligible.
    #[must_use]
    pub fn pick_eevdf(&self, cpu: usize) -> Option<EntityId> {
        let timeline = &self.timelines[cpu];
        let curr = self.running(cpu);
        if self.queues[cpu].h_nr_queued == 1 {
            return curr.or_else(|| timeline.tree.values().next().copied());
        }
        let (sum, weight) = self.sums(cpu);
        let eligible = |se: EntityId| {
            let key = self.entities[se].vruntime - timeline.zero_vruntime;
            sum >= i128::from(key) * weight
        };
        let curr = curr.filter(|curr| eligible(*curr));
        if let Some(curr) = curr.filter(|curr| self.is_protected(*curr)) {
            return Some(curr);
        }
        // PICK_BUDDY.
        let called = timeline.buddy.filter(|se| self.entities[*se].key.is_some() && eligible(*se));
        if called.is_some_and(|se| self.cpu_of(se) == cpu) {
            return called;
        }
        let best = timeline.tree.values().copied().find(|se| eligible(*se));
        match (best, curr) {
            (Some(best), Some(curr))
                if self.entities[curr].deadline < self.entities[best].deadline =>
            {
                Some(curr)
            }
            (Some(best), _) => Some(best),
            (None, curr) => curr,
        }
    }
}

/// A machine for tests.
#[cfg(test)]
pub mod machine {
    use crate::kernel::{
        Group,
        fair_state::{EntityId, Fair},
    };

    const SLICE_NS: i64 = 1_400_000;
    pub const MS: u64 = 1_000_000;

    fn group(level: usize) -> Group {
        Group {
            path: String::new(),
            parent: 0,
            level,
            weight: 100,
            quota: None,
            unlimited_since: 0,
            idle: false,
        }
    }

    fn begin(groups: &[Group], weights: &[u64]) -> (Fair, Vec<EntityId>) {
        let mut fair = Fair::new(groups, 1, SLICE_NS, 4 * MS);
        let begin = |(task, weight): (usize, &u64)| {
            fair.begin_task(task, groups.len() - 1, *weight, false);
            let se = fair.of_task(task);
            fair.enqueue_task(se, false);
            se
        };
        let tasks = weights.iter().enumerate().map(begin).collect();
        (fair, tasks)
    }

    /// A CPU with tasks of these weights.
    pub fn cpu(weights: &[u64]) -> (Fair, Vec<EntityId>) {
        begin(&[group(0)], weights)
    }

    /// The same in a group.
    pub fn grouped(weights: &[u64]) -> (Fair, Vec<EntityId>) {
        begin(&[group(0), group(1)], weights)
    }

    /// Lets time pass.
    pub fn passes(fair: &mut Fair, ns: u64) {
        fair.clocks[0].now += ns;
        fair.clocks[0].task += ns;
        fair.clocks[0].pelt += ns;
        fair.charge(0, ns);
    }

    /// Selects a task, lets it run for this long, and puts it back.
    pub fn runs(fair: &mut Fair, ns: u64) -> EntityId {
        let task = fair.pick_task(0).expect("a task");
        let se = fair.of_task(task);
        fair.set_next(se, true);
        passes(fair, ns);
        fair.put_prev(se, None);
        se
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::weight::NICE_0_LOAD,
        machine::{MS, cpu, runs},
    };

    #[test]
    fn who_has_had_more_than_its_share_is_not_picked() {
        let (mut fair, tasks) = cpu(&[NICE_0_LOAD, NICE_0_LOAD]);
        let first = runs(&mut fair, 2 * MS);
        assert_eq!(first, tasks[0]);
        // Even with the earliest deadline, the task is not eligible.
        fair.tree_remove(0, first);
        fair.entities[first].deadline = i64::MIN / 4;
        fair.tree_insert(0, first);
        assert!(!fair.eligible(0, first));
        assert_eq!(fair.pick_eevdf(0), Some(tasks[1]));
    }

    #[test]
    fn of_those_that_are_owed_time_the_earliest_deadline_is_picked() {
        let (mut fair, tasks) = cpu(&[NICE_0_LOAD, 4 * NICE_0_LOAD, NICE_0_LOAD]);
        // The request of the heavy task is shorter in virtual time.
        assert_eq!(fair.pick_eevdf(0), Some(tasks[1]));
        assert!(tasks.iter().all(|se| fair.eligible(0, *se)));
        assert_eq!(runs(&mut fair, MS), tasks[1]);
    }

    #[test]
    fn who_runs_is_protected_until_its_request_is_used_up() {
        let (mut fair, tasks) = cpu(&[NICE_0_LOAD, NICE_0_LOAD, NICE_0_LOAD]);
        fair.set_next(tasks[1], true);
        fair.charge(0, MS);
        assert!(fair.is_protected(tasks[1]));
        fair.charge(0, MS);
        assert!(!fair.is_protected(tasks[1]));
        assert_eq!(fair.resched, [0]);
        assert_ne!(fair.pick_eevdf(0), Some(tasks[1]));
    }

    #[test]
    fn shares_follow_weights() {
        let (mut fair, tasks) = cpu(&[3 * NICE_0_LOAD, NICE_0_LOAD]);
        let heavy = (0..4000).filter(|_| runs(&mut fair, MS) == tasks[0]).count();
        assert!((2990..=3010).contains(&heavy), "{heavy}");
    }

    #[test]
    fn lag_survives_a_move_away_and_back() {
        let (mut fair, tasks) = cpu(&[NICE_0_LOAD, NICE_0_LOAD, 2 * NICE_0_LOAD]);
        runs(&mut fair, MS);
        runs(&mut fair, MS);
        let leave = super::super::queue::Leave::default();
        let avg = fair.avg_vruntime(0);
        let lag = avg - fair.entities[tasks[0]].vruntime;
        let left = fair.entities[tasks[0]].deadline - fair.entities[tasks[0]].vruntime;
        fair.dequeue_task(tasks[0], leave);
        assert_eq!(fair.entities[tasks[0]].vlag, lag);
        fair.enqueue_task(tasks[0], false);
        let avg = fair.avg_vruntime(0);
        assert!((avg - fair.entities[tasks[0]].vruntime - lag).abs() <= 2);
        assert_eq!(fair.entities[tasks[0]].deadline - fair.entities[tasks[0]].vruntime, left);
    }

    #[test]
    fn who_sleeps_with_debt_stays_until_it_is_paid() {
        let (mut fair, tasks) = cpu(&[NICE_0_LOAD, NICE_0_LOAD]);
        let first = runs(&mut fair, 2 * MS);
        let sleep = super::super::queue::Leave { sleep: true, ..Default::default() };
        assert!(!fair.dequeue_task(first, sleep));
        assert!(fair.entities[first].delayed && fair.queues[0].h_nr_runnable == 1);
        (0..4).for_each(|_| assert_eq!(runs(&mut fair, MS), tasks[1]));
        assert!(!fair.entities[first].on_rq);
        assert_eq!((fair.queues[0].nr_queued, fair.queues[0].h_nr_queued), (1, 1));
    }
}
