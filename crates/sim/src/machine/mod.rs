// SPDX-License-Identifier: GPL-2.0-only
//! The machine: CPUs, what they share, what things cost.

mod cpuset;

pub use cpuset::{CPUS_MAX, CpuSet};

use crate::time::{NS_PER_S, Ns};

/// What takes a CPU's time without doing a task's work, and what delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// A switch from one task to another.
    pub switch_ns: Ns,
    /// What a task that comes from another last cache has to do more, once.
    pub migrate_ns: Ns,
    /// Until another CPU hears of an inter-processor interrupt.
    pub ipi_ns: Ns,
    /// A VM exit.
    pub exit_ns: Ns,
}

impl Default for Costs {
    fn default() -> Self {
        Self { switch_ns: 1_000, migrate_ns: 5_000, ipi_ns: 1_000, exit_ns: 1_000 }
    }
}

/// CPUs are numbered core by core, cores cache by cache, caches node by node: `cpus` is a multiple of `smt *
/// caches`, and `caches` of `nodes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// CPUs, 1..=1024.
    pub cpus: usize,
    /// Hardware threads of a core: 1, 2 or 4.
    pub smt: usize,
    /// Last caches.
    pub caches: usize,
    /// NUMA nodes.
    pub nodes: usize,
    /// Per CPU, 1..=1024.
    pub capacities: Vec<u32>,
    /// Ticks per second: 100..=1000.
    pub hz: u32,
    /// What things cost.
    pub costs: Costs,
}

impl Machine {
    /// CPUs that are all alike and share one cache.
    #[must_use]
    pub fn flat(cpus: usize) -> Self {
        Self {
            cpus,
            smt: 1,
            caches: 1,
            nodes: 1,
            capacities: vec![1024; cpus],
            hz: 250,
            costs: Costs::default(),
        }
    }

    /// Nanoseconds from tick to tick.
    #[must_use]
    pub fn tick_ns(&self) -> Ns {
        NS_PER_S / Ns::from(self.hz)
    }

    /// The last cache of a CPU.
    #[must_use]
    pub fn cache(&self, cpu: usize) -> usize {
        cpu / (self.cpus / self.caches)
    }

    /// The node of a CPU.
    #[must_use]
    pub fn node(&self, cpu: usize) -> usize {
        cpu / (self.cpus / self.nodes)
    }

    /// The CPUs of the same core.
    #[must_use]
    pub fn core_cpus(&self, cpu: usize) -> std::ops::Range<usize> {
        span(cpu, self.smt)
    }

    /// The CPUs that share a last cache.
    #[must_use]
    pub fn cache_cpus(&self, cpu: usize) -> std::ops::Range<usize> {
        span(cpu, self.cpus / self.caches)
    }

    /// The CPUs of the same node.
    #[must_use]
    pub fn node_cpus(&self, cpu: usize) -> std::ops::Range<usize> {
        span(cpu, self.cpus / self.nodes)
    }
}

fn span(cpu: usize, size: usize) -> std::ops::Range<usize> {
    let first = cpu / size * size;
    first..first + size
}
