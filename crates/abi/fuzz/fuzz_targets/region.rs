// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Everything that the daemon reads from a region.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paracord_abi::{GuestDriver, GuestLine, LINE_BYTES, RegionLayout};

fuzz_target!(|input: (u64, u32, Vec<u8>)| {
    let (mapped_bytes, declared_bytes, bytes) = input;
    if let Ok(region) = RegionLayout::check(&bytes, mapped_bytes) {
        let last = region.slot_offset(region.slot_count - 1).expect("there is a last slot");
        assert!(last + 2 * LINE_BYTES as u64 <= mapped_bytes);
        let _ = GuestDriver::check(&bytes, &region);
    }
    if let Some(line) = bytes.first_chunk::<LINE_BYTES>() {
        let line = GuestLine::from_bytes(line, declared_bytes);
        assert!(line.perf_request.unwrap_or(0) <= 1024);
    }
});
