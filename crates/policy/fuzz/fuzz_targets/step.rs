// SPDX-License-Identifier: GPL-2.0-only
//! The step keeps its invariants for any configuration, state, observation and time.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paracord_policy::invariants::Inputs;

fuzz_target!(|bytes: &[u8]| Inputs::from_bytes(bytes).check());
