// SPDX-License-Identifier: GPL-2.0-only
//! CPU hotplug: `sched_cpu_deactivate()`, `balance_push()`, `sched_cpu_activate()`.

use super::{Kernel, State};
use crate::bpf::TaskId;

impl Kernel {
    pub(super) fn take_offline(&mut self, cpu: usize) {
        if !self.rqs[cpu].active || self.active.len() == 1 {
            return;
        }
        self.active.remove(cpu);
        self.this_cpu = self.active.next(0).unwrap_or(0);
        let class = self.normal;
        self.update_curr(cpu);
        class.hotplug(self, cpu, false);
        self.rqs[cpu].active = false;
        for task in self.tasks_of(cpu) {
            self.push_away(task);
        }
        // Tasks that are on their way to this CPU arrive first, and then leave again.
        class.unlocked(self, cpu);
        for task in self.tasks_of(cpu) {
            self.push_away(task);
        }
    }

    pub(super) fn bring_online(&mut self, cpu: usize) {
        if self.rqs[cpu].active {
            return;
        }
        let now = self.now;
        let rq = &mut self.rqs[cpu];
        rq.active = true;
        rq.idle_since = now;
        self.active.insert(cpu);
        let class = self.normal;
        class.hotplug(self, cpu, true);
        self.resched_curr(cpu);
    }

    fn tasks_of(&self, cpu: usize) -> Vec<TaskId> {
        let here = |id: &TaskId| {
            let task = &self.tasks[*id];
            task.cpu == cpu && task.on_rq && task.state != State::Dead
        };
        (self.machine.cpus..self.tasks.len()).filter(here).collect()
    }

    /// A task was taken off its run queue while it ran. The CPU's idle task runs until the CPU
    /// selects the next task.
    pub fn leave_cpu(&mut self, cpu: usize, task: TaskId) {
        let class = self.normal;
        match self.tasks[task].class() {
            super::Class::Rt => self.put_prev_rt(cpu, task),
            _ => class.put_prev(self, cpu, task, cpu),
        }
        self.observe(|observer, k| {
            observer.stopping(k.now, cpu, &k.tasks[task], task);
            observer.switched(k.now, cpu, task, &k.tasks[cpu], cpu);
        });
        let rq = &mut self.rqs[cpu];
        rq.run_seq = rq.run_seq.wrapping_add(1);
        rq.exit_seq = rq.exit_seq.wrapping_add(1);
        rq.curr = cpu;
        rq.next_class = super::Class::Idle;
        rq.idle_since = self.now;
        rq.tick = None;
        class.idle(self, cpu, true, false);
        self.rqs[cpu].need_resched = false;
        self.resched_curr(cpu);
    }
}
