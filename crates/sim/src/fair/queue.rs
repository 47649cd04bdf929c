// SPDX-License-Identifier: GPL-2.0-only
//! Tasks are added to a CPU and removed from it, and with them the entities of their groups, which
//! only count.

use super::weight::NICE_0_LOAD;
use crate::{
    bpf::TaskId,
    kernel::fair_state::{EntityId, Fair, QueueId},
};

/// Why a task leaves its queue: the kernel's DEQUEUE_*.
#[derive(Clone, Copy, Debug, Default)]
pub struct Leave {
    /// The task is no longer runnable (DEQUEUE_SLEEP).
    pub sleep: bool,
    /// The task leaves at once, whatever its lag is (DEQUEUE_SPECIAL).
    pub special: bool,
    /// The task has stayed because of its lag, and leaves now (DEQUEUE_DELAYED).
    pub delayed: bool,
    /// The quota of the task's group is used up (DEQUEUE_THROTTLE). `sleep` is also set.
    pub throttle: bool,
}

/// The counts of a task that is added or removed below a queue.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    /// 1 if the task is runnable.
    runnable: u32,
    /// 1 if the task is SCHED_IDLE, or in an idle group below the queue.
    idle: u32,
}

impl Fair {
    /// `cfs_rq_is_idle()`.
    pub(super) fn is_idle_queue(&self, q: QueueId) -> bool {
        self.groups[self.queues[q].group].idle
    }

    /// `enqueue_entity()`.
    fn enqueue_entity(&mut self, se: EntityId) {
        let q = self.entities[se].queue;
        self.update_load(se, true);
        self.note_runnable(se);
        self.update_group(se);
        self.queues[q].weight += self.entities[se].weight;
        self.queues[q].nr_queued += 1;
        self.list(se);
        self.entities[se].on_rq = true;
        if self.queues[q].nr_queued == 1 {
            self.check_enqueue_throttle(q);
            self.start_pelt_clock(q);
        }
    }

    /// `dequeue_entity()`.
    fn dequeue_entity(&mut self, se: EntityId) {
        let q = self.entities[se].queue;
        self.update_load(se, false);
        self.note_runnable(se);
        self.entities[se].on_rq = false;
        self.queues[q].weight -= self.entities[se].weight;
        self.queues[q].nr_queued -= 1;
        self.unlist(se);
        self.return_runtime(q);
        self.update_group(se);
        if self.queues[q].nr_queued == 0 && self.is_throttled(q) {
            self.stop_pelt_clock(q);
        }
    }

    /// `set_delayed()`, `clear_delayed()`: changes whether a task counts as runnable.
    fn count_runnable(&mut self, se: EntityId, change: impl Fn(u32) -> u32) {
        let mut above = Some(se);
        while let Some(se) = above {
            let queue = &mut self.queues[self.entities[se].queue];
            queue.h_nr_runnable = change(queue.h_nr_runnable);
            above = queue.entity;
        }
    }

    /// `requeue_delayed_entity()`: the task is runnable again. The time that the queue owed it in
    /// the meantime is lost (DELAY_ZERO).
    fn requeue_delayed(&mut self, se: EntityId) {
        let cpu = self.cpu_of(se);
        if self.update_lag(cpu, se) {
            let is_curr = self.timelines[cpu].curr == Some(se);
            if !is_curr {
                self.tree_remove(cpu, se);
            }
            self.place(cpu, se, false, self.queues[cpu].h_nr_queued > 1);
            if !is_curr {
                self.tree_insert(cpu, se);
            }
        }
        self.update_load(se, false);
        self.entities[se].delayed = false;
        self.count_runnable(se, |count| count + 1);
    }

    /// The part of a walk up from a task for an entity that stays, when only the entities below it
    /// have changed.
    fn follow_below(&mut self, se: EntityId) {
        self.update_load(se, false);
        self.note_runnable(se);
        self.update_group(se);
    }

    /// `enqueue_hierarchy()`. Returns the task's weight among all tasks of its CPU.
    fn enqueue_hierarchy(&mut self, se: EntityId) -> u64 {
        let mut counts = Counts { runnable: 1, idle: u32::from(self.entities[se].idle) };
        let mut weight = NICE_0_LOAD;
        let mut above = Some(se);
        while let Some(se) = above {
            if self.entities[se].on_rq {
                self.follow_below(se);
            } else {
                self.enqueue_entity(se);
            }
            let q = self.entities[se].queue;
            let queue = &mut self.queues[q];
            queue.h_nr_queued += 1;
            queue.h_nr_runnable += counts.runnable;
            queue.h_nr_idle += counts.idle;
            above = queue.entity;
            if self.is_idle_queue(q) {
                counts.idle = 1;
            }
            weight = self.prop_weight(se, weight);
        }
        weight
    }

    /// `enqueue_task_fair()`. `initial`: the task is new.
    pub fn enqueue_task(&mut self, se: EntityId, initial: bool) {
        if self.entities[se].throttled && self.enqueue_throttled(se) {
            return;
        }
        if self.entities[se].delayed {
            self.requeue_delayed(se);
            return;
        }
        let cpu = self.cpu_of(se);
        let is_curr = self.timelines[cpu].curr == Some(se);
        if is_curr {
            self.place(cpu, se, initial, self.queues[cpu].h_nr_queued > 0);
        }
        let weight = self.enqueue_hierarchy(se);
        if !is_curr {
            self.reweight_eevdf(se, weight, false);
            self.place(cpu, se, initial, self.queues[cpu].h_nr_queued > 1);
            self.tree_insert(cpu, se);
        }
        self.hrtick_update(cpu);
    }

    /// `dequeue_hierarchy()`.
    fn dequeue_hierarchy(&mut self, se: EntityId) {
        let entity = &self.entities[se];
        let mut counts =
            Counts { runnable: u32::from(!entity.delayed), idle: u32::from(entity.idle) };
        let mut leaves = true;
        let mut above = Some(se);
        while let Some(se) = above {
            let q = self.entities[se].queue;
            if leaves {
                self.dequeue_entity(se);
                // A group that contains other tasks stays.
                leaves = self.queues[q].weight == 0;
            } else {
                self.follow_below(se);
            }
            let queue = &mut self.queues[q];
            queue.h_nr_queued -= 1;
            queue.h_nr_runnable -= counts.runnable;
            queue.h_nr_idle -= counts.idle;
            above = queue.entity;
            if self.is_idle_queue(q) {
                counts.idle = 1;
            }
        }
    }

    /// `__dequeue_task()`. Returns whether the task has left. If not, it stays until its lag is
    /// gone (DELAY_DEQUEUE).
    pub fn dequeue_task(&mut self, se: EntityId, why: Leave) -> bool {
        if self.entities[se].throttled {
            self.dequeue_throttled(se, why);
            return true;
        }
        let cpu = self.cpu_of(se);
        self.update_lag(cpu, se);
        let may_stay = why.sleep && !(why.special || why.throttle || why.delayed);
        if may_stay && !self.eligible(cpu, se) {
            self.update_load(se, false);
            self.entities[se].delayed = true;
            self.count_runnable(se, |count| count - 1);
            return false;
        }
        self.dequeue_hierarchy(se);
        let entity = &mut self.entities[se];
        if !why.sleep {
            entity.deadline -= entity.vruntime;
            entity.rel_deadline = true;
        }
        entity.delayed = false;
        if self.timelines[cpu].curr != Some(se) {
            self.tree_remove(cpu, se);
        }
        true
    }

    /// Removes a task that has stayed in its queue because of its lag.
    pub fn finish_delayed(&mut self, se: EntityId) {
        if self.entities[se].delayed {
            self.dequeue_task(se, Leave { sleep: true, delayed: true, ..Leave::default() });
        }
    }

    /// `pick_next_entity()`, repeated until it finds a task that is not delayed. `None`: the CPU
    /// has no task.
    pub fn pick_next(&mut self, cpu: usize) -> Option<EntityId> {
        while self.queues[cpu].h_nr_queued > 0 {
            let se = self.pick_eevdf(cpu)?;
            if !self.entities[se].delayed {
                return Some(se);
            }
            self.finish_delayed(se);
        }
        None
    }

    /// `pick_task_fair()`.
    pub fn pick_task(&mut self, cpu: usize) -> Option<TaskId> {
        let se = self.pick_next(cpu)?;
        self.entities[se].task
    }
}
