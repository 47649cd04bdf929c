// SPDX-License-Identifier: GPL-2.0-only
//! The load of entities and queues, which is propagated up and down the groups. The weight of a
//! group on a CPU follows from it.

use super::{
    pelt::{MIN_DIVIDER, Was, add_positive, change},
    weight::{MIN_SHARES, scaled_down},
};
use crate::{
    kernel::fair_state::{EntityId, Fair, QueueId, SchedAvg},
    time::Ns,
};

/// Minimum time between two updates of a group's load by a queue.
const TG_UPDATE_NS: Ns = 1_000_000;

/// One of the three parts of an average.
#[derive(Clone, Copy)]
enum Part {
    Util,
    Runnable,
}

fn part(avg: &mut SchedAvg, which: Part) -> (&mut u64, &mut u64) {
    match which {
        Part::Util => (&mut avg.util_avg, &mut avg.util_sum),
        Part::Runnable => (&mut avg.runnable_avg, &mut avg.runnable_sum),
    }
}

/// `__update_sa()`: a sum never falls below the value that corresponds to its average.
fn add(avg: &mut SchedAvg, which: Part, avg_by: i64, sum_by: i64) {
    let (average, sum) = part(avg, which);
    add_positive(average, avg_by);
    add_positive(sum, sum_by);
    *sum = (*sum).max(*average * MIN_DIVIDER);
}

fn add_load(avg: &mut SchedAvg, avg_by: i64, sum_by: i64) {
    add_positive(&mut avg.load_avg, avg_by);
    add_positive(&mut avg.load_sum, sum_by);
    avg.load_sum = avg.load_sum.max(avg.load_avg * MIN_DIVIDER);
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

impl Fair {
    /// `se_weight()`.
    fn se_weight(&self, se: EntityId) -> u64 {
        scaled_down(self.entities[se].weight)
    }

    /// `cfs_rq_clock_pelt()`: the clock is stopped while the queue is throttled and empty.
    fn pelt_clock(&self, q: QueueId) -> Ns {
        let queue = &self.queues[q];
        let clock = if queue.stopped { queue.stopped_at } else { self.clocks[queue.cpu].pelt };
        // 0 would mean that there is no history.
        clock.saturating_sub(queue.stopped_ns).max(1)
    }

    /// `__update_load_avg_se()`.
    fn update_entity(&mut self, se: EntityId, now: Ns) -> bool {
        let entity = &self.entities[se];
        let running = self.queues[entity.queue].h_curr == Some(se);
        let runnable = match entity.owned {
            Some(_) => entity.runnable,
            None => u64::from(entity.on_rq && !entity.delayed),
        };
        let was = Was { load: u64::from(entity.on_rq), runnable, running };
        let weight = self.se_weight(se);
        self.entities[se].avg.update(now, was, weight)
    }

    /// `update_cfs_rq_load_avg()`. What leaves a queue is subtracted at once. (In the kernel, it
    /// may have to wait for a lock.)
    fn update_queue(&mut self, q: QueueId) -> bool {
        let now = self.pelt_clock(q);
        let queue = &mut self.queues[q];
        let was = Was {
            load: scaled_down(queue.weight),
            runnable: u64::from(queue.h_nr_runnable),
            running: queue.h_curr.is_some(),
        };
        queue.avg.update(now, was, 1)
    }

    /// `update_load_avg()`. `attach`: the entity may be new to its queue.
    pub fn update_load(&mut self, se: EntityId, attach: bool) {
        let q = self.entities[se].queue;
        let now = self.pelt_clock(q);
        if self.entities[se].avg.updated != 0 {
            self.update_entity(se, now);
        }
        let crossed = self.update_queue(q);
        let followed = self.propagate(se);
        if self.entities[se].avg.updated == 0 && attach {
            self.attach(se);
            self.tell_group(q);
        } else if crossed || followed {
            self.tell_group(q);
        }
    }

    /// `se_update_runnable()`.
    pub fn note_runnable(&mut self, se: EntityId) {
        if let Some(owned) = self.entities[se].owned {
            self.entities[se].runnable = u64::from(self.queues[owned].h_nr_runnable);
        }
    }

    /// `attach_entity_load_avg()`.
    fn attach(&mut self, se: EntityId) {
        let q = self.entities[se].queue;
        let weight = self.se_weight(se);
        let queue = &mut self.queues[q];
        let avg = &mut self.entities[se].avg;
        avg.updated = queue.avg.updated.max(1);
        avg.period_contrib = queue.avg.period_contrib;
        let divider = queue.avg.divider();
        avg.util_sum = avg.util_avg * divider;
        avg.runnable_sum = avg.runnable_avg * divider;
        avg.load_sum = (avg.load_avg * divider / weight.max(1)).max(1);
        let avg = *avg;
        add_load(&mut queue.avg, signed(avg.load_avg), signed(weight * avg.load_sum));
        add(&mut queue.avg, Part::Util, signed(avg.util_avg), signed(avg.util_sum));
        add(&mut queue.avg, Part::Runnable, signed(avg.runnable_avg), signed(avg.runnable_sum));
        self.came_or_went(q, signed(avg.load_sum));
    }

    /// `detach_entity_load_avg()`, `migrate_se_pelt_lag()`: an entity that is not in its queue any
    /// more takes its load away from it.
    pub fn detach(&mut self, se: EntityId) {
        if self.entities[se].avg.updated == 0 {
            return;
        }
        let q = self.entities[se].queue;
        let now = self.pelt_clock(q);
        self.update_entity(se, now);
        self.update_queue(q);
        let weight = self.se_weight(se);
        let avg = self.entities[se].avg;
        let queue = &mut self.queues[q];
        add_load(&mut queue.avg, -signed(avg.load_avg), -signed(weight * avg.load_sum));
        add(&mut queue.avg, Part::Util, -signed(avg.util_avg), -signed(avg.util_sum));
        add(&mut queue.avg, Part::Runnable, -signed(avg.runnable_avg), -signed(avg.runnable_sum));
        self.came_or_went(q, -signed(avg.load_sum));
        self.tell_group(q);
        self.entities[se].avg.updated = 0;
        // The loads of the groups above are updated from the loads of their queues
        // (propagate_entity_cfs_rq()).
        let mut above = self.queues[q].entity;
        while let Some(group) = above {
            self.update_load(group, false);
            above = self.queues[self.entities[group].queue].entity;
        }
    }

    /// `add_tg_cfs_propagate()`.
    fn came_or_went(&mut self, q: QueueId, load_sum: i64) {
        let queue = &mut self.queues[q];
        queue.propagate = true;
        queue.prop_runnable_sum += load_sum;
    }

    /// `dequeue_load_avg()`, called before a change of weight.
    pub fn take_load(&mut self, se: EntityId) {
        let (q, weight, avg) = (self.entities[se].queue, self.se_weight(se), self.entities[se].avg);
        if avg.updated != 0 {
            let sum = signed(weight * avg.load_sum);
            add_load(&mut self.queues[q].avg, -signed(avg.load_avg), -sum);
        }
    }

    /// `enqueue_load_avg()`, called after a change of weight.
    pub fn give_load(&mut self, se: EntityId) {
        let (q, weight) = (self.entities[se].queue, self.se_weight(se));
        let avg = &mut self.entities[se].avg;
        avg.load_avg = weight * avg.load_sum / avg.divider();
        let avg = *avg;
        if avg.updated != 0 {
            add_load(&mut self.queues[q].avg, signed(avg.load_avg), signed(weight * avg.load_sum));
        }
    }

    /// `propagate_entity_load_avg()`: the entity of a group follows the load that was added to its
    /// queue or removed from it.
    fn propagate(&mut self, se: EntityId) -> bool {
        let Some(owned) = self.entities[se].owned.filter(|owned| self.queues[*owned].propagate)
        else {
            return false;
        };
        self.queues[owned].propagate = false;
        let q = self.entities[se].queue;
        self.came_or_went(q, self.queues[owned].prop_runnable_sum);
        self.follow(se, owned, Part::Util);
        self.follow(se, owned, Part::Runnable);
        self.follow_load(se, owned);
        true
    }

    /// `update_tg_cfs_util()`, `update_tg_cfs_runnable()`.
    fn follow(&mut self, se: EntityId, owned: QueueId, which: Part) {
        let q = self.entities[se].queue;
        let divider = self.queues[q].avg.divider();
        let to = *part(&mut self.queues[owned].avg, which).0;
        let (average, sum) = part(&mut self.entities[se].avg, which);
        let avg_by = change(*average, to);
        if avg_by == 0 {
            return;
        }
        let sum_by = change(*sum, to * divider);
        (*average, *sum) = (to, to * divider);
        add(&mut self.queues[q].avg, which, avg_by, sum_by);
    }

    /// `update_tg_cfs_load()`.
    fn follow_load(&mut self, se: EntityId, owned: QueueId) {
        let came = std::mem::take(&mut self.queues[owned].prop_runnable_sum);
        if came == 0 {
            return;
        }
        let q = self.entities[se].queue;
        let weight = self.se_weight(se);
        let divider = self.queues[q].avg.divider();
        let group = &self.queues[owned];
        let avg = &self.entities[se].avg;
        let runnable = if came >= 0 {
            (avg.load_sum.saturating_add_signed(came)).min(divider)
        } else {
            let mean = group.avg.load_sum.checked_div(scaled_down(group.weight)).unwrap_or(0);
            mean.min(avg.load_sum)
        };
        let runnable = runnable.max(avg.util_sum >> 10);
        let load_avg = weight * runnable / divider;
        let avg_by = change(avg.load_avg, load_avg);
        if avg_by == 0 {
            return;
        }
        let sum_by = change(weight * avg.load_sum, weight * runnable);
        let avg = &mut self.entities[se].avg;
        (avg.load_sum, avg.load_avg) = (runnable, load_avg);
        add_load(&mut self.queues[q].avg, avg_by, sum_by);
    }

    /// `update_tg_load_avg()`: at most once per millisecond, and only for changes of at least a
    /// 64th.
    fn tell_group(&mut self, q: QueueId) {
        let now = self.clocks[self.queues[q].cpu].now;
        let queue = &mut self.queues[q];
        // An offline CPU has taken its part back, and makes no further updates.
        if queue.group == 0 || queue.offline || now < queue.tg_updated + TG_UPDATE_NS {
            return;
        }
        let by = change(queue.tg_contrib, queue.avg.load_avg);
        let runnable_by = change(queue.tg_runnable, queue.avg.runnable_avg);
        if by.unsigned_abs() > queue.tg_contrib / 64
            || runnable_by.unsigned_abs() > queue.tg_runnable / 64
        {
            let group = &mut self.groups[queue.group];
            add_positive(&mut group.load_avg, by);
            add_positive(&mut group.runnable_avg, runnable_by);
            queue.tg_contrib = queue.avg.load_avg;
            queue.tg_runnable = queue.avg.runnable_avg;
            queue.tg_updated = now;
        }
    }

    /// `clear_tg_load_avg()`.
    pub fn forget_contribution(&mut self, q: QueueId) {
        let queue = &mut self.queues[q];
        let group = &mut self.groups[queue.group];
        add_positive(&mut group.load_avg, -signed(std::mem::take(&mut queue.tg_contrib)));
        add_positive(&mut group.runnable_avg, -signed(std::mem::take(&mut queue.tg_runnable)));
        queue.tg_updated = self.clocks[queue.cpu].now;
    }

    /// `calc_concur_shares()`, `__calc_smp_shares()`: the group's weight, multiplied by the number
    /// of its tasks that run at the same time, and by this CPU's part of its load. (`tg_tasks()`,
    /// `tg_cpus()`: there are no cpusets.)
    fn group_shares(&self, q: QueueId) -> u64 {
        let queue = &self.queues[q];
        let group = &self.groups[queue.group];
        let tasks = (group.runnable_avg >> 10).max(1);
        let most = tasks.min(self.online.max(1)) * group.shares;
        let load = scaled_down(queue.weight).max(queue.avg.load_avg);
        let all = group.load_avg.saturating_sub(queue.tg_contrib) + load;
        (most * load / all.max(1)).clamp(MIN_SHARES, most.max(MIN_SHARES))
    }

    /// `update_cfs_group()`: an empty group keeps its weight.
    pub fn update_group(&mut self, se: EntityId) {
        let Some(owned) = self.entities[se].owned.filter(|owned| self.queues[*owned].weight > 0)
        else {
            return;
        };
        let shares = self.group_shares(owned);
        self.reweight(se, shares);
    }

    /// `sched_balance_update_blocked_averages()`. In the list, children come after their parents.
    pub fn update_blocked(&mut self, cpu: usize) {
        for group in (0..self.groups.len()).rev() {
            let q = group * self.cpus + cpu;
            let queue = &self.queues[q];
            if queue.avg.is_decayed() && queue.tg_contrib == 0 && !queue.propagate {
                continue;
            }
            if self.update_queue(q) {
                self.tell_group(q);
            }
            // The entities of groups that run are updated at ticks and switches.
            if let Some(se) = self.queues[q].entity {
                if self.entities[se].weight > 0 {
                    self.update_load(se, false);
                }
            }
        }
    }

    /// `task_h_load()`: a task's share of its CPU's load.
    pub fn task_h_load(&mut self, se: EntityId) -> u64 {
        let q = self.entities[se].queue;
        self.update_h_load(q);
        let queue = &self.queues[q];
        self.entities[se].avg.load_avg * queue.h_load / (queue.avg.load_avg + 1)
    }

    /// `update_cfs_rq_h_load()`, at most once per tick.
    fn update_h_load(&mut self, q: QueueId) {
        let tick = self.clocks[self.queues[q].cpu].now / self.tick_ns;
        if self.queues[q].h_load_at == Some(tick) {
            return;
        }
        self.queues[q].h_load_at = Some(tick);
        self.queues[q].h_load = match self.queues[q].entity {
            None => self.queues[q].avg.load_avg,
            Some(se) => self.task_h_load(se),
        };
    }

    /// `cpu_load()`.
    #[must_use]
    pub fn cpu_load(&self, cpu: usize) -> u64 {
        self.queues[cpu].avg.load_avg
    }
}
