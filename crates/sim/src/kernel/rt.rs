// SPDX-License-Identifier: GPL-2.0-only
//! Real-time tasks (kernel/sched/rt.c): they have fixed priorities and a list per priority, and are
//! pushed and pulled between CPUs.

use super::{Class, Kernel};
use crate::{bpf::TaskId, mix::Policy, time::Ns};

/// `sched_rr_timeslice`.
const RR_SLICE_NS: Ns = 100_000_000;

impl Kernel {
    /// `select_task_rq_rt()`: the CPU on which the task last ran. If an equally urgent task runs
    /// there, it is the CPU with the least urgent task instead.
    pub(super) fn select_rt(&mut self, task: TaskId, prev: usize) -> usize {
        let curr = self.rqs[prev].curr;
        let busy = self.tasks[curr].class() == Class::Rt;
        let allowed = self.tasks[task].cpus.and(&self.active);
        if allowed.has(prev)
            && !(busy && self.tasks[curr].rt_priority() >= self.tasks[task].rt_priority())
        {
            return prev;
        }
        self.find_lowest(task).unwrap_or(prev)
    }

    /// `find_lowest_rq()`: the CPU with the least urgent task, if that task is less urgent than
    /// this one.
    fn find_lowest(&self, task: TaskId) -> Option<usize> {
        let rank = |cpu: usize| {
            let curr = &self.tasks[self.rqs[cpu].curr];
            (curr.class(), curr.rt_priority())
        };
        let allowed = self.tasks[task].cpus.and(&self.active);
        let prev = self.tasks[task].cpu;
        let lowest = allowed.iter().min_by_key(|cpu| {
            (rank(*cpu), self.machine.cache(*cpu) != self.machine.cache(prev), *cpu != prev, *cpu)
        })?;
        (rank(lowest) < (Class::Rt, self.tasks[task].rt_priority())).then_some(lowest)
    }

    fn insert_rt(&mut self, cpu: usize, priority: u8, task: TaskId, front: bool) {
        self.rqs[cpu].rt.insert(priority, task, front);
        self.rt_overloaded.insert(cpu);
    }

    fn remove_rt(&mut self, cpu: usize, priority: u8, task: TaskId) {
        self.rqs[cpu].rt.remove(priority, task);
        if self.rqs[cpu].rt.first().is_none() {
            self.rt_overloaded.remove(cpu);
        }
    }

    pub(super) fn enqueue_rt(&mut self, cpu: usize, task: TaskId) {
        if self.rqs[cpu].curr != task {
            let priority = self.tasks[task].rt_priority();
            self.insert_rt(cpu, priority, task, false);
        }
    }

    pub(super) fn dequeue_rt(&mut self, cpu: usize, task: TaskId) {
        let priority = self.tasks[task].rt_priority();
        self.remove_rt(cpu, priority, task);
    }

    /// `pick_task_rt()`, `pull_rt_task()`.
    pub(super) fn pick_rt(&mut self, cpu: usize, prev: TaskId) -> Option<TaskId> {
        let running = &self.tasks[prev];
        let goes_on = running.class() == Class::Rt && running.on_rq;
        let own = if goes_on { running.rt_priority() } else { 0 };
        let round_robin = matches!(running.policy, Policy::Rr(_));
        let expired = goes_on && round_robin && self.now >= self.rqs[cpu].rr_until;
        if let Some((priority, task)) = self.rqs[cpu].rt.first() {
            if priority > own || priority == own && expired {
                return Some(task);
            }
        }
        if goes_on {
            return Some(prev);
        }
        self.pull_rt(cpu)
    }

    fn pull_rt(&mut self, cpu: usize) -> Option<TaskId> {
        let waits = |k: &Self, other: usize| {
            let waiting = k.rqs[other].rt.iter().filter(|task| k.tasks[*task].cpus.has(cpu));
            waiting.max_by_key(|task| k.tasks[*task].rt_priority())
        };
        let overloaded = self.rt_overloaded;
        let found = overloaded.iter().filter(|other| *other != cpu).find_map(|other| {
            let task = waits(self, other)?;
            // A CPU in the middle of a switch may have selected the task already.
            self.try_lock_rq(other).then_some((other, task))
        });
        let (other, task) = found?;
        self.dequeue_task(other, task, false);
        self.set_task_cpu(task, cpu);
        self.unlock_rq(other);
        self.enqueue_task(cpu, task, super::Enqueue { migrated: true, ..Default::default() });
        Some(task)
    }

    pub(super) fn put_prev_rt(&mut self, cpu: usize, prev: TaskId) {
        if !self.tasks[prev].on_rq {
            return;
        }
        let expired =
            matches!(self.tasks[prev].policy, Policy::Rr(_)) && self.now >= self.rqs[cpu].rr_until;
        let priority = self.tasks[prev].rt_priority();
        self.insert_rt(cpu, priority, prev, !expired);
        // Another CPU may have room for the task (push_rt_task()).
        if let Some(other) = self.find_lowest(prev).filter(|other| *other != cpu) {
            self.resched_curr(other);
        }
    }

    pub(super) fn set_next_rt(&mut self, cpu: usize, task: TaskId) {
        let priority = self.tasks[task].rt_priority();
        self.remove_rt(cpu, priority, task);
        self.rqs[cpu].rr_until = self.now + RR_SLICE_NS;
    }

    pub(super) fn tick_rt(&mut self, cpu: usize, task: TaskId) {
        let alone = self.rqs[cpu]
            .rt
            .first()
            .is_none_or(|(first, _)| first < self.tasks[task].rt_priority());
        if matches!(self.tasks[task].policy, Policy::Rr(_))
            && self.now >= self.rqs[cpu].rr_until
            && !alone
        {
            self.resched_curr(cpu);
        }
    }

    pub(super) fn wakeup_preempt_rt(&mut self, cpu: usize, task: TaskId) {
        let curr = self.rqs[cpu].curr;
        if self.tasks[task].rt_priority() > self.tasks[curr].rt_priority() {
            self.resched_curr(cpu);
        }
    }
}
