// SPDX-License-Identifier: GPL-2.0-only
//! Measures the promises of the kernel's own scheduler under both schedulers (docs/contract.md). A
//! case consists of one or more mixes on a machine of any size, and of figures with limits. A mix
//! is simulated here, or the lab plays it on a real kernel.

mod cases;
mod draw;
mod ideal;
mod played;

pub use cases::CASES;
pub use played::played;

use crate::report::Finished;

/// The machine on which the cases are measured, how long, and how many mixes.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Number of CPUs.
    pub cpus: usize,
    /// Number of nodes. Each has one last-level cache.
    pub nodes: usize,
    /// Whether to make longer runs, and more random mixes.
    pub long: bool,
    /// The first seed of random mixes.
    pub seed: u64,
    /// The longest time for which a mix is measured, after its warm-up of one second.
    pub most_seconds: u64,
}

impl Setting {
    /// Makes a setting with one node per 64 CPUs, and at most 8 nodes.
    pub fn new(cpus: usize, long: bool, seed: u64, most_seconds: u64) -> Self {
        let nodes = (cpus / 64).clamp(1, 8);
        Self { cpus, nodes, long, seed, most_seconds }
    }

    /// The first lines of a mix that is measured for `seconds`.
    fn machine(&self, seconds: u64) -> String {
        let (cpus, nodes, run) = (self.cpus, self.nodes, self.measured(seconds) + 1);
        format!("machine cpus={cpus} caches={nodes} nodes={nodes} hz=250\nrun {run}s warmup=1s\n")
    }

    /// The first lines of a mix for a machine with two threads per core, 8 CPUs per cache, and at
    /// least two nodes. `None` if the machine is too small for that. All tasks begin on one CPU,
    /// and have spread after a few seconds.
    fn shaped(&self, seconds: u64) -> Option<String> {
        let (cpus, run) = (self.cpus, self.measured(seconds) + 4);
        let nodes = self.nodes.max(2);
        let caches = (cpus / 8).max(nodes);
        (cpus >= 8 && cpus % (2 * caches) == 0 && caches % nodes == 0).then(|| {
            format!("machine cpus={cpus} smt=2 caches={caches} nodes={nodes} hz=250\nrun {run}s warmup=4s\n")
        })
    }

    /// Like [`Self::machine`], but without the limit on the time. The shares of hundreds of loops
    /// mean nothing after a few seconds.
    fn machine_whole(&self, seconds: u64) -> String {
        Self { most_seconds: seconds, ..*self }.machine(seconds)
    }

    /// How long a mix is measured that asks for `seconds`.
    fn measured(&self, seconds: u64) -> u64 {
        seconds.min(self.most_seconds)
    }
}

/// A measured figure with its limit.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The variant of the case; empty if there is only one.
    pub of: String,
    /// The value of paracord's scheduler.
    pub ext: f64,
    /// The value of the kernel's scheduler, or of its model.
    pub stock: f64,
    /// The value that is compared with the limit: `ext`, or the difference between `ext` and
    /// `stock`.
    pub value: f64,
    /// The limit.
    pub limit: f64,
    /// Whether the value must be at most the limit. Otherwise it must be at least the limit.
    pub at_most: bool,
}

impl Figure {
    /// A value with an upper limit.
    pub fn at_most(
        of: impl Into<String>,
        (ext, stock): (f64, f64),
        value: f64,
        limit: f64,
    ) -> Self {
        Self { of: of.into(), ext, stock, value, limit, at_most: true }
    }

    /// A value of paracord's scheduler that must be at least `limit`.
    pub fn at_least(of: impl Into<String>, (ext, stock): (f64, f64), limit: f64) -> Self {
        Self { of: of.into(), ext, stock, value: ext, limit, at_most: false }
    }

    /// Whether the value keeps its limit.
    pub fn passes(&self) -> bool {
        if self.at_most { self.value <= self.limit } else { self.value >= self.limit }
    }
}

/// The results of a mix under one scheduler.
#[derive(Clone, Debug, PartialEq)]
pub struct Ran {
    /// Each kind of task, and the CPU share of all its tasks together, in the order of the mix.
    pub shares: Vec<(String, f64)>,
    /// Number of faults; `None` if they were not counted.
    pub faults: Option<usize>,
    /// Where tasks were put; `None` if it was not recorded.
    pub placed: Option<Placed>,
}

/// Where tasks were put.
#[derive(Clone, Debug, PartialEq)]
pub struct Placed {
    /// Moves from one node to another, per second.
    pub node_moves: f64,
    /// The average number of cores of which two threads were busy while other cores were idle.
    pub crowded: f64,
    /// The largest 99th percentile, over all kinds, of the waits after wakeups, in µs.
    pub wakeup_p99_us: f64,
}

impl From<Finished> for Ran {
    fn from(run: Finished) -> Self {
        let shares = run.kinds.iter().map(|kind| (kind.name.clone(), run.share(kind.ran_ns)));
        let seconds = run.measured_ns as f64 / 1e9;
        let longest = run.kinds.iter().filter_map(|kind| kind.wakeup_p99_ns).max();
        let placed = Placed {
            node_moves: run.outcome.placement.node_moves as f64 / seconds,
            crowded: run.share(run.outcome.placement.crowded_ns),
            wakeup_p99_us: longest.unwrap_or(0) as f64 / 1e3,
        };
        let shares = shares.collect();
        Self { shares, faults: Some(run.outcome.faults.len()), placed: Some(placed) }
    }
}

/// The results of a mix under both schedulers.
pub struct Both {
    /// The results under paracord's scheduler.
    pub ext: Ran,
    /// The results under the kernel's scheduler, or its model.
    pub stock: Ran,
}

impl Both {
    /// Where tasks were put under both schedulers.
    pub fn placed(&self) -> Option<(&Placed, &Placed)> {
        self.ext.placed.as_ref().zip(self.stock.placed.as_ref())
    }

    /// Share of a CPU, under both schedulers, of all tasks of kinds whose names begin with
    /// `prefix`.
    pub fn share(&self, prefix: &str) -> (f64, f64) {
        let share = |run: &Ran| {
            let ours = run.shares.iter().filter(|(name, _)| name.starts_with(prefix));
            ours.map(|(_, share)| share).sum()
        };
        (share(&self.ext), share(&self.stock))
    }

    /// The shares of each kind under both schedulers.
    pub fn shares(&self) -> (Vec<f64>, Vec<f64>) {
        let shares = |run: &Ran| run.shares.iter().map(|(_, share)| *share).collect();
        (shares(&self.ext), shares(&self.stock))
    }
}
