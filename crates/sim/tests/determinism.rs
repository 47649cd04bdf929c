// SPDX-License-Identifier: GPL-2.0-only
//! A mix always runs in the same way, whatever else its process does.

use paracord_sim::{
    mix::{Mix, random},
    run::{self, Simulation},
};

/// All results of a run, as text.
fn left(mix: &Mix) -> String {
    format!("{:#?}", run::run(mix.clone()).expect("memory"))
}

fn finish(mut simulation: Simulation) -> String {
    simulation.end();
    format!("{:#?}", simulation.outcome())
}

#[test]
fn two_runs_are_one() {
    for seed in 1..6 {
        let mix = random::mix(seed, 8);
        assert_eq!(left(&mix), left(&mix), "seed {seed}");
    }
}

/// Two machines that run in turn, step by step, in one process give the same results as alone.
#[test]
fn machines_that_alternate_are_machines_alone() {
    for seed in 1..6 {
        let mixes = [random::mix(seed, 4), random::mix(seed + 100, 16)];
        let alone = mixes.each_ref().map(left);
        let mut both = mixes.each_ref().map(|mix| Simulation::new(mix.clone()).expect("memory"));
        let longest = mixes.iter().map(|mix| mix.run_ns).max().unwrap_or(0);
        // The end of a step coincides with nothing else.
        for step in 1..=longest / 7_777_777 + 1 {
            for (simulation, mix) in both.iter_mut().zip(&mixes) {
                simulation.run_until((step * 7_777_777).min(mix.run_ns));
            }
        }
        assert_eq!(both.map(finish), alone, "seed {seed}");
    }
}
