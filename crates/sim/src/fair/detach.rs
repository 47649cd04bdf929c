// SPDX-License-Identifier: GPL-2.0-only
//! Load balancing moves tasks from one CPU to another.

use super::{
    sibling::nr_running,
    stats::{Balancer, Imbalance, Unit},
};
use crate::{
    bpf::TaskId,
    kernel::{Class, Enqueue, Kernel, Wake},
    mix::Policy,
};

/// `sysctl_sched_nr_migrate`: maximum number of tasks that are considered in one attempt.
const LOOKED_AT_MAX: usize = 32;
/// `sysctl_sched_migration_cost`: the data of a task that ran less than this ago is still in the
/// cache.
pub const MIGRATION_COST_NS: u64 = 500_000;

/// The result of an attempt.
#[derive(Clone, Copy, Debug, Default)]
pub struct Detached {
    /// Number of tasks that were moved.
    pub moved: usize,
    /// Some tasks may not run on the destination (LBF_SOME_PINNED).
    pub some_pinned: bool,
    /// No task may run on the destination (LBF_ALL_PINNED).
    pub all_pinned: bool,
    /// Another CPU of the group on which one of the tasks may run (LBF_DST_PINNED).
    pub other_dst: Option<usize>,
    /// The rest of the imbalance.
    pub left: i64,
}

/// The source and the destination of a move.
#[derive(Clone, Copy, Debug)]
pub struct Move {
    /// Level of the domain.
    pub level: usize,
    /// The source CPU.
    pub src: usize,
    /// The destination CPU.
    pub dst: usize,
    /// State of the destination CPU.
    pub idle: Balancer,
    /// Number of failures in a row.
    pub failed: u32,
}

/// `task_hot()`.
fn is_hot(k: &Kernel, how: &Move, task: TaskId) -> bool {
    if k.tasks[task].policy == Policy::Idle || k.fair.domains[how.level].shares_core {
        return false;
    }
    let since =
        k.clock_task(how.src).saturating_sub(k.fair.entities[k.fair.of_task(task)].exec_start);
    since < MIGRATION_COST_NS
}

/// `can_migrate_task()`.
fn can_migrate(k: &Kernel, how: &Move, unit: Unit, task: TaskId, found: &mut Detached) -> bool {
    let se = k.fair.of_task(task);
    let entity = &k.fair.entities[se];
    // If load is to be moved, the kernel also moves tasks that only wait for their lag to go. In
    // this model they sleep, and are not moved.
    if entity.delayed || unit == Unit::Util && entity.avg.updated == 0 {
        return false;
    }
    let there = k.tasks[task].group * k.fair.cpus + how.dst;
    if k.fair.is_throttled(there) {
        return false;
    }
    // task_is_ineligible_on_dst_cpu()
    let others = k.fair.queues[how.dst].h_nr_queued > 0;
    if how.failed == 0 && others && !k.fair.eligible(how.src, se) {
        return false;
    }
    if !k.tasks[task].cpus.has(how.dst) {
        found.some_pinned = true;
        if how.idle != Balancer::Newly && found.other_dst.is_none() {
            let domain = k.fair.domains[how.level];
            let first = domain.group(how.dst);
            found.other_dst = (first..first + domain.group_len)
                .find(|cpu| *cpu != how.dst && k.active.has(*cpu) && k.tasks[task].cpus.has(*cpu));
        }
        return false;
    }
    found.all_pinned = false;
    if k.rqs[how.src].curr == task {
        return false;
    }
    !is_hot(k, how, task) || how.failed > k.fair.domains[how.level].cache_nice_tries()
}

/// `detach_tasks()`, `attach_tasks()`: tasks that came or ran longest ago are moved first.
pub fn detach_tasks(k: &mut Kernel, how: &Move, what: &Imbalance) -> Detached {
    let mut found = Detached { all_pinned: true, left: what.amount, ..Detached::default() };
    if nr_running(k, how.src) <= 1 {
        found.all_pinned = false;
        return found;
    }
    let most = LOOKED_AT_MAX.min(nr_running(k, how.src) as usize);
    let tasks: Vec<TaskId> = k.fair.lists[how.src].values().copied().take(most).collect();
    for task in tasks {
        if found.left <= 0 || how.idle != Balancer::Busy && nr_running(k, how.src) <= 1 {
            break;
        }
        let se = k.fair.of_task(task);
        if !can_migrate(k, how, what.unit, task, &mut found) {
            // The next attempt begins with other tasks.
            k.fair.list(se);
            continue;
        }
        let bound = |amount: u64| i64::try_from(amount >> how.failed.min(63)).unwrap_or(i64::MAX);
        let weight = match what.unit {
            Unit::Load => k.fair.task_h_load(se).max(1),
            Unit::Util => k.fair.entities[se].avg.util_avg,
            Unit::Task => 1,
        };
        if what.unit != Unit::Task && bound(weight) > found.left {
            k.fair.list(se);
            continue;
        }
        found.left -= i64::try_from(weight).unwrap_or(i64::MAX);
        move_queued(k, how, task);
        found.moved += 1;
        if how.idle == Balancer::Newly {
            break;
        }
    }
    found
}

/// `detach_task()`, `attach_task()`.
fn move_queued(k: &mut Kernel, how: &Move, task: TaskId) {
    k.dequeue_task(how.src, task, false);
    k.set_task_cpu(task, how.dst);
    k.enqueue_task(how.dst, task, Enqueue { migrated: true, ..Enqueue::default() });
    if how.idle != Balancer::Newly {
        k.wakeup_preempt(how.dst, task, Wake::default());
    }
}

/// `active_load_balance_cpu_stop()`: moves the running task away from `src`, because no other task
/// may or can be moved.
pub fn push_running(k: &mut Kernel, src: usize, dst: usize) {
    let curr = k.rqs[src].curr;
    let movable = |k: &Kernel, task: TaskId| {
        let entity = &k.fair.entities[k.fair.of_task(task)];
        let there = k.tasks[task].group * k.fair.cpus + dst;
        k.tasks[task].cpus.has(dst) && !entity.delayed && !k.fair.is_throttled(there)
    };
    if !k.rqs[dst].active || !k.rqs[src].active {
        return;
    }
    let queued =
        k.fair.lists[src].values().copied().find(|task| *task != curr && movable(k, *task));
    let how = Move { level: 0, src, dst, idle: Balancer::Idle, failed: 0 };
    if let Some(task) = queued {
        move_queued(k, &how, task);
        forget_failures(k, src, dst);
    } else if k.tasks[curr].class() == Class::Normal && k.tasks[curr].on_rq && movable(k, curr) {
        k.dequeue_task(src, curr, false);
        k.leave_cpu(src, curr);
        k.set_task_cpu(curr, dst);
        k.enqueue_task(dst, curr, Enqueue { migrated: true, ..Enqueue::default() });
        k.wakeup_preempt(dst, curr, Wake::default());
        forget_failures(k, src, dst);
    }
}

/// Resets the failures of the smallest domain that contains both CPUs, as
/// `active_load_balance_cpu_stop()` does after a success.
fn forget_failures(k: &mut Kernel, src: usize, dst: usize) {
    let level = k.fair.domains.iter().position(|domain| domain.span(dst).contains(&src));
    if let Some(level) = level {
        k.rqs[dst].fair.levels[level].failed = 0;
    }
}
