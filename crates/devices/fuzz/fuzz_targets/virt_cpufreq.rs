// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! A guest accesses the device's window in arbitrary ways, and the model of the property test
//! checks the results.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../tests/model/mod.rs"]
mod model;

/// Most generated addresses are in the window, so that a fuzzer finds the registers quickly.
fuzz_target!(|accesses: Vec<(bool, u8, u8, Option<u64>, Vec<u8>)>| {
    let accesses: Vec<_> = accesses
        .into_iter()
        .map(|(is_write, page, byte, anywhere, data)| {
            let page = u64::from(page) % (model::VCPUS + 2);
            let offset = anywhere.unwrap_or(page * 0x1000 + u64::from(byte) % 0x20);
            model::Access { is_write, offset, data }
        })
        .collect();
    model::compare(&accesses);
});
