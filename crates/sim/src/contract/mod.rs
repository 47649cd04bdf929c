// SPDX-License-Identifier: GPL-2.0-only
//! What the kernel's own scheduler promises, measured under both (docs/contract.md): each case is a mix or several, on a machine
//! of any size, and figures with their limits.

mod cases;
mod draw;
mod ideal;

pub use cases::CASES;

use crate::report::Finished;

/// A machine, and how long and how much is tried on it.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// CPUs.
    pub cpus: usize,
    /// Nodes; each is one last-level cache.
    pub nodes: usize,
    /// The long form.
    pub long: bool,
    /// Of what is drawn.
    pub seed: u64,
}

impl Setting {
    /// One node for 64 CPUs, at most 8.
    pub fn new(cpus: usize, long: bool, seed: u64) -> Self {
        let nodes = (cpus / 64).clamp(1, 8);
        Self { cpus, nodes, long, seed }
    }

    /// First lines of a mix.
    fn machine(&self, seconds: u64, warmup_seconds: u64) -> String {
        let (cpus, nodes) = (self.cpus, self.nodes);
        format!(
            "machine cpus={cpus} caches={nodes} nodes={nodes} hz=250\nrun {seconds}s warmup={warmup_seconds}s\n"
        )
    }
}

/// A figure, and whether it is within its limit.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Which variant of the case; empty: there is one.
    pub of: String,
    /// paracord's.
    pub ext: f64,
    /// The kernel's model's.
    pub stock: f64,
    /// What the limit is about: `ext`, or its difference from stock.
    pub value: f64,
    /// The limit.
    pub limit: f64,
    /// The value has to be below it; otherwise above.
    pub at_most: bool,
}

impl Figure {
    /// A value that may be so large.
    pub fn at_most(
        of: impl Into<String>,
        (ext, stock): (f64, f64),
        value: f64,
        limit: f64,
    ) -> Self {
        Self { of: of.into(), ext, stock, value, limit, at_most: true }
    }

    /// A value that has to be so large.
    pub fn at_least(of: impl Into<String>, (ext, stock): (f64, f64), limit: f64) -> Self {
        Self { of: of.into(), ext, stock, value: ext, limit, at_most: false }
    }

    /// Whether it is within its limit.
    pub fn passes(&self) -> bool {
        if self.at_most { self.value <= self.limit } else { self.value >= self.limit }
    }
}

/// A mix under both schedulers.
pub struct Both {
    /// paracord's.
    pub ext: Finished,
    /// The kernel's model.
    pub stock: Finished,
}

impl Both {
    /// Share of a CPU of all tasks whose kind's name begins so, under both.
    pub fn share(&self, prefix: &str) -> (f64, f64) {
        let share = |run: &Finished| {
            let ours = run.kinds.iter().filter(|kind| kind.name.starts_with(prefix));
            ours.map(|kind| run.share(kind.ran_ns)).sum()
        };
        (share(&self.ext), share(&self.stock))
    }

    /// The same of each kind.
    pub fn shares(&self) -> (Vec<f64>, Vec<f64>) {
        let shares = |run: &Finished| run.kinds.iter().map(|kind| run.share(kind.ran_ns)).collect();
        (shares(&self.ext), shares(&self.stock))
    }

    /// Faults under paracord's scheduler.
    pub fn faults(&self) -> usize {
        self.ext.outcome.faults.len()
    }
}
