// SPDX-License-Identifier: GPL-2.0-only
//! Groups: how they are made, and changes of their weight and `cpu.idle`.

use super::weight::{NICE_0_LOAD, WEIGHT_IDLE, of_group};
use crate::kernel::{
    Group,
    fair_state::{Fair, Queue, RqClock, SchedEntity, TaskGroup, Timeline},
};

impl Fair {
    /// `alloc_fair_sched_group()`, `init_cfs_bandwidth()` for all groups. `slice_ns`:
    /// `sysctl_sched_base_slice`.
    #[must_use]
    pub fn new(groups: &[Group], cpus: usize, slice_ns: i64, tick_ns: u64) -> Self {
        let mut fair = Self { cpus, slice_ns, tick_ns, ..Self::default() };
        fair.online = cpus as u64;
        fair.timelines = vec![Timeline::default(); cpus];
        fair.clocks = vec![RqClock::default(); cpus];
        fair.lists = vec![std::collections::BTreeMap::new(); cpus];
        fair.groups = vec![TaskGroup::default(); groups.len()];
        for (index, group) in groups.iter().enumerate() {
            let shares = if group.idle { WEIGHT_IDLE } else { of_group(group.weight) };
            fair.groups[index].parent = group.parent;
            fair.groups[index].shares = shares;
            fair.groups[index].idle = group.idle;
            if index != 0 {
                fair.groups[group.parent].children.push(index);
            }
            for cpu in 0..cpus {
                let entity = SchedEntity {
                    weight: if index == 0 { 0 } else { shares },
                    queue: group.parent * cpus + cpu,
                    owned: Some(index * cpus + cpu),
                    idle: group.idle,
                    ..SchedEntity::default()
                };
                fair.entities.push(entity);
                let queue = Queue {
                    group: index,
                    cpu,
                    entity: (index != 0).then_some(index * cpus + cpu),
                    ..Queue::default()
                };
                fair.queues.push(queue);
            }
        }
        for (index, group) in groups.iter().enumerate().skip(1) {
            if group.quota.is_some() {
                fair.set_quota(index, group.quota, 0);
            }
        }
        fair
    }

    /// `__sched_group_set_shares()`. The clocks of all CPUs must be up to date.
    fn set_scaled_shares(&mut self, group: usize, shares: u64) {
        if group == 0 || self.groups[group].shares == shares {
            return;
        }
        self.groups[group].shares = shares;
        for cpu in 0..self.cpus {
            let mut above = Some(group * self.cpus + cpu);
            while let Some(se) = above {
                self.update_load(se, false);
                self.update_group(se);
                above = self.parent(se);
            }
        }
    }

    /// `sched_group_set_shares()`: a group with `cpu.idle` keeps its weight.
    pub fn set_weight(&mut self, group: usize, weight: u32) {
        if !self.groups[group].idle {
            self.set_scaled_shares(group, of_group(weight));
        }
    }

    /// `sched_group_set_idle()`: a group that is no longer idle gets the weight of nice 0.
    pub fn set_idle(&mut self, group: usize, idle: bool) {
        if group == 0 || self.groups[group].idle == idle {
            return;
        }
        self.groups[group].idle = idle;
        for cpu in 0..self.cpus {
            let q = group * self.cpus + cpu;
            self.entities[q].idle = idle;
            let others = self.queues[q].h_nr_queued - self.queues[q].h_nr_idle;
            let mut above = Some(q);
            while let Some(se) = above.filter(|se| self.entities[*se].on_rq) {
                let parent = &mut self.queues[self.entities[se].queue];
                parent.h_nr_idle =
                    if idle { parent.h_nr_idle + others } else { parent.h_nr_idle - others };
                above = parent.entity;
                if self.is_idle_queue(self.entities[se].queue) {
                    break;
                }
            }
        }
        self.set_scaled_shares(group, if idle { WEIGHT_IDLE } else { NICE_0_LOAD });
    }
}
