// SPDX-License-Identifier: GPL-2.0-only
//! The reserve for ordinary tasks beside real-time ones: fair_server and ext_server
//! (kernel/sched/deadline.c). They begin to run at the last possible moment of their period.

use super::{Class, Event, Kernel, events::short};
use crate::{
    mix::{KernelVersion, Scheduler},
    time::{NS_PER_S, Ns},
};

const PERIOD_NS: Ns = NS_PER_S;
const RUNTIME_NS: Ns = 50_000_000;

impl Kernel {
    /// Kernel 6.12 has no server for sched_ext.
    fn has_server(&self) -> bool {
        self.mix.scheduler == Scheduler::Stock || self.mix.kernel == KernelVersion::V7_3
    }

    /// A task came to the CPU. If the server is not armed yet and may be needed, its period begins
    /// now.
    pub(super) fn arm_server(&mut self, cpu: usize) {
        let rt = self.tasks[self.rqs[cpu].curr].class() == Class::Rt
            || self.rqs[cpu].rt.first().is_some();
        if self.rqs[cpu].server.armed || !rt || !self.has_server() {
            return;
        }
        let server = &mut self.rqs[cpu].server;
        server.seq += 1;
        server.armed = true;
        server.ran_ns = 0;
        let event = Event::Server { cpu: short(cpu), seq: server.seq };
        self.events.push(self.now + PERIOD_NS - RUNTIME_NS, event);
    }

    pub(super) fn server_fires(&mut self, cpu: usize, seq: u32) {
        self.this_cpu = cpu;
        if self.rqs[cpu].server.seq != seq {
            return;
        }
        self.update_curr(cpu);
        let curr = self.rqs[cpu].curr;
        let rt = self.tasks[curr].class() == Class::Rt;
        let server = &mut self.rqs[cpu].server;
        if server.left_ns > 0 {
            server.left_ns = 0;
            server.armed = false;
            self.resched_curr(cpu);
            self.arm_server(cpu);
            return;
        }
        let left_ns = RUNTIME_NS.saturating_sub(server.ran_ns);
        if rt && left_ns > 0 {
            server.left_ns = left_ns;
            server.seq += 1;
            let event = Event::Server { cpu: short(cpu), seq: server.seq };
            self.events.push(self.now + left_ns, event);
            self.resched_curr(cpu);
            return;
        }
        server.armed = false;
        self.arm_server(cpu);
    }
}
