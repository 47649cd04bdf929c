// SPDX-License-Identifier: GPL-2.0-only
//! The task that runs, and its groups: picked, charged, put back.

use super::queue::Leave;
use crate::{
    bpf::TaskId,
    kernel::fair_state::{EntityId, Fair},
};

impl Fair {
    /// `pick_task_fair()`, `pick_next_entity()`: nobody: the CPU's queue is empty.
    pub fn pick_task(&mut self, cpu: usize) -> Option<TaskId> {
        'again: loop {
            let mut q = cpu;
            if self.queues[q].nr_queued == 0 {
                return None;
            }
            loop {
                if self.check_runtime(q) {
                    continue 'again;
                }
                let se = self.pick_eevdf(q)?;
                if self.entities[se].delayed {
                    self.dequeue_entities(
                        se,
                        Leave { sleep: true, delayed: true, ..Leave::default() },
                    );
                    continue 'again;
                }
                match self.entities[se].owned {
                    Some(owned) => q = owned,
                    None => return self.entities[se].task,
                }
            }
        }
    }

    /// `set_next_entity()`, from the task up to the first group that runs already. `first`: it was picked.
    pub fn set_next(&mut self, se: EntityId, first: bool) {
        let mut above = Some(se);
        while let Some(se) = above {
            let q = self.entities[se].queue;
            if self.queues[q].curr == Some(se) {
                break;
            }
            if self.entities[se].on_rq {
                self.tree_remove(q, se);
                self.update_load(se, false);
                if first {
                    self.protect(se);
                }
            }
            let clock = self.clocks[self.queues[q].cpu].task;
            self.entities[se].exec_start = clock;
            self.queues[q].curr = Some(se);
            self.account_runtime(q, 0);
            above = self.queues[q].entity;
        }
        if self.entities[se].on_rq {
            self.list(se);
        }
    }

    /// `put_prev_entity()`, from the task up to the first group that goes on with `next`.
    pub fn put_prev(&mut self, se: EntityId, next: Option<EntityId>) {
        let mut above = Some(se);
        while let Some(se) = above {
            if next.is_some_and(|next| self.is_within(next, se)) {
                return;
            }
            let q = self.entities[se].queue;
            if self.queues[q].curr != Some(se) {
                return;
            }
            self.update_load(se, false);
            self.queues[q].curr = None;
            if self.entities[se].on_rq {
                self.tree_insert(q, se);
            }
            above = self.queues[q].entity;
        }
    }

    fn is_within(&self, se: EntityId, group: EntityId) -> bool {
        let mut above = Some(se);
        while let Some(se) = above {
            if se == group {
                return true;
            }
            above = self.parent(se);
        }
        false
    }

    /// `update_curr()`, of every queue on the way to the task that runs.
    pub fn charge(&mut self, cpu: usize, ran_ns: u64) {
        let ran = i64::try_from(ran_ns).unwrap_or(i64::MAX);
        let clock = self.clocks[cpu].task;
        let mut next = Some(cpu);
        while let Some(q) = next {
            let Some(se) = self.queues[q].curr else { return };
            let entity = &mut self.entities[se];
            entity.vruntime += super::weight::virtual_ns(ran, entity.weight);
            entity.exec_start = clock;
            next = entity.owned;
            let used_up = self.update_deadline(q, se);
            self.account_runtime(q, ran);
            if self.queues[q].nr_queued != 1 && (used_up || !self.is_protected(se)) {
                self.resched.push(cpu);
            }
        }
    }

    /// `entity_tick()`, of every queue on the way down from the task that runs.
    pub fn tick(&mut self, se: EntityId) {
        let mut above = Some(se);
        while let Some(se) = above {
            self.update_load(se, false);
            self.update_group(se);
            above = self.parent(se);
        }
    }

    /// `yield_task_fair()`: it forfeits the rest of its request.
    pub fn yield_task(&mut self, se: EntityId) {
        let q = self.entities[se].queue;
        if self.eligible(q, se) {
            self.entities[se].vruntime = self.entities[se].deadline;
            self.update_deadline(q, se);
        }
        self.unprotect(se);
    }
}
