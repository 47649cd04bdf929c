// SPDX-License-Identifier: GPL-2.0-only
//! The simulated machine: its CPUs, the parts that they share, and the costs of operations.

mod cpuset;

pub use cpuset::{CPUS_MAX, CpuSet};

use crate::time::{NS_PER_S, Ns};

/// Costs: times in which a CPU does not work for a task, and delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// A switch from one task to another one.
    pub switch_ns: Ns,
    /// Additional work of a task after it has moved to another last-level cache.
    pub migrate_ns: Ns,
    /// Delay until another CPU receives an inter-processor interrupt.
    pub ipi_ns: Ns,
    /// Time of a VM exit.
    pub exit_ns: Ns,
}

impl Default for Costs {
    fn default() -> Self {
        Self { switch_ns: 1_000, migrate_ns: 5_000, ipi_ns: 1_000, exit_ns: 1_000 }
    }
}

/// The machine. CPUs are numbered core by core, cache by cache and node by node. `cpus` is a
/// multiple of `smt * caches`, and `caches` is a multiple of `nodes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Number of CPUs, 1..=1024.
    pub cpus: usize,
    /// Hardware threads per core: 1, 2 or 4.
    pub smt: usize,
    /// Number of last-level caches.
    pub caches: usize,
    /// Number of NUMA nodes.
    pub nodes: usize,
    /// Capacity of each CPU, 1..=1024.
    pub capacities: Vec<u32>,
    /// Ticks per second: 100..=1000.
    pub hz: u32,
    /// Costs of operations.
    pub costs: Costs,
}

impl Machine {
    /// A machine with identical CPUs, which share one cache.
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

    /// Time between two ticks, in nanoseconds.
    #[must_use]
    pub fn tick_ns(&self) -> Ns {
        NS_PER_S / Ns::from(self.hz)
    }

    /// The last-level cache of a CPU.
    #[must_use]
    pub fn cache(&self, cpu: usize) -> usize {
        cpu / (self.cpus / self.caches)
    }

    /// The node of a CPU.
    #[must_use]
    pub fn node(&self, cpu: usize) -> usize {
        cpu / (self.cpus / self.nodes)
    }

    /// The CPUs of the core to which a CPU belongs.
    #[must_use]
    pub fn core_cpus(&self, cpu: usize) -> std::ops::Range<usize> {
        span(cpu, self.smt)
    }

    /// The CPUs that share the last-level cache of a CPU.
    #[must_use]
    pub fn cache_cpus(&self, cpu: usize) -> std::ops::Range<usize> {
        span(cpu, self.cpus / self.caches)
    }

    /// The CPUs of the node to which a CPU belongs.
    #[must_use]
    pub fn node_cpus(&self, cpu: usize) -> std::ops::Range<usize> {
        span(cpu, self.cpus / self.nodes)
    }
}

fn span(cpu: usize, size: usize) -> std::ops::Range<usize> {
    let first = cpu / size * size;
    first..first + size
}
