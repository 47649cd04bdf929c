// SPDX-License-Identifier: GPL-2.0-only
//! The periodic tick. An idle CPU has none; all CPUs' fall on multiples of its period.

use super::{Class, Event, Kernel, events::short};
use crate::bpf::TaskId;

impl Kernel {
    /// The CPU runs something: its tick is on.
    pub(super) fn start_tick(&mut self, cpu: usize) {
        if self.rqs[cpu].tick.is_none() {
            self.rqs[cpu].tick_seq += 1;
            self.arm_tick(cpu);
        }
    }

    fn arm_tick(&mut self, cpu: usize) {
        let tick_ns = self.machine.tick_ns();
        let next = (self.now / tick_ns + 1) * tick_ns;
        let seq = self.rqs[cpu].tick_seq;
        self.rqs[cpu].tick = Some(seq);
        self.events.push(next, Event::Tick { cpu: short(cpu), seq });
    }

    /// `sched_tick()`.
    pub(super) fn tick(&mut self, cpu: usize, seq: u32) {
        if self.rqs[cpu].tick != Some(seq) {
            return;
        }
        let curr = self.interrupt_curr(cpu);
        let class = self.normal;
        match self.tasks[curr].class() {
            Class::Idle => {}
            Class::Normal => class.tick(self, cpu, curr, false),
            Class::Rt => self.tick_rt(cpu, curr),
        }
        self.unlock_rq(cpu);
        class.every_tick(self, cpu);
        if let Some(count) = &mut self.planted.counted_ticks {
            *count += 1;
            let at = self.at();
            crate::bpf::plant(self, at);
        }
        self.arm_tick(cpu);
    }

    /// A timer's interrupt: the run queue is locked, and the task that runs, the result, is charged until now.
    fn interrupt_curr(&mut self, cpu: usize) -> TaskId {
        self.this_cpu = cpu;
        self.lock_rq(cpu);
        self.update_curr(cpu);
        self.interrupts_guest(cpu);
        self.rqs[cpu].curr
    }

    /// `hrtick()`: the timer that ends a slice.
    pub(super) fn hrtick(&mut self, cpu: usize, seq: u32) {
        let class = self.normal;
        if !class.hrtick(self, cpu, seq) {
            return;
        }
        let curr = self.interrupt_curr(cpu);
        if self.tasks[curr].class() == Class::Normal {
            class.tick(self, cpu, curr, true);
        }
        self.unlock_rq(cpu);
    }
}
