// SPDX-License-Identifier: GPL-2.0-only
//! Counters take and give back events in any order, and the pool keeps its invariants.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paracord_policy::pmu::Mode;
use paracord_policy::pmu_invariants::check;

fuzz_target!(|bytes: &[u8]| {
    if let [mode, release_slices, operations @ ..] = bytes {
        let mode = [Mode::Keyed, Mode::Last, Mode::Recreate][usize::from(mode % 3)];
        check(mode, u32::from(*release_slices) % 4, operations);
    }
});
