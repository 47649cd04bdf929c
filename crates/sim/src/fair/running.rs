// SPDX-License-Identifier: GPL-2.0-only
//! The running task: it begins, stops, is charged, and yields.

use super::weight::{NICE_0_LOAD, virtual_ns};
use crate::kernel::fair_state::{EntityId, Fair};

impl Fair {
    /// `set_next_task_fair()`. `first`: the task was picked.
    pub fn set_next(&mut self, task: EntityId, first: bool) {
        let cpu = self.cpu_of(task);
        let on_rq = self.entities[task].on_rq;
        if on_rq {
            self.tree_remove(cpu, task);
        }
        // clear_buddies()
        self.timelines[cpu].buddy.take_if(|called| *called == task);
        let mut throttled = false;
        let mut weight = NICE_0_LOAD;
        let mut above = Some(task);
        while let Some(se) = above {
            let q = self.entities[se].queue;
            if self.queues[q].h_curr != Some(se) {
                self.set_next_entity(se);
            }
            throttled |= self.account_runtime(q, 0);
            if on_rq {
                weight = self.prop_weight(se, weight);
            }
            above = self.queues[q].entity;
        }
        if throttled {
            self.entities[task].throttle_work = true;
        }
        self.timelines[cpu].curr = Some(task);
        if on_rq {
            self.reweight_eevdf(task, weight, true);
            if first {
                self.protect(task);
            }
            self.list(task);
        }
        if first {
            self.hrtick_start(cpu);
        }
    }

    /// `set_next_entity()`.
    fn set_next_entity(&mut self, se: EntityId) {
        let q = self.entities[se].queue;
        if self.entities[se].on_rq {
            self.update_load(se, false);
        }
        self.entities[se].exec_start = self.clocks[self.queues[q].cpu].task;
        self.queues[q].h_curr = Some(se);
    }

    /// `put_prev_task_fair()`. `next`: the task that runs next. Groups that contain it continue to
    /// run.
    pub fn put_prev(&mut self, task: EntityId, next: Option<EntityId>) {
        let cpu = self.cpu_of(task);
        let mut above = Some(task);
        while let Some(se) = above {
            if next.is_some_and(|next| self.is_within(next, se)) {
                break;
            }
            // put_prev_entity()
            if self.entities[se].on_rq {
                self.update_load(se, false);
            }
            let queue = &mut self.queues[self.entities[se].queue];
            queue.h_curr = None;
            above = queue.entity;
        }
        if self.timelines[cpu].curr.take().is_some() && self.entities[task].on_rq {
            self.tree_insert(cpu, task);
        }
    }

    fn is_within(&self, se: EntityId, group: EntityId) -> bool {
        std::iter::successors(Some(se), |se| self.parent(*se)).any(|above| above == group)
    }

    /// `update_curr_fair()`, `update_curr()`: charges the quotas of all groups of the task, and its
    /// own virtual time.
    pub fn charge(&mut self, cpu: usize, ran_ns: u64) {
        let ran = i64::try_from(ran_ns).unwrap_or(i64::MAX);
        let Some(task) = self.timelines[cpu].curr else { return };
        let clock = self.clocks[cpu].task;
        let mut above = Some(task);
        while let Some(se) = above {
            let q = self.entities[se].queue;
            self.entities[se].exec_start = clock;
            self.account_runtime(q, ran);
            if se == task {
                self.advance(cpu, task, ran);
            }
            above = self.queues[q].entity;
        }
    }

    /// The part of `update_curr()` that concerns the task.
    fn advance(&mut self, cpu: usize, task: EntityId, ran_ns: i64) {
        let entity = &mut self.entities[task];
        entity.vruntime += virtual_ns(ran_ns, entity.h_weight);
        let used_up = self.update_deadline(cpu, task);
        if self.queues[cpu].h_nr_queued != 1 && (used_up || !self.is_protected(task)) {
            self.resched.push(cpu);
        }
    }

    /// `task_tick_fair()`, `entity_tick()`. `queued`: the slice has ended.
    pub fn tick(&mut self, task: EntityId, queued: bool) {
        if !self.entities[task].on_rq {
            return;
        }
        let mut weight = NICE_0_LOAD;
        let mut above = Some(task);
        while let Some(se) = above {
            self.update_load(se, false);
            self.update_group(se);
            weight = self.prop_weight(se, weight);
            above = self.parent(se);
        }
        self.reweight_eevdf(task, weight, true);
        if queued {
            let cpu = self.cpu_of(task);
            self.resched.push(cpu);
        }
    }

    /// `yield_task_fair()`: if the task is owed time, it gives up the rest of its request.
    pub fn yield_task(&mut self, se: EntityId) {
        let cpu = self.cpu_of(se);
        if self.eligible(cpu, se) {
            self.entities[se].vruntime = self.entities[se].deadline;
            self.update_deadline(cpu, se);
        }
    }
}
