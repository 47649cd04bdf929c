// SPDX-License-Identifier: GPL-2.0-only
//! The clocks of run queues, and the accounting of the running task.

use super::{Class, Kernel, Program};
use crate::time::Ns;

impl Kernel {
    /// `rq_clock_task()`: the clock without the time of interrupts.
    #[must_use]
    pub fn clock_task(&self, cpu: usize) -> Ns {
        let rq = &self.rqs[cpu];
        let ahead = rq.irq_until.saturating_sub(self.now);
        self.now - (rq.irq_ns - ahead.min(rq.irq_ns)).min(self.now)
    }

    /// `update_rq_clock()`, `update_rq_clock_pelt()`. Programs read the clocks in the CPU's kernel
    /// object.
    pub fn update_rq_clock(&mut self, cpu: usize) {
        let task_clock = self.clock_task(cpu);
        let idle = self.is_idle_task(self.rqs[cpu].curr);
        let capacity = u64::from(self.machine.capacities[cpu]);
        let object = self.native.rq_struct(cpu);
        object.clock.set(self.now);
        let rq = &mut self.rqs[cpu];
        let delta = task_clock.saturating_sub(rq.pelt_updated);
        rq.pelt_updated = task_clock;
        if idle {
            object.clock_pelt.set(task_clock);
        } else {
            object.clock_pelt.set(object.clock_pelt.get() + ((delta * capacity) >> 10));
        }
    }

    /// Charges the running task of a CPU until now (`update_curr()`, `update_curr_common()`).
    pub fn update_curr(&mut self, cpu: usize) {
        self.update_rq_clock(cpu);
        let now = self.now;
        let rq = &mut self.rqs[cpu];
        let ran_ns = now.saturating_sub(rq.exec_start);
        let worked_ns = now.saturating_sub(rq.work_from);
        rq.exec_start = rq.exec_start.max(now);
        rq.work_from = rq.work_from.max(now);
        let (curr, speed) = (rq.curr, rq.speed);
        if self.is_idle_task(curr) || ran_ns == 0 && worked_ns == 0 {
            return;
        }
        let task = &mut self.tasks[curr];
        task.account.ran_ns += ran_ns;
        task.work = task.work.saturating_sub(worked_ns * speed);
        if matches!(task.program, Program::Guest(_)) {
            self.note_boosted(cpu, curr, ran_ns);
        }
        if self.tasks[curr].class() == Class::Normal && ran_ns > 0 {
            self.rqs[cpu].server.ran_ns += ran_ns;
            let class = self.normal;
            class.account(self, cpu, curr, ran_ns);
        }
    }

    /// An interrupt of the mix takes time from the running task.
    pub(super) fn irq(&mut self, irq: usize) {
        let each = self.mix.irqs[irq];
        let cpu = each.cpu;
        self.this_cpu = cpu;
        let event = super::Event::Irq { irq: super::events::short(irq) };
        self.events.push(self.now + each.every_ns, event);
        if !self.rqs[cpu].active {
            return;
        }
        self.update_curr(cpu);
        let now = self.now;
        let rq = &mut self.rqs[cpu];
        rq.irq_until = rq.irq_until.max(now) + each.for_ns;
        rq.irq_ns += each.for_ns;
        rq.exec_start = rq.exec_start.max(now) + each.for_ns;
        rq.work_from = rq.work_from.max(now) + each.for_ns;
        self.arm_run_end(cpu);
    }
}
