// SPDX-License-Identifier: GPL-2.0-only
//! Promises of the kernel's own scheduler that paracord's scheduler keeps. Each promise is tested
//! by a mix of `mixes/`. Earlier versions of paracord's scheduler broke each of them, and the
//! simulator found that.

use std::path::Path;

use paracord_sim::{
    mix::{self, Scheduler},
    run::{self, Kind, Outcome},
};

struct Ran {
    mix: mix::Mix,
    outcome: Outcome,
}

fn run(name: &str) -> Ran {
    run_as(name, |_| ())
}

fn run_as(name: &str, change: impl FnOnce(&mut mix::Mix)) -> Ran {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("mixes/{name}.mix"));
    let mut mix = mix::load(&path).unwrap_or_else(|error| panic!("{error}"));
    change(&mut mix);
    let outcome = run::run(mix.clone()).expect("memory");
    Ran { mix, outcome }
}

impl Ran {
    /// CPU share of all tasks of kinds whose names begin with `prefix`.
    fn share(&self, prefix: &str) -> f64 {
        let ours = |kind: &usize| self.mix.tasks[*kind].name.starts_with(prefix);
        let kinds = (0..self.mix.tasks.len()).filter(ours);
        kinds.map(|kind| self.outcome.permille(Kind::Task(kind)) as f64 / 1000.0).sum()
    }

    fn longest_wait_ms(&self) -> u64 {
        let waits = self.outcome.tasks.iter().map(|task| task.account.longest_wait_ns);
        waits.max().unwrap_or(0) / 1_000_000
    }

    fn has_fault(&self) -> bool {
        !self.outcome.faults.is_empty()
    }
}

fn near(value: f64, wanted: f64, within: f64) -> bool {
    (value - wanted).abs() <= within
}

/// A promise, and the function that decides whether a run keeps it.
type Promise = (&'static str, fn(&Ran) -> bool);

const KEPT: [Promise; 24] = [
    ("moved-affinity", |ran| !ran.has_fault()),
    ("nested-weights", |ran| {
        near(ran.share("front"), 0.5, 0.02) && near(ran.share("back"), 0.25, 0.02)
    }),
    ("bound-quota", |ran| near(ran.share("loop"), 0.3, 0.03)),
    ("nested-quotas", |ran| {
        near(ran.share("flat"), 0.3, 0.015)
            && near(ran.share("upper") + ran.share("lower"), 0.5, 0.025)
            && near(ran.share("lower"), 0.2, 0.01)
    }),
    // None of 64 tasks waits so long that the kernel unloads the scheduler.
    ("tight-quota", |ran| ran.share("many") <= 0.002 && ran.share("free") >= 1.99),
    ("parked-moves", |ran| !ran.has_fault()),
    ("quota-hotplug", |ran| {
        near(ran.share("wide") + ran.share("bound"), 0.5, 0.02) && ran.share("tight") <= 0.002
    }),
    ("idle-group", |ran| ran.share("behind") <= 0.01),
    ("nice-two-cpus", |ran| {
        near(ran.share("normal"), 1.8, 0.05) && near(ran.share("low"), 0.2, 0.05)
    }),
    ("nice-minus-ten", |ran| ran.share("high") >= 0.95 && near(ran.share("normal"), 1.0, 0.05)),
    ("fork-chain-1ms", |ran| ran.share("loop") >= 0.45),
    ("fork-chain-4ms", |ran| ran.share("loop") >= 0.45),
    ("fork-chain-after", |ran| near(ran.share("loop"), 0.5, 0.015)),
    ("fork-two-makers", |ran| near(ran.share("loop"), 0.333, 0.03)),
    ("short-sleeps", |ran| near(ran.share("worker"), 0.667, 0.03)),
    ("short-sleep-alone", |ran| near(ran.share("worker"), 0.5, 0.02)),
    // A task to which another one yields runs first, and is charged for it.
    ("calls", |ran| ran.share("count") >= 0.012 && near(ran.share("loop"), 1.33, 0.03)),
    ("deep-groups", |ran| near(ran.share("beside"), 0.5, 0.04)),
    // The weight of a group is divided among its tasks, wherever they are.
    ("groups-6-2", |ran| near(ran.share("many") / ran.share("few"), 1.0, 0.1)),
    ("groups-30-30", |ran| near(ran.share("heavy") / ran.share("light"), 10.0, 0.5)),
    // Tasks that are put back boosted take turns.
    ("boosted-pair", |ran| !ran.has_fault()),
    // Tasks with different cookies do not share a core (this would be a fault), and divide the core
    // by their weights.
    ("core-cookies", |ran| {
        near(ran.share("red"), 0.754, 0.015)
            && near(ran.share("red") + ran.share("blue"), 1.0, 0.01)
    }),
    ("core-three-cookies", |ran| ran.longest_wait_ms() < 150),
    // An idle CPU searches only 32 other CPUs for tasks. An overloaded CPU therefore gives tasks
    // away.
    ("far-idle", |ran| !ran.has_fault()),
];

#[test]
fn promises_are_kept() {
    for (name, keeps) in KEPT {
        let ran = run(name);
        assert!(keeps(&ran), "{name}: {:#?}", ran.outcome);
        assert!(!ran.has_fault(), "{name}: {:?}", ran.outcome.faults);
    }
}

/// Faults that a single seed does not show: a task that waits for seconds, or two threads that
/// change the core's task without end.
#[test]
fn nobody_starves_beside_cookies() {
    for seed in 1..=8 {
        let ran = run_as("core-three-cookies", |mix| mix.seed = seed);
        assert!(!ran.has_fault(), "seed {seed}: {:?}", ran.outcome.faults);
        let longest = ran.longest_wait_ms();
        assert!(longest < 150, "seed {seed}: {longest} ms");
    }
}

/// The result is compared with the model of the kernel's scheduler, because a good value depends on
/// the mix.
#[test]
fn tasks_keep_to_their_node() {
    let moves = |scheduler| {
        let ran = run_as("nodes-nearly-full", |mix| mix.scheduler = scheduler);
        assert!(!ran.has_fault(), "{:?}", ran.outcome.faults);
        ran.outcome.placement.node_moves
    };
    let (ours, stock) = (moves(Scheduler::Ext), moves(Scheduler::Stock));
    assert!(
        ours <= stock,
        "{ours} moves between nodes, but {stock} with the kernel's own scheduler"
    );
}
