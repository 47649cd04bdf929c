// SPDX-License-Identifier: GPL-2.0-only
//! Changes of weights: the weight of an entity within its queue, and the weight of a task among all
//! tasks of its CPU.

use super::weight::{MIN_SHARES, NICE_0_LOAD, rescaled};
use crate::kernel::fair_state::{EntityId, Fair};

impl Fair {
    /// `reweight_entity()`: changes the weight of an entity in its queue. Virtual time does not
    /// depend on it.
    pub fn reweight(&mut self, se: EntityId, weight: u64) {
        if self.entities[se].weight == weight {
            return;
        }
        let q = self.entities[se].queue;
        let on_rq = self.entities[se].on_rq;
        if on_rq {
            self.queues[q].weight -= self.entities[se].weight;
        }
        self.take_load(se);
        self.entities[se].weight = weight;
        self.give_load(se);
        if on_rq {
            self.queues[q].weight += weight;
        }
    }

    /// `__calc_prop_weight()`: the entity's part of the weight of its queue, multiplied with the
    /// result for the level below.
    #[must_use]
    pub fn prop_weight(&self, se: EntityId, weight: u64) -> u64 {
        let queue = &self.queues[self.entities[se].queue];
        let whole = if queue.entity.is_some() { queue.weight } else { NICE_0_LOAD };
        (weight * self.entities[se].weight / whole.max(1)).max(MIN_SHARES)
    }

    /// `reweight_eevdf()`, `rescale_entity()`: changes a task's weight among all tasks of its CPU.
    /// In running time, its lag, request and protection do not change.
    pub fn reweight_eevdf(&mut self, se: EntityId, weight: u64, on_rq: bool) {
        let old = self.entities[se].h_weight;
        if old == weight {
            return;
        }
        let cpu = self.cpu_of(se);
        let is_curr = self.timelines[cpu].curr == Some(se);
        let mut avg = 0;
        let mut protected = false;
        if on_rq {
            avg = self.avg_vruntime(cpu);
            let lag = self.lag(se, avg);
            protected = is_curr && self.is_protected(se);
            let entity = &mut self.entities[se];
            entity.vlag = lag;
            entity.deadline -= avg;
            entity.rel_deadline = true;
            if protected {
                entity.protected_until -= avg;
            }
            if !is_curr {
                // The sums of the tree contain the old vruntime and weight.
                self.tree_remove(cpu, se);
            }
        }
        let entity = &mut self.entities[se];
        entity.vlag = rescaled(entity.vlag, old, weight);
        if entity.rel_deadline {
            entity.deadline = rescaled(entity.deadline, old, weight);
        }
        if protected {
            entity.protected_until = rescaled(entity.protected_until, old, weight) + avg;
        }
        entity.h_weight = weight;
        if on_rq {
            entity.deadline += avg;
            entity.rel_deadline = false;
            entity.vruntime = avg - entity.vlag;
            if !is_curr {
                self.tree_insert(cpu, se);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{eevdf::machine, weight::NICE_0_LOAD};

    #[test]
    fn a_change_of_weight_keeps_the_lag_in_running_time() {
        let (mut fair, tasks) = machine::cpu(&[NICE_0_LOAD, NICE_0_LOAD, NICE_0_LOAD]);
        machine::runs(&mut fair, 2 * machine::MS);
        let avg = fair.avg_vruntime(0);
        let lag = avg - fair.entities[tasks[1]].vruntime;
        fair.reweight_eevdf(tasks[1], 2 * NICE_0_LOAD, true);
        assert_eq!(avg - fair.entities[tasks[1]].vruntime, lag / 2);
        assert!((fair.avg_vruntime(0) - avg).abs() <= 1);
    }

    #[test]
    fn a_task_weighs_what_its_groups_leave_it() {
        let (mut fair, tasks) = machine::grouped(&[NICE_0_LOAD, 3 * NICE_0_LOAD]);
        let group = fair.parent(tasks[0]).expect("a group");
        fair.reweight(group, NICE_0_LOAD / 2);
        let weight = fair.prop_weight(tasks[1], NICE_0_LOAD);
        assert_eq!(weight, NICE_0_LOAD * 3 / 4);
        assert_eq!(fair.prop_weight(group, weight), NICE_0_LOAD * 3 / 8);
    }
}
