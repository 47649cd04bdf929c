// SPDX-License-Identifier: GPL-2.0-only
//! Entities: their owners, and the entities of new tasks.

use super::weight::{NICE_0_LOAD, scaled_down};
use crate::{
    bpf::TaskId,
    kernel::fair_state::{EntityId, Fair, QueueId, SchedEntity},
};

impl Fair {
    /// The entity of a task.
    #[must_use]
    pub fn of_task(&self, task: TaskId) -> EntityId {
        self.queues.len() + task
    }

    /// The entity of the group to whose queue an entity belongs.
    #[must_use]
    pub fn parent(&self, se: EntityId) -> Option<EntityId> {
        self.queues[self.entities[se].queue].entity
    }

    /// The CPU of an entity's queue.
    #[must_use]
    pub fn cpu_of(&self, se: EntityId) -> usize {
        self.queues[self.entities[se].queue].cpu
    }

    /// `init_entity_runnable_average()`: a new task counts as heavy until more is known.
    pub fn begin_task(&mut self, task: TaskId, queue: QueueId, weight: u64, idle: bool) {
        let se = self.of_task(task);
        if self.entities.len() <= se {
            self.entities.resize_with(se + 1, SchedEntity::default);
        }
        let entity = &mut self.entities[se];
        *entity = SchedEntity { weight, queue, task: Some(task), idle, ..SchedEntity::default() };
        entity.avg.load_avg = scaled_down(weight);
    }

    /// `post_init_entity_util_avg()`: the first utilisation of a new task depends on the
    /// utilisation of its queue.
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

    /// Makes a task the newest one of its CPU (`rq->cfs_tasks`).
    pub(super) fn list(&mut self, se: EntityId) {
        let Some(task) = self.entities[se].task else { return };
        self.unlist(se);
        self.stamps += 1;
        self.entities[se].stamp = self.stamps;
        let cpu = self.cpu_of(se);
        self.lists[cpu].insert(self.stamps, task);
    }

    /// Removes a task from the list of its CPU.
    pub(super) fn unlist(&mut self, se: EntityId) {
        if self.entities[se].task.is_some() {
            let cpu = self.cpu_of(se);
            self.lists[cpu].remove(&self.entities[se].stamp);
        }
    }
}
