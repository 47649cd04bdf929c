// SPDX-License-Identifier: GPL-2.0-only
//! Entities come to queues and leave them, and with them their groups.

use super::weight::NICE_0_LOAD;
use crate::{
    bpf::TaskId,
    kernel::fair_state::{EntityId, Fair, QueueId},
};

/// Why an entity leaves its queue: the kernel's DEQUEUE_*.
#[derive(Clone, Copy, Debug, Default)]
pub struct Leave {
    /// It does not want to run any more (DEQUEUE_SLEEP).
    pub sleep: bool,
    /// It does so at once, whatever its lag is (DEQUEUE_SPECIAL).
    pub special: bool,
    /// It has stayed for its lag, and goes now (DEQUEUE_DELAYED).
    pub delayed: bool,
}

/// Tasks that come or go below a queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tasks {
    /// All.
    pub queued: u32,
    /// Those that want to run.
    pub runnable: u32,
    /// SCHED_IDLE or in idle groups.
    pub idle: u32,
}

impl Fair {
    /// A task's entity.
    #[must_use]
    pub fn of_task(&self, task: TaskId) -> EntityId {
        self.queues.len() + task
    }

    /// The entity of the group of a queue.
    #[must_use]
    pub fn parent(&self, se: EntityId) -> Option<EntityId> {
        self.queues[self.entities[se].queue].entity
    }

    /// `cfs_rq_is_idle()`.
    fn is_idle_queue(&self, q: QueueId) -> bool {
        self.groups[self.queues[q].group].idle
    }

    /// Adds to a queue's tasks; what goes up from there.
    pub(super) fn add_tasks(&mut self, q: QueueId, mut tasks: Tasks) -> Tasks {
        let idle = self.is_idle_queue(q);
        let queue = &mut self.queues[q];
        queue.h_nr_queued += tasks.queued;
        queue.h_nr_runnable += tasks.runnable;
        queue.h_nr_idle += tasks.idle;
        if idle {
            tasks.idle = tasks.queued;
        }
        tasks
    }

    /// Takes from a queue's tasks.
    pub(super) fn take_tasks(&mut self, q: QueueId, mut tasks: Tasks) -> Tasks {
        let idle = self.is_idle_queue(q);
        let queue = &mut self.queues[q];
        queue.h_nr_queued -= tasks.queued;
        queue.h_nr_runnable -= tasks.runnable;
        queue.h_nr_idle -= tasks.idle;
        if idle {
            tasks.idle = tasks.queued;
        }
        tasks
    }

    /// `enqueue_entity()`.
    pub(super) fn enqueue_entity(&mut self, se: EntityId, initial: bool) {
        let q = self.entities[se].queue;
        let is_curr = self.queues[q].curr == Some(se);
        if is_curr {
            self.place(q, se, initial);
        }
        self.update_load(se, true);
        self.note_runnable(se);
        self.update_group(se);
        if !is_curr {
            self.place(q, se, initial);
        }
        self.queues[q].weight += self.entities[se].weight;
        self.queues[q].nr_queued += 1;
        self.list(se);
        if !is_curr {
            self.tree_insert(q, se);
        }
        self.entities[se].on_rq = true;
        if self.queues[q].nr_queued == 1 {
            self.check_enqueue_throttle(q);
        }
    }

    /// `dequeue_entity()`: whether it is gone; not: it stays until its lag is (DELAY_DEQUEUE).
    pub(super) fn dequeue_entity(&mut self, se: EntityId, why: Leave) -> bool {
        let q = self.entities[se].queue;
        if !why.delayed && why.sleep && !why.special && !self.eligible(q, se) {
            self.update_load(se, false);
            self.update_lag(q, se);
            self.set_delayed(se);
            return false;
        }
        self.update_load(se, false);
        self.note_runnable(se);
        self.update_lag(q, se);
        let entity = &mut self.entities[se];
        if !why.sleep {
            entity.deadline -= entity.vruntime;
            entity.rel_deadline = true;
        }
        entity.on_rq = false;
        entity.delayed = false;
        let weight = entity.weight;
        if self.queues[q].curr != Some(se) {
            self.tree_remove(q, se);
        }
        self.queues[q].weight -= weight;
        self.queues[q].nr_queued -= 1;
        self.unlist(se);
        self.return_runtime(q);
        self.update_group(se);
        true
    }

    /// `set_delayed()`: a task does not count as runnable any more.
    fn set_delayed(&mut self, se: EntityId) {
        self.entities[se].delayed = true;
        self.count_runnable(se, |count| count - 1);
    }

    fn count_runnable(&mut self, se: EntityId, change: impl Fn(u32) -> u32) {
        if self.entities[se].task.is_none() {
            return;
        }
        let mut above = Some(se);
        while let Some(se) = above {
            let queue = &mut self.queues[self.entities[se].queue];
            queue.h_nr_runnable = change(queue.h_nr_runnable);
            if queue.throttled {
                return;
            }
            above = queue.entity;
        }
    }

    /// `requeue_delayed_entity()`: it wants to run again. Time that it was owed meanwhile is forfeit (DELAY_ZERO).
    fn requeue_delayed(&mut self, se: EntityId) {
        let q = self.entities[se].queue;
        let avg = self.avg_vruntime(q);
        if avg > self.entities[se].vruntime {
            let is_curr = self.queues[q].curr == Some(se);
            self.queues[q].nr_queued -= 1;
            if !is_curr {
                self.tree_remove(q, se);
            }
            self.entities[se].vlag = 0;
            self.place(q, se, false);
            if !is_curr {
                self.tree_insert(q, se);
            }
            self.queues[q].nr_queued += 1;
        }
        self.update_load(se, false);
        self.entities[se].delayed = false;
        self.count_runnable(se, |count| count + 1);
    }

    /// `enqueue_task_fair()`. `initial`: it is new.
    pub fn enqueue_task(&mut self, se: EntityId, initial: bool) {
        if self.entities[se].delayed {
            self.requeue_delayed(se);
            return;
        }
        let mut tasks = Tasks { queued: 1, runnable: 1, idle: u32::from(self.entities[se].idle) };
        let mut initial = initial;
        let mut above = Some(se);
        while let Some(se) = above {
            if self.entities[se].on_rq {
                if self.entities[se].delayed {
                    self.requeue_delayed(se);
                }
                break;
            }
            self.enqueue_entity(se, initial);
            initial = false;
            let q = self.entities[se].queue;
            tasks = self.add_tasks(q, tasks);
            if self.queues[q].throttled {
                return;
            }
            above = self.queues[q].entity;
        }
        self.rest_of_groups(above, |fair, q| {
            tasks = fair.add_tasks(q, tasks);
        });
    }

    /// What `enqueue_task_fair()` and `dequeue_entities()` do to the groups that stay where they are.
    pub(super) fn rest_of_groups(
        &mut self,
        mut above: Option<EntityId>,
        mut count: impl FnMut(&mut Self, QueueId),
    ) {
        while let Some(se) = above {
            self.update_load(se, false);
            self.note_runnable(se);
            self.update_group(se);
            let q = self.entities[se].queue;
            count(self, q);
            if self.queues[q].throttled {
                return;
            }
            above = self.queues[q].entity;
        }
    }

    /// `dequeue_entities()`: whether the first one is gone.
    pub fn dequeue_entities(&mut self, first: EntityId, why: Leave) -> bool {
        let mut tasks = Tasks::default();
        if self.entities[first].task.is_some() {
            let runnable = u32::from(!self.entities[first].delayed);
            tasks = Tasks { queued: 1, runnable, idle: u32::from(self.entities[first].idle) };
        }
        let mut why = why;
        let mut above = Some(first);
        while let Some(se) = above {
            if !self.dequeue_entity(se, why) {
                if se == first {
                    return false;
                }
                break;
            }
            let q = self.entities[se].queue;
            tasks = self.take_tasks(q, tasks);
            if self.queues[q].throttled {
                return true;
            }
            above = self.queues[q].entity;
            if self.queues[q].weight > 0 {
                break;
            }
            // The group is empty, and leaves as a task that sleeps.
            why = Leave { sleep: true, ..Leave::default() };
        }
        self.rest_of_groups(above, |fair, q| {
            tasks = fair.take_tasks(q, tasks);
        });
        true
    }

    /// A task that waits for its lag to go leaves now.
    pub fn finish_delayed(&mut self, se: EntityId) {
        if self.entities[se].delayed {
            self.dequeue_entities(se, Leave { sleep: true, delayed: true, ..Leave::default() });
        }
    }

    /// A task becomes its CPU's newest (`rq->cfs_tasks`).
    pub(super) fn list(&mut self, se: EntityId) {
        let Some(task) = self.entities[se].task else { return };
        self.unlist(se);
        self.stamps += 1;
        self.entities[se].stamp = self.stamps;
        let cpu = self.queues[self.entities[se].queue].cpu;
        self.lists[cpu].insert(self.stamps, task);
    }

    fn unlist(&mut self, se: EntityId) {
        if self.entities[se].task.is_some() {
            let cpu = self.queues[self.entities[se].queue].cpu;
            self.lists[cpu].remove(&self.entities[se].stamp);
        }
    }

    /// `init_entity_runnable_average()`: a new task counts as heavy until more is known.
    pub fn begin_task(&mut self, task: TaskId, queue: QueueId, weight: u64, idle: bool) {
        let se = self.of_task(task);
        if self.entities.len() <= se {
            self.entities.resize_with(se + 1, Default::default);
        }
        let entity = &mut self.entities[se];
        *entity = crate::kernel::fair_state::SchedEntity {
            weight,
            queue,
            task: Some(task),
            idle,
            ..Default::default()
        };
        entity.avg.load_avg = super::weight::scaled_down(weight);
    }

    /// `post_init_entity_util_avg()`: a new task's utilisation, by that of its queue.
    pub fn first_util(&mut self, se: EntityId) {
        let entity = &self.entities[se];
        let avg = &self.queues[entity.queue].avg;
        let cap = 1024_u64.saturating_sub(avg.util_avg) / 2;
        let util = match avg.util_avg {
            0 => cap,
            util => (util * (entity.weight * 1024 / NICE_0_LOAD) / (avg.load_avg + 1)).min(cap),
        };
        let avg = &mut self.entities[se].avg;
        (avg.util_avg, avg.runnable_avg) = (util, util);
    }
}
