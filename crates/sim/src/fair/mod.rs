// SPDX-License-Identifier: GPL-2.0-only
//! A model of the kernel's own scheduler, as a reference. It follows kernel/sched/fair.c of Linux
//! 7.3 function by function, in its ideas and rules.
//!
//! | file | what |
//! |---|---|
//! | `weight` | weights, slices, virtual time |
//! | `clock` | the CPUs' clocks |
//! | `entity` | entities, and those of new tasks |
//! | `eevdf` | average virtual time, lag, placement, selection of a task |
//! | `reweight` | changes of weights: within a queue, and among all tasks of a CPU |
//! | `queue` | tasks are added and removed, and their groups count them; delayed dequeue |
//! | `running` | the task that runs |
//! | `hrtick` | the timer that ends a slice |
//! | `preempt` | wakeup preemption |
//! | `pelt`, `load` | load tracking, group shares |
//! | `bandwidth`, `throttle` | quotas, and tasks that wait because of them |
//! | `group` | weights and `cpu.idle` of groups |
//! | `select`, `sibling`, `fork` | a CPU for a task that wakes or is new |
//! | `domain`, `balance`, `stats`, `detach` | load balancing: periodic, newly idle, and on behalf of idle CPUs |
//!
//! Tasks are picked as in 7.3: all tasks of a CPU are in one tree, whatever groups they are in.
//! The weight of a task is its part of its group's weight, which is in turn a part of the weight of
//! the group above. Entities of groups contain weights, loads and numbers of tasks. The weight of a
//! group is multiplied by the number of its tasks, up to the number of CPUs (`cgroup_mode` concur).
//! A quota that is used up removes tasks from the CPU one by one. The hierarchical class of earlier
//! kernels is not modelled. The model is that of 7.3 whatever the line `kernel` of a mix says,
//! because that line is about sched_ext.
//!
//! Left out: slices of tasks (`sched_attr.sched_runtime`) and with them PREEMPT_SHORT; NEXT_BUDDY
//! (off since 7.0); utilisation clamping and estimation; NUMA balancing, cache-aware placement,
//! misfit tasks, energy-aware placement, asymmetric packing; core scheduling; cpusets; the part of
//! a CPU's capacity that interrupts and other classes use; the limit on how many CPUs a wakeup
//! considers (SIS_UTIL).

mod balance;
mod bandwidth;
mod clock;
mod detach;
mod domain;
mod eevdf;
mod entity;
mod fork;
mod group;
mod hrtick;
mod load;
mod pelt;
mod preempt;
mod queue;
mod reweight;
mod running;
mod select;
mod sibling;
mod stats;
mod throttle;
mod weight;

use clock::{all_clocks, look_at_clock};
use queue::Leave;

use crate::{
    bpf::{GroupId, TaskId},
    kernel::{
        Class, Enqueue, Event, GroupChange, Kernel, SchedClass, State, Wake, fair_state::Fair,
    },
    machine::CpuSet,
    mix::Policy,
    time::Ns,
};

/// The fair class.
pub static FAIR: FairClass = FairClass;

/// `fair_sched_class`.
pub struct FairClass;

/// Carries out the decisions that the model has collected.
fn carry_out(k: &mut Kernel) {
    while let Some(cpu) = k.fair.resched.pop() {
        k.resched_curr(cpu);
    }
    for (at_ns, event) in std::mem::take(&mut k.fair.due) {
        k.events.push(at_ns, event);
    }
}

/// Updates what depends on the CPU's queue, after a change.
fn changed(k: &mut Kernel, cpu: usize) {
    let queue = &k.fair.queues[cpu];
    let (overloaded, idle_queued) = (queue.h_nr_runnable > 1, queue.h_nr_idle > 0);
    let put = |set: &mut CpuSet, is: bool| if is { set.insert(cpu) } else { set.remove(cpu) };
    put(&mut k.fair.overloaded, overloaded);
    put(&mut k.fair.idle_queued, idle_queued);
    carry_out(k);
}

fn all_changed(k: &mut Kernel) {
    for cpu in 0..k.machine.cpus {
        changed(k, cpu);
    }
}

fn weight_of(k: &Kernel, task: TaskId) -> (u64, bool) {
    let task = &k.tasks[task];
    (weight::of_task(task.policy, task.nice), task.policy == Policy::Idle)
}

impl SchedClass for FairClass {
    /// `sched_init()`, `sched_init_granularity()`, `sched_init_domains()`.
    fn begin(&self, k: &mut Kernel) {
        let cpus = k.machine.cpus;
        k.fair = Fair::new(&k.groups, cpus, weight::base_slice_ns(cpus), k.machine.tick_ns());
        domain::build(k);
        balance::begin(k);
        carry_out(k);
    }

    fn select_cpu(&self, k: &mut Kernel, task: TaskId, prev_cpu: usize, wake: Wake) -> usize {
        // A task that has not left its queue yet continues there (ttwu_runnable()).
        let se = k.fair.of_task(task);
        if k.fair.entities[se].delayed {
            return prev_cpu;
        }
        select::select_task_rq(k, task, prev_cpu, wake)
    }

    fn enqueue(&self, k: &mut Kernel, cpu: usize, task: TaskId, why: Enqueue) {
        look_at_clock(k, cpu);
        let se = k.fair.of_task(task);
        let (weight, idle) = weight_of(k, task);
        let fair = &mut k.fair;
        if fair.entities[se].delayed
            && (fair.entities[se].weight != weight || fair.entities[se].idle != idle)
        {
            fair.finish_delayed(se);
        }
        if !fair.entities[se].on_rq {
            let queue = k.tasks[task].group * fair.cpus + cpu;
            if fair.entities[se].queue != queue {
                fair.detach(se);
                fair.entities[se].queue = queue;
            }
            fair.reweight(se, weight);
            fair.entities[se].idle = idle;
            if why.initial {
                fair.first_util(se);
            }
            if why.migrated {
                fair.entities[se].exec_start = 0;
            }
        }
        fair.enqueue_task(se, why.initial);
        changed(k, cpu);
    }

    fn dequeue(&self, k: &mut Kernel, cpu: usize, task: TaskId, sleep: bool) {
        look_at_clock(k, cpu);
        let se = k.fair.of_task(task);
        let special = k.tasks[task].state == State::Dead;
        let was_sched_idle = sibling::is_sched_idle(k, cpu);
        k.fair.dequeue_task(se, Leave { sleep, special, ..Leave::default() });
        changed(k, cpu);
        balance::look_soon_for_others(k, cpu, was_sched_idle);
    }

    /// `pick_next_task_fair()`.
    fn pick(&self, k: &mut Kernel, cpu: usize, _prev: TaskId) -> Option<TaskId> {
        look_at_clock(k, cpu);
        let picked = k.fair.pick_task(cpu);
        changed(k, cpu);
        if picked.is_some() || !balance::newly_idle(k, cpu) {
            return picked;
        }
        let picked = k.fair.pick_task(cpu);
        changed(k, cpu);
        picked
    }

    fn put_prev(&self, k: &mut Kernel, cpu: usize, prev: TaskId, next: TaskId) {
        look_at_clock(k, cpu);
        let goes_on = next != prev && k.tasks[next].class() == Class::Normal;
        let next = goes_on.then(|| k.fair.of_task(next));
        let se = k.fair.of_task(prev);
        k.fair.put_prev(se, next);
        carry_out(k);
    }

    fn set_next(&self, k: &mut Kernel, cpu: usize, task: TaskId) {
        look_at_clock(k, cpu);
        let picked = k.rqs[cpu].curr != task;
        let se = k.fair.of_task(task);
        k.fair.set_next(se, picked);
        carry_out(k);
    }

    fn account(&self, k: &mut Kernel, cpu: usize, _task: TaskId, ran_ns: Ns) {
        look_at_clock(k, cpu);
        k.fair.charge(cpu, ran_ns);
        carry_out(k);
    }

    fn tick(&self, k: &mut Kernel, cpu: usize, task: TaskId, queued: bool) {
        look_at_clock(k, cpu);
        let se = k.fair.of_task(task);
        k.fair.tick(se, queued);
        // `task_tick_core()`: the kernel assumes two tasks, so half of a slice is over at each
        // tick.
        if k.kept_idle(cpu).is_some() {
            k.resched_curr(cpu);
        }
        carry_out(k);
    }

    fn every_tick(&self, k: &mut Kernel, cpu: usize) {
        balance::tick(k, cpu);
    }

    fn wakeup_preempt(&self, k: &mut Kernel, cpu: usize, task: TaskId, wake: Wake) {
        let curr = k.rqs[cpu].curr;
        if !k.tasks[curr].on_rq {
            return;
        }
        k.update_curr(cpu);
        look_at_clock(k, cpu);
        let (curr, se) = (k.fair.of_task(curr), k.fair.of_task(task));
        if k.fair.wakeup_preempts(curr, se, k.tasks[task].policy, wake.fork) {
            k.resched_curr(cpu);
        }
        carry_out(k);
    }

    /// `task_fork_fair()`.
    fn fork(&self, k: &mut Kernel, task: TaskId, _parent: TaskId) {
        let (weight, idle) = weight_of(k, task);
        let queue = k.tasks[task].group * k.fair.cpus + k.tasks[task].cpu;
        k.fair.begin_task(task, queue, weight, idle);
    }

    /// `task_dead_fair()`.
    fn dead(&self, k: &mut Kernel, task: TaskId) {
        leave_for_good(k, task);
    }

    /// `switched_from_fair()`, `switched_to_fair()`.
    fn switched(&self, k: &mut Kernel, task: TaskId, to: bool) {
        if !to {
            leave_for_good(k, task);
        }
    }

    /// `migrate_task_rq_fair()`.
    fn migrate(&self, k: &mut Kernel, task: TaskId, to_cpu: usize) {
        leave_for_good(k, task);
        let se = k.fair.of_task(task);
        k.fair.entities[se].queue = k.tasks[task].group * k.fair.cpus + to_cpu;
        k.fair.entities[se].exec_start = 0;
    }

    fn yield_task(&self, k: &mut Kernel, cpu: usize, task: TaskId) {
        if k.fair.queues[cpu].h_nr_queued > 1 {
            k.update_curr(cpu);
            let se = k.fair.of_task(task);
            k.fair.yield_task(se);
        }
    }

    /// `yield_to_task_fair()`.
    fn yield_to(&self, k: &mut Kernel, cpu: usize, task: TaskId, to: TaskId) -> bool {
        let se = k.fair.of_task(to);
        let there = k.tasks[to].cpu;
        if !k.fair.entities[se].on_rq || k.fair.entities[se].key.is_none() {
            return false;
        }
        k.fair.timelines[there].buddy = Some(se);
        self.yield_task(k, cpu, task);
        true
    }

    /// `cfs_prio_less()`: compares virtual runtimes since CPUs of the core were first forced idle.
    /// All tasks of a CPU are on one timeline.
    fn is_less_urgent(&self, k: &mut Kernel, task: TaskId, other: TaskId) -> bool {
        let since = |k: &mut Kernel, task: TaskId| {
            let (se, cpu) = (k.fair.of_task(task), k.tasks[task].cpu);
            let kept_idle = k.kept_idle(cpu);
            let timeline = &mut k.fair.timelines[cpu];
            // `se_fi_update()`
            if kept_idle.is_none() || timeline.kept_idle != kept_idle {
                timeline.kept_idle = kept_idle;
                timeline.kept_idle_vruntime = timeline.zero_vruntime;
            }
            k.fair.entities[se].vruntime - timeline.kept_idle_vruntime
        };
        let (task, other) = (since(k, task), since(k, other));
        task > other
    }

    /// `task_change_group_fair()`.
    fn move_group(&self, k: &mut Kernel, task: TaskId, _from: GroupId, to: GroupId) {
        leave_for_good(k, task);
        let se = k.fair.of_task(task);
        k.fair.entities[se].queue = to * k.fair.cpus + k.tasks[task].cpu;
    }

    fn group_changed(&self, k: &mut Kernel, group: GroupId, change: GroupChange) {
        all_clocks(k);
        match change {
            GroupChange::Weight(weight) => k.fair.set_weight(group, weight),
            GroupChange::Quota(quota) => k.fair.set_quota(group, quota, k.now),
            GroupChange::Idle(idle) => k.fair.set_idle(group, idle),
        }
        all_changed(k);
    }

    fn idle(&self, k: &mut Kernel, cpu: usize, idle: bool, again: bool) {
        if idle {
            k.fair.hrtick_cancel(cpu);
        }
        if idle && k.rqs[cpu].active {
            k.fair.idle_cpus.insert(cpu);
            k.fair.nohz_needs_update = true;
        } else {
            k.fair.idle_cpus.remove(cpu);
        }
        if !idle && !again {
            balance::idle_ends(k, cpu);
        }
    }

    /// `rq_online_fair()`, `rq_offline_fair()`.
    fn hotplug(&self, k: &mut Kernel, cpu: usize, online: bool) {
        look_at_clock(k, cpu);
        k.fair.online = k.active.len() as u64;
        // The kernel still counts a CPU that is about to go offline.
        k.fair.slice_ns = weight::base_slice_ns(k.active.len() + usize::from(!online));
        for group in 1..k.groups.len() {
            let q = group * k.fair.cpus + cpu;
            k.fair.queues[q].limited = online && k.groups[group].quota.is_some();
            k.fair.queues[q].offline = !online;
            if !online {
                if k.fair.queues[q].throttled {
                    k.fair.queues[q].runtime_ns = 1;
                    k.fair.unthrottle(q);
                }
                k.fair.forget_contribution(q);
            }
        }
        k.fair.idle_cpus.remove(cpu);
        changed(k, cpu);
    }

    fn event(&self, k: &mut Kernel, event: Event) {
        let group = match event {
            Event::Period { group, .. } | Event::Slack { group } => group as usize,
            _ => return,
        };
        let waiting = k.fair.groups[group].bandwidth.throttled.clone();
        for q in waiting {
            let cpu = k.fair.queues[q].cpu;
            k.update_curr(cpu);
            look_at_clock(k, cpu);
        }
        match event {
            Event::Period { seq, .. } => k.fair.period_ends(group, seq),
            _ => k.fair.slack_is_due(group, k.now),
        }
        all_changed(k);
    }

    fn unlocked(&self, k: &mut Kernel, cpu: usize) {
        while let Some((from, to)) = k.fair.active_balance.pop() {
            detach::push_running(k, from, to);
        }
        returns_to_user(k, cpu);
    }

    fn hrtick(&self, k: &mut Kernel, cpu: usize, seq: u32) -> bool {
        k.fair.hrtick_fires(cpu, seq)
    }

    /// `lb_throttled_hierarchy()`.
    fn may_move_to(&self, k: &Kernel, task: TaskId, cpu: usize) -> bool {
        let task = &k.tasks[task];
        task.class() == Class::Rt || !k.fair.is_throttled(task.group * k.fair.cpus + cpu)
    }

    /// A task in limbo cannot run. The time for which it waits is counted from its return to the
    /// queue.
    fn held_back_until(&self, k: &Kernel, task: TaskId) -> Option<Ns> {
        let entity = &k.fair.entities[k.fair.of_task(task)];
        let held = k.tasks[task].class() == Class::Normal && entity.throttled;
        (!held).then_some(entity.released_at)
    }
}

/// The running task returns to user mode (`resume_user_mode_work()`), and does the work that waited
/// for this. A task that must yield the CPU does so first.
fn returns_to_user(k: &mut Kernel, cpu: usize) {
    let curr = k.rqs[cpu].curr;
    let task = &k.tasks[curr];
    let returns = task.class() == Class::Normal && task.state == State::Runnable && task.on_rq;
    if !returns || k.rqs[cpu].need_resched {
        return;
    }
    let se = k.fair.of_task(curr);
    if k.fair.entities[se].throttle_work {
        k.update_curr(cpu);
        look_at_clock(k, cpu);
        if k.fair.throttle_work(se) {
            k.resched_curr(cpu);
        }
        changed(k, cpu);
    }
}

/// A task's entity leaves its queue, if it is still there because of its lag, and takes its load
/// with it.
fn leave_for_good(k: &mut Kernel, task: TaskId) {
    let se = k.fair.of_task(task);
    let cpu = k.fair.queues[k.fair.entities[se].queue].cpu;
    if k.fair.entities[se].delayed {
        k.update_curr(cpu);
    }
    look_at_clock(k, cpu);
    k.fair.finish_delayed(se);
    k.fair.detach(se);
    changed(k, cpu);
}
