// SPDX-License-Identifier: GPL-2.0-only
//! Wakeups: `try_to_wake_up()` and the functions that it calls.

use super::{Class, Enqueue, Kernel, State, Wake};
use crate::bpf::TaskId;

impl Kernel {
    /// Wakes a task. The waker is the CPU that handles the present event. Returns false if the task
    /// was not asleep.
    pub fn wake_up(&mut self, task: TaskId, sync: bool) -> bool {
        if self.tasks[task].state != State::Sleeping {
            return false;
        }
        self.tasks[task].state = State::Runnable;
        self.tasks[task].woken = true;
        self.native.task(task).state.set(0);
        // The task is about to sleep, but was not switched out yet. The wakeup is not lost
        // (ttwu_runnable()).
        let cpu = self.tasks[task].cpu;
        self.lock_rq(cpu);
        let queued = self.tasks[task].on_rq;
        self.unlock_rq(cpu);
        if queued {
            self.tasks[task].woken = false;
            return true;
        }
        // In the middle of a switch, the task's CPU may have released the lock to take a task from
        // another CPU.
        self.wait_until_off_cpu(task);
        self.observe(|observer, k| observer.woken(k.now, k.this_cpu, &k.tasks[task], task));
        let wake = Wake { sync, fork: false };
        let (cpu, selected) = self.select_task_rq(task, wake);
        let migrated = cpu != self.tasks[task].cpu;
        self.lock_rq(cpu);
        self.set_task_cpu(task, cpu);
        let why = Enqueue { wakeup: true, selected, migrated, ..Enqueue::default() };
        self.activate(cpu, task, why, wake);
        self.unlock_rq(cpu);
        true
    }

    /// `ttwu_do_activate()`.
    pub(super) fn activate(&mut self, cpu: usize, task: TaskId, why: Enqueue, wake: Wake) {
        self.enqueue_task(cpu, task, why);
        self.wakeup_preempt(cpu, task, wake);
        let class = self.normal;
        if self.tasks[task].class() == Class::Normal {
            class.woken(self, cpu);
        }
    }

    /// `select_task_rq()`: returns the CPU, and whether the class has selected it.
    pub(super) fn select_task_rq(&mut self, task: TaskId, wake: Wake) -> (usize, bool) {
        let prev = self.tasks[task].cpu;
        let allowed = self.tasks[task].cpus;
        let (cpu, asked) = if self.tasks[task].is_pinned() {
            (allowed.next(0).unwrap_or(prev), false)
        } else if self.tasks[task].class() == Class::Rt {
            (self.select_rt(task, prev), true)
        } else {
            let class = self.normal;
            (class.select_cpu(self, task, prev, wake), true)
        };
        if allowed.has(cpu) && self.rqs[cpu].active {
            (cpu, asked)
        } else {
            (self.select_fallback(task), asked)
        }
    }

    /// `select_fallback_rq()`: a CPU that the task may use. If there is none, any CPU, and the
    /// task's affinity is dropped.
    pub(super) fn select_fallback(&mut self, task: TaskId) -> usize {
        let prev = self.tasks[task].cpu;
        let allowed = self.tasks[task].cpus.and(&self.active);
        let near = self.machine.node_cpus(prev).find(|cpu| allowed.has(*cpu));
        if let Some(cpu) = near.or_else(|| allowed.next(0)) {
            return cpu;
        }
        let active = self.active;
        self.tasks[task].cpus = active;
        self.native.set_cpus_allowed(task, &active);
        active.next(0).unwrap_or(prev)
    }

    /// `wakeup_preempt()`.
    pub fn wakeup_preempt(&mut self, cpu: usize, task: TaskId, wake: Wake) {
        let (ours, theirs) = (self.tasks[task].class(), self.tasks[self.rqs[cpu].curr].class());
        if ours > self.rqs[cpu].next_class {
            if self.rqs[cpu].next_class == Class::Normal {
                let class = self.normal;
                class.taken(self, cpu);
            }
            self.rqs[cpu].next_class = ours;
        }
        if ours > theirs {
            self.resched_curr(cpu);
        } else if ours == theirs && ours == Class::Rt {
            self.wakeup_preempt_rt(cpu, task);
        } else if ours == theirs {
            let class = self.normal;
            class.wakeup_preempt(self, cpu, task, wake);
        }
    }

    /// `wake_up_new_task()`.
    pub(super) fn wake_up_new_task(&mut self, task: TaskId) {
        let wake = Wake { sync: false, fork: true };
        let (cpu, _) = self.select_task_rq(task, wake);
        self.lock_rq(cpu);
        self.set_task_cpu(task, cpu);
        self.tasks[task].account.migrations = 0;
        let why = Enqueue { initial: true, ..Enqueue::default() };
        self.activate(cpu, task, why, wake);
        self.unlock_rq(cpu);
    }

    /// `cpumask_any_and_distribute()`: a CPU that is in both sets, and a different one each time.
    pub fn any_and_distribute(
        &mut self,
        one: &crate::machine::CpuSet,
        other: &crate::machine::CpuSet,
    ) -> Option<usize> {
        let both = one.and(other);
        let from = self.rqs[self.this_cpu].distribute + 1;
        let found = both.next(from).or_else(|| both.next(0))?;
        self.rqs[self.this_cpu].distribute = found;
        Some(found)
    }
}
