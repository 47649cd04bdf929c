// SPDX-License-Identifier: GPL-2.0-only
//! Changes of the attributes of tasks and groups while they run: `sched_change_begin()` and
//! `sched_change_end()`, `set_cpus_allowed_ptr()`, `sched_move_task()`, and the files of the cpu
//! controller.

use std::rc::Rc;

use super::{Class, Enqueue, GroupChange, Kernel, Program, State, Wake};
use crate::{
    bpf::{GroupId, TaskId},
    machine::CpuSet,
    mix::{Change, Policy},
};

impl Kernel {
    /// Makes one of the mix's changes, which is due. It is made on the first CPU that is online, as
    /// if by a shell.
    pub(super) fn change(&mut self, change: usize) {
        let mix = Rc::clone(&self.mix);
        self.this_cpu = self.active.next(0).unwrap_or(0);
        let group = |group: usize| group + 1;
        match &mix.changes[change].change {
            Change::GroupWeight(g, weight) => {
                self.groups[group(*g)].weight = *weight;
                self.group_changed(group(*g), GroupChange::Weight(*weight));
            }
            Change::GroupQuota(g, quota) => {
                self.groups[group(*g)].quota = *quota;
                self.groups[group(*g)].unlimited_since = self.now;
                self.native.set_quota(group(*g), *quota);
                self.group_changed(group(*g), GroupChange::Quota(*quota));
            }
            Change::GroupIdle(g, idle) => {
                self.groups[group(*g)].idle = *idle;
                self.native.group(group(*g)).task_group.idle.set((*idle).into());
                self.group_changed(group(*g), GroupChange::Idle(*idle));
            }
            Change::TaskNice(kind, nice) => self.each_of(*kind, |k, task| k.set_nice(task, *nice)),
            Change::TaskPolicy(kind, policy) => {
                self.each_of(*kind, |k, task| k.set_policy(task, *policy));
            }
            Change::TaskCpus(kind, cpus) => self.each_of(*kind, |k, task| k.set_cpus(task, cpus)),
            Change::TaskGroup(kind, to) => {
                let to = to.map_or(0, group);
                self.each_of(*kind, |k, task| k.move_task(task, to));
            }
            Change::Offline(cpu) => self.take_offline(*cpu),
            Change::Online(cpu) => self.bring_online(*cpu),
        }
    }

    fn group_changed(&mut self, group: GroupId, change: GroupChange) {
        let class = self.normal;
        class.group_changed(self, group, change);
    }

    fn each_of(&mut self, kind: usize, mut change: impl FnMut(&mut Self, TaskId)) {
        let ours = |task: &super::Task| {
            task.kind == kind
                && task.state != State::Dead
                && matches!(task.program, Program::Phases { .. })
        };
        let tasks: Vec<_> = (0..self.tasks.len()).filter(|id| ours(&self.tasks[*id])).collect();
        tasks.into_iter().for_each(|task| change(self, task));
    }

    /// Takes a task off its run queue, changes it, and puts it back as it was.
    fn changed(&mut self, task: TaskId, change: impl FnOnce(&mut Self)) {
        let class = self.normal;
        let cpu = self.tasks[task].cpu;
        self.lock_rq(cpu);
        let locked = cpu;
        let (queued, before) = (self.tasks[task].on_rq, self.tasks[task].class());
        let running = self.rqs[cpu].curr == task;
        if queued {
            self.dequeue_task(cpu, task, false);
        }
        if running {
            match before {
                Class::Normal => class.put_prev(self, cpu, task, task),
                _ => self.put_prev_rt(cpu, task),
            }
        }
        change(self);
        self.publish(task);
        let after = self.tasks[task].class();
        if before != after {
            class.switched(self, task, after == Class::Normal);
        }
        let cpu = self.tasks[task].cpu;
        if queued {
            self.enqueue_task(cpu, task, Enqueue { restore: true, ..Enqueue::default() });
        }
        if running {
            match after {
                Class::Normal => class.set_next(self, cpu, task),
                _ => self.set_next_rt(cpu, task),
            }
        }
        if before != after && queued {
            if running {
                self.resched_curr(cpu);
            } else {
                self.wakeup_preempt(cpu, task, Wake::default());
            }
        }
        self.unlock_rq(locked);
    }

    /// `set_user_nice()`.
    pub fn set_nice(&mut self, task: TaskId, nice: i8) {
        self.changed(task, |k| k.tasks[task].nice = nice);
    }

    /// `sched_setscheduler()`.
    pub fn set_policy(&mut self, task: TaskId, policy: Policy) {
        self.changed(task, |k| k.tasks[task].policy = policy);
    }

    /// `set_cpus_allowed_ptr()`.
    pub fn set_cpus(&mut self, task: TaskId, cpus: &CpuSet) {
        let all = CpuSet::first(self.machine.cpus);
        let cpus = cpus.and(&all);
        self.changed(task, |k| {
            k.tasks[task].cpus = cpus;
            k.native.set_cpus_allowed(task, &cpus);
        });
        let cpu = self.tasks[task].cpu;
        if !cpus.has(cpu) && self.tasks[task].on_rq {
            // The CPU is chosen so that tasks are spread. Otherwise, load balancing would have to
            // move them at once (__set_cpus_allowed_ptr_locked()).
            let active = self.active;
            let to = self.any_and_distribute(&active, &cpus);
            self.push_to(task, to.unwrap_or(cpu));
        }
    }

    /// Moves a task away from a CPU that it may no longer use (`migration_cpu_stop()`).
    pub(super) fn push_away(&mut self, task: TaskId) {
        let to = self.select_fallback(task);
        self.push_to(task, to);
    }

    /// Does the same, to a given CPU.
    fn push_to(&mut self, task: TaskId, to: usize) {
        let from = self.tasks[task].cpu;
        if from == to || !self.tasks[task].on_rq {
            return;
        }
        let running = self.rqs[from].curr == task;
        self.dequeue_task(from, task, false);
        if running {
            // The stopper thread takes the CPU. When the stopper ends, the task is on the other
            // CPU.
            self.leave_cpu(from, task);
        }
        self.set_task_cpu(task, to);
        self.activate(to, task, Enqueue { migrated: true, ..Enqueue::default() }, Wake::default());
    }

    /// `sched_move_task()`.
    pub fn move_task(&mut self, task: TaskId, to: GroupId) {
        let from = self.tasks[task].group;
        if from == to {
            return;
        }
        self.changed(task, |k| {
            k.tasks[task].group = to;
            k.native.set_task_group(task, to);
            let class = k.normal;
            class.move_group(k, task, from, to);
        });
    }
}
