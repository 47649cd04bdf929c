// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Fuzzes everything that the daemon and the device models read from a region.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paracord_abi::{DOMAIN_BYTES, Domain, GuestDriver, GuestLine, LINE_BYTES, PMU_GUEST_BYTES, PmuAsk, RegionLayout};

fuzz_target!(|input: (u64, u32, Vec<u8>)| {
    let (mapped_bytes, declared_bytes, bytes) = input;
    if let Ok(region) = RegionLayout::check(&bytes, mapped_bytes) {
        let last = region.slot_offset(region.slot_count - 1).expect("there is a last slot");
        assert!(last + 2 * LINE_BYTES as u64 <= mapped_bytes);
        let _ = GuestDriver::check(&bytes, &region);
    }
    if let Some(domain) = bytes.first_chunk::<DOMAIN_BYTES>() {
        if let Ok(domain) = Domain::from_bytes(domain) {
            assert_eq!(Domain::from_bytes(&domain.to_bytes()), Ok(domain));
        }
    }
    if let Some(lines) = bytes.first_chunk::<PMU_GUEST_BYTES>() {
        let _ = PmuAsk::from_bytes(lines);
    }
    if let Some(line) = bytes.first_chunk::<LINE_BYTES>() {
        let line = GuestLine::from_bytes(line, declared_bytes);
        assert!(line.perf_request.unwrap_or(0) <= 1024);
    }
});
