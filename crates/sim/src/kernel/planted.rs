// SPDX-License-Identifier: GPL-2.0-only
//! Faults that tests plant, to show that each check finds its fault (tests/checks.rs,
//! tests/races.rs).

use super::Kernel;

/// The faults that are planted.
#[allow(clippy::struct_excessive_bools, reason = "each is a fault of its own")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Planted {
    /// Ticks that a program has counted without an atomic operation. `None`: the program counts
    /// none.
    pub counted_ticks: Option<u64>,
    /// A CPU that runs no task, and that the scheduler does not know to be idle.
    pub kept_idle: Option<usize>,
    /// The next task that a CPU takes from a queue returns to the queue before it runs.
    pub loses_consumed: bool,
    /// While a CPU selects a task, another one requests a selection.
    pub asks_while_it_looks: bool,
    /// Groups still count tasks that have ended.
    pub leftovers: bool,
    /// Tasks with any cookies share a core.
    pub ignores_cookies: bool,
}

impl Kernel {
    /// From now on, no task runs on this CPU, and the class does not know that the CPU is idle.
    pub fn plant_idle_cpu(&mut self, cpu: usize) {
        self.planted.kept_idle = Some(cpu);
        let class = self.normal;
        class.idle(self, cpu, false, true);
    }
}
