// SPDX-License-Identifier: GPL-2.0-only
//! Faults that tests plant: a check that cannot find its own is none (tests/checks.rs, tests/races.rs).

use super::Kernel;

/// What is planted.
#[allow(clippy::struct_excessive_bools, reason = "each is a fault of its own")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Planted {
    /// Ticks that a program has counted without an atomic; `None`: it counts none.
    pub counted_ticks: Option<u64>,
    /// A CPU on which no task runs, and which the scheduler does not know to be idle.
    pub kept_idle: Option<usize>,
    /// The next task that a CPU takes from a queue is back there before it runs.
    pub loses_consumed: bool,
    /// While a CPU looks who runs next, somebody asks it to look.
    pub asks_while_it_looks: bool,
    /// Tasks that end stay counted in their groups.
    pub leftovers: bool,
    /// Tasks of any cookie share a core.
    pub ignores_cookies: bool,
}

impl Kernel {
    /// No task runs on a CPU from here on, and the class does not know that it is idle.
    pub fn plant_idle_cpu(&mut self, cpu: usize) {
        self.planted.kept_idle = Some(cpu);
        let class = self.normal;
        class.idle(self, cpu, false, true);
    }
}
