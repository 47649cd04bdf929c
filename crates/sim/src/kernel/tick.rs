// SPDX-License-Identifier: GPL-2.0-only
//! The periodic tick. An idle CPU has no tick. The ticks of all CPUs are at multiples of the
//! period.

use super::{Class, Event, Kernel, events::short};
use crate::bpf::TaskId;

impl Kernel {
    /// Starts the tick of a CPU, which now has a task to run.
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

    /// An interrupt of a timer: locks the run queue and charges the running task until now. Returns
    /// this task.
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
