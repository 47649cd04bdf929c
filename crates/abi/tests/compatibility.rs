// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Checks that each kind of broken header has its own error, and that old and new versions
//! understand each other in both directions.

#![allow(clippy::unwrap_used)]
use std::mem::offset_of;

use paracord_abi::layout::{self, paracord_guest_line, paracord_header};
use paracord_abi::{
    AbiError, Domain, DomainError, GuestDriver, GuestLine, HEADER_BYTES, HOST_BOOST_BYTES,
    HostBoost, HostPlace, LINE_BYTES, RegionLayout, new_region, region_bytes,
};

const FEATURES: u32 = layout::PARACORD_F_BOOST | layout::PARACORD_F_KICK;

fn domain() -> Domain {
    Domain { max_khz: 950_000, capacity: 383, shared: true, levels: vec![485, 863, 1024] }
}

fn header() -> Vec<u8> {
    new_region(4, FEATURES, 0, &[domain()]).unwrap()[..HEADER_BYTES].to_vec()
}

fn with<const N: usize>(at: usize, value: [u8; N]) -> Vec<u8> {
    let mut bytes = header();
    bytes[at..at + N].copy_from_slice(&value);
    bytes
}

fn check(bytes: &[u8]) -> Result<RegionLayout, AbiError> {
    RegionLayout::check(bytes, region_bytes(4))
}

#[test]
fn a_new_header_is_accepted() {
    let region = check(&header()).unwrap();
    assert_eq!((region.slot_count, region.slot_offset(3)), (4, Some(4096 + 3 * 1024)));
    assert_eq!(region.slot_offset(4), None);
    assert!(region_bytes(4).is_power_of_two());
    for slots in 1..=layout::PARACORD_SLOTS_MAX {
        let bytes = new_region(slots, FEATURES, 0, &[]).unwrap();
        RegionLayout::check(&bytes, region_bytes(slots)).unwrap();
    }
}

#[test]
fn each_broken_header_has_its_own_error() {
    let at = |field: usize, value: u32| check(&with(field, value.to_le_bytes()));
    assert_eq!(check(&header()[..127]), Err(AbiError::TooSmall { found_bytes: 127 }));
    assert_eq!(RegionLayout::check(&header(), 100), Err(AbiError::TooSmall { found_bytes: 100 }));
    assert_eq!(check(&[0; HEADER_BYTES]), Err(AbiError::Magic { found: 0 }));
    let major = with(offset_of!(paracord_header, abi_major), 2u16.to_le_bytes());
    assert_eq!(check(&major), Err(AbiError::Major { found: 2 }));
    assert_eq!(
        at(offset_of!(paracord_header, header_bytes), 64),
        Err(AbiError::HeaderBytes { found: 64 })
    );
    let large = with(offset_of!(paracord_header, region_bytes), u64::MAX.to_le_bytes());
    assert_eq!(
        check(&large),
        Err(AbiError::RegionBytes { declared: u64::MAX, mapped: region_bytes(4) })
    );
    for found in [0, layout::PARACORD_SLOTS_MAX + 1, u32::MAX] {
        let got = at(offset_of!(paracord_header, slot_count), found);
        assert_eq!(got, Err(AbiError::SlotCount { found }));
        assert!(new_region(found, 0, 0, &[]).is_err());
    }
    for found in [0, 64, 1000, layout::PARACORD_SLOT_STRIDE_MAX_BYTES + 64, u32::MAX] {
        let got = at(offset_of!(paracord_header, slot_stride_bytes), found);
        assert_eq!(got, Err(AbiError::SlotStride { found }));
    }
    let offset = offset_of!(paracord_header, slot_offset_bytes);
    assert_eq!(at(offset, 4097), Err(AbiError::SlotOffset { found: 4097 }));
    assert_eq!(at(offset, 64), Err(AbiError::Overlap { slot_offset: 64, header_bytes: 128 }));
    assert_eq!(
        at(offset, 8192),
        Err(AbiError::SlotsOutside { end: 8192 + 4096, region_bytes: 8192 })
    );
    assert_eq!(
        at(offset_of!(paracord_header, host_line_bytes), 0),
        Err(AbiError::HostLineBytes { found: 0 })
    );
}

#[test]
fn domains_lie_between_the_header_and_the_slots() {
    let bytes = new_region(4, FEATURES, 0, &[domain(), domain()]).unwrap();
    let region = check(&bytes).unwrap();
    let at = region.domain_offset(1).unwrap() as usize;
    assert_eq!(Domain::from_bytes(bytes[at..at + 192].try_into().unwrap()), Ok(domain()));
    assert_eq!(region.domain_offset(2), None);
    let many = vec![domain(); 17];
    let refused = AbiError::Domain(DomainError::Count { found: 17 });
    assert_eq!(new_region(4, FEATURES, 0, &many), Err(refused));
    assert!(check(&new_region(4, FEATURES, 0, &many[..16]).unwrap()).is_ok());
    // A newer or a broken host may declare a table that is at another place or is too large.
    let field = offset_of!(paracord_header, domain_offset_bytes);
    for (offset, count, stride) in
        [(64, 1, 192), (130, 1, 192), (4096, 1, 192), (128, 17, 192), (128, 1, 128), (128, 1, 200)]
    {
        let mut bytes = header();
        bytes[field..field + 4].copy_from_slice(&u32::to_le_bytes(offset));
        bytes[field + 4..field + 6].copy_from_slice(&u16::to_le_bytes(count));
        bytes[field + 6..field + 8].copy_from_slice(&u16::to_le_bytes(stride));
        assert_eq!(check(&bytes), Err(AbiError::Domains { count, offset, stride }));
    }
    // Version 1.0 had zeroes in these bytes, which means no domains.
    let old = with(field, [0u8; 8]);
    assert_eq!(check(&old).unwrap().domain_count, 0);
}

#[test]
fn old_reader_accepts_a_newer_writer() {
    // A newer minor version has appended fields to the header, the line and the slot.
    let mut bytes = header();
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(offset_of!(paracord_header, abi_minor), &9u16.to_le_bytes());
    put(offset_of!(paracord_header, header_bytes), &256u32.to_le_bytes());
    put(offset_of!(paracord_header, slot_stride_bytes), &2048u32.to_le_bytes());
    put(offset_of!(paracord_header, region_bytes), &16384u64.to_le_bytes());
    put(offset_of!(paracord_header, host_line_bytes), &128u32.to_le_bytes());
    put(offset_of!(paracord_header, guest_features), &u32::MAX.to_le_bytes());
    put(offset_of!(paracord_header, guest_abi_major), &1u16.to_le_bytes());
    put(offset_of!(paracord_header, guest_abi_minor), &9u16.to_le_bytes());
    put(offset_of!(paracord_header, guest_line_bytes), &4096u32.to_le_bytes());
    bytes.resize(256, 0xff);
    let region = RegionLayout::check(&bytes, 16384).unwrap();
    assert_eq!(region.slot_offset(1), Some(4096 + 2048));
    assert_eq!((region.host_line_bytes, region.abi_minor), (64, 9));
    let driver = GuestDriver::check(&bytes, &region).unwrap().unwrap();
    assert_eq!(driver, GuestDriver { features: FEATURES, abi_minor: 9, line_bytes: 64 });
}

#[test]
fn new_reader_sees_only_what_an_older_writer_declared() {
    // The writer of this line knew only the fields up to `declared` bytes. The rest of the line
    // contains meaningless bytes.
    let line = [0xffu8; LINE_BYTES];
    let seen = |declared| GuestLine::from_bytes(&line, declared);
    assert_eq!(seen(7), GuestLine::default());
    assert!(seen(8).context.is_some() && seen(8).preempt_count.is_none());
    // The address is useless without its mask.
    let mask_end = offset_of!(paracord_guest_line, preempt_count_mask) as u32 + 4;
    assert_eq!(seen(mask_end - 1).preempt_count, None);
    assert_eq!(seen(mask_end).preempt_count, Some((u64::MAX, u32::MAX)));
    assert_eq!((seen(mask_end).perf_request, seen(mask_end).kicks), (None, None));
    let all = seen(LINE_BYTES as u32);
    assert_eq!((all.perf_request, all.kicks), (Some(1024), Some(u32::MAX)));
    let context = all.context.unwrap();
    assert_eq!((context.task_class, context.task_prio), (0, 139));
}

#[test]
fn guest_half_of_the_header() {
    let region = check(&header()).unwrap();
    let guest = |features: u32, major: u16, line: u32| {
        let mut bytes = header();
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(offset_of!(paracord_header, guest_features), &features.to_le_bytes());
        put(offset_of!(paracord_header, guest_abi_major), &major.to_le_bytes());
        put(offset_of!(paracord_header, guest_line_bytes), &line.to_le_bytes());
        GuestDriver::check(&bytes, &region)
    };
    assert_eq!(guest(0, 77, 0), Ok(None));
    assert_eq!(guest(1, 2, 64), Err(AbiError::GuestMajor { found: 2 }));
    assert_eq!(guest(1, 1, 7), Err(AbiError::GuestLineBytes { found: 7 }));
    assert_eq!(guest(u32::MAX, 1, 64).unwrap().unwrap().features, FEATURES);
}

#[test]
fn host_boost_lies_where_the_header_says() {
    let bytes =
        HostBoost { state: 1, reasons: 4, flags: 0, boosts: 0x01020304, throttles: 5 }.to_bytes();
    assert_eq!(bytes, [1, 4, 0, 0, 4, 3, 2, 1, 5, 0, 0, 0]);
}

#[test]
fn host_place_lies_behind_the_boost_part() {
    let place = HostPlace {
        capacity: 0x0102,
        frequency: 0x0304,
        physical_cpu: 5,
        cluster: 1,
        pressure: 7,
        domain: Some(2),
        domain_table: 0x0a0b_0c0d,
    };
    let bytes = place.to_bytes();
    assert_eq!(bytes[..16], [2, 1, 4, 3, 5, 0, 0, 0, 1, 0, 0, 0, 7, 0, 3, 0]);
    assert_eq!(bytes[16..28], [0; 12], "the sensor's own part");
    assert_eq!(bytes[28..], [0x0d, 0x0c, 0x0b, 0x0a]);
    assert_eq!(HOST_BOOST_BYTES + bytes.len(), 44);
    assert_eq!(HostPlace::UNKNOWN.to_bytes()[4..12], [0xff; 8]);
}

/// A short fuzz test: whatever a guest or another user writes, the checks do not panic, and they
/// accept no layout that reaches outside of the region. The fuzz target runs longer.
#[test]
fn random_bytes_never_pass_a_bound() {
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let mut accepted = 0;
    for _ in 0..200_000 {
        let mut bytes = header();
        for _ in 0..random() % 4 {
            // Half of the changes hit the host's fields, with small numbers or random bytes.
            let at = (random() % 124) as usize;
            let value = if random() % 2 == 0 { random() } else { random() % 8192 } as u32;
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        let mapped = if random() % 2 == 0 { region_bytes(4) } else { random() % 100_000 };
        if let Ok(region) = RegionLayout::check(&bytes, mapped) {
            accepted += 1;
            let last = region.slot_offset(region.slot_count - 1).unwrap();
            assert!(last + 2 * LINE_BYTES as u64 <= mapped);
            let domain = region.domain_count.checked_sub(1).and_then(|i| region.domain_offset(i));
            assert!(
                domain.is_none_or(|at| at >= 128 && at + 192 <= region.slot_offset(0).unwrap())
            );
            if let Ok(Some(driver)) = GuestDriver::check(&bytes, &region) {
                assert!(driver.line_bytes <= 64 && driver.features & !region.host_features == 0);
            }
        }
        let mut line = [0u8; LINE_BYTES];
        line.iter_mut().for_each(|byte| *byte = random() as u8);
        let line = GuestLine::from_bytes(&line, random() as u32 % 70);
        assert!(line.perf_request.unwrap_or(0) <= 1024 && line.perf_limit.unwrap_or(0) <= 1024);
    }
    assert!(accepted > 10_000, "the generator must also produce valid headers: {accepted}");
}
