// SPDX-License-Identifier: GPL-2.0-only
//! What the kernel's own scheduler promises, measured under both (docs/contract.md): each case is a mix or several, on a machine
//! of any size, and figures with their limits. A mix is simulated here, or played on a real kernel by the lab.

mod cases;
mod draw;
mod ideal;
mod played;

pub use cases::CASES;
pub use played::played;

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
    /// Longest time that a mix is measured for, after its warm-up of a second.
    pub most_seconds: u64,
}

impl Setting {
    /// One node for 64 CPUs, at most 8.
    pub fn new(cpus: usize, long: bool, seed: u64, most_seconds: u64) -> Self {
        let nodes = (cpus / 64).clamp(1, 8);
        Self { cpus, nodes, long, seed, most_seconds }
    }

    /// First lines of a mix that is measured for so long.
    fn machine(&self, seconds: u64) -> String {
        let (cpus, nodes, run) = (self.cpus, self.nodes, self.measured(seconds) + 1);
        format!("machine cpus={cpus} caches={nodes} nodes={nodes} hz=250\nrun {run}s warmup=1s\n")
    }

    /// A machine with two threads in a core, 8 CPUs in a cache, and two nodes at least;
    /// `None`: it is too small for that. All tasks begin on one CPU: they have spread after a few seconds.
    fn shaped(&self, seconds: u64) -> Option<String> {
        let (cpus, run) = (self.cpus, self.measured(seconds) + 4);
        let nodes = self.nodes.max(2);
        let caches = (cpus / 8).max(nodes);
        (cpus >= 8 && cpus % (2 * caches) == 0 && caches % nodes == 0).then(|| {
            format!("machine cpus={cpus} smt=2 caches={caches} nodes={nodes} hz=250\nrun {run}s warmup=4s\n")
        })
    }

    /// As [`Self::machine`], however long that is: what hundreds of loops have says nothing after a few seconds.
    fn machine_whole(&self, seconds: u64) -> String {
        Self { most_seconds: seconds, ..*self }.machine(seconds)
    }

    /// How long a mix is measured for that asks for so many seconds.
    fn measured(&self, seconds: u64) -> u64 {
        seconds.min(self.most_seconds)
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

/// What came of a mix under one scheduler.
#[derive(Clone, Debug, PartialEq)]
pub struct Ran {
    /// Each kind of task, and the share of a CPU that all of it had, in the mix's order.
    pub shares: Vec<(String, f64)>,
    /// What must never happen and did; `None`: nobody has looked.
    pub faults: Option<usize>,
    /// Where tasks were put; `None`: nobody has looked.
    pub placed: Option<Placed>,
}

/// Where tasks were put.
#[derive(Clone, Debug, PartialEq)]
pub struct Placed {
    /// Moves from one node to another one, per second.
    pub node_moves: f64,
    /// Cores of which two threads were busy while others were idle, on average.
    pub crowded: f64,
    /// The longest of the kinds' 99th percentiles of waits after wakeups, µs.
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

/// A mix under both schedulers.
pub struct Both {
    /// paracord's.
    pub ext: Ran,
    /// The kernel's, or its model's.
    pub stock: Ran,
}

impl Both {
    /// Where tasks were put, under both.
    pub fn placed(&self) -> Option<(&Placed, &Placed)> {
        self.ext.placed.as_ref().zip(self.stock.placed.as_ref())
    }

    /// Share of a CPU of all tasks whose kind's name begins so, under both.
    pub fn share(&self, prefix: &str) -> (f64, f64) {
        let share = |run: &Ran| {
            let ours = run.shares.iter().filter(|(name, _)| name.starts_with(prefix));
            ours.map(|(_, share)| share).sum()
        };
        (share(&self.ext), share(&self.stock))
    }

    /// The same of each kind.
    pub fn shares(&self) -> (Vec<f64>, Vec<f64>) {
        let shares = |run: &Ran| run.shares.iter().map(|(_, share)| *share).collect();
        (shares(&self.ext), shares(&self.stock))
    }
}
