// SPDX-License-Identifier: GPL-2.0-only
//! Random mixes keep the rules that hold in every run.

use paracord_sim::{
    mix::{Mix, random::Draw, shrink},
    run,
};

/// Number of mixes of each size. `PARACORD_SIM_MIXES` changes the number, and `PARACORD_SIM_SEED`
/// the first seed.
const MIXES: u64 = 15;
/// Maximum number of runs for shrinking.
const SHRINK_RUNS: usize = 300;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn fault(mix: &Mix) -> Option<String> {
    let outcome = run::run(mix.clone()).expect("memory");
    outcome.faults.first().map(|fault| format!("at {} ns: {}", fault.at_ns, fault.what))
}

/// A mix that fails is shrunk. The message contains it as a file that fails by itself.
fn no_mix_fails(draw: Draw, sizes: &[usize]) {
    let (first, count) = (number("PARACORD_SIM_SEED", 1), number("PARACORD_SIM_MIXES", MIXES));
    for seed in first..first + count {
        for cpus in sizes {
            let mix = draw.mix(seed, *cpus);
            if fault(&mix).is_some() {
                let small = shrink::shrink(&mix, |mix| fault(mix).is_some(), SHRINK_RUNS);
                panic!("seed {seed}, {cpus} CPUs, {}\n{small}", fault(&small).unwrap_or_default());
            }
        }
    }
}

#[test]
fn nothing_that_must_hold_is_broken() {
    no_mix_fails(Draw::ALL, &[1, 2, 8, 32, 128]);
}
