// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The part of AML (ACPI 6.5, chapter 20) that describes the devices of a machine. Each function
//! returns the bytes of one term.
//!
//! This is written here because acpi_tables, rust-vmm's crate, needs a newer Rust than this
//! workspace has.

use std::ops::Range;

const NAME_OP: u8 = 0x08;
const BYTE_PREFIX: u8 = 0x0a;
const DWORD_PREFIX: u8 = 0x0c;
const SCOPE_OP: u8 = 0x10;
const BUFFER_OP: u8 = 0x11;
const PACKAGE_OP: u8 = 0x12;
const DEVICE_OP: [u8; 2] = [0x5b, 0x82];

/// A name within its scope: four letters, digits or underscores.
pub type Segment = [u8; 4];

/// An integer of one byte.
pub fn integer(value: u8) -> Vec<u8> {
    match value {
        0 | 1 => vec![value], // ZeroOp and OneOp
        _ => vec![BYTE_PREFIX, value],
    }
}

/// The identifier of a type of device, as an integer: three letters and four hexadecimal digits,
/// compressed (19.3.4, EISAID in ASL).
pub fn eisa_id(letters: [u8; 3], number: u16) -> Vec<u8> {
    let [first, second, third] = letters.map(|letter| u32::from(letter - b'@'));
    let value = first << 26 | second << 21 | third << 16 | u32::from(number);
    let mut term = vec![DWORD_PREFIX];
    term.extend_from_slice(&value.to_be_bytes());
    term
}

/// A named value.
pub fn name(segment: Segment, value: &[u8]) -> Vec<u8> {
    [&[NAME_OP], &segment[..], value].concat()
}

/// A package, which is a list of values.
pub fn package(values: &[Vec<u8>]) -> Vec<u8> {
    with_length(&[PACKAGE_OP], &[&[values.len() as u8], values.concat().as_slice()].concat())
}

/// A device and the terms in it.
pub fn device(segment: Segment, contents: &[Vec<u8>]) -> Vec<u8> {
    with_length(&DEVICE_OP, &[&segment[..], &contents.concat()].concat())
}

/// Adds terms to a scope that exists.
pub fn scope(segment: Segment, contents: &[u8]) -> Vec<u8> {
    with_length(&[SCOPE_OP], &[&segment[..], contents].concat())
}

/// The resources of a device, as the buffer that _CRS returns: the descriptors and the end tag
/// (6.4.2.9), without its optional checksum. The result must be shorter than 256 bytes.
pub fn resources(descriptors: &[Vec<u8>]) -> Vec<u8> {
    let bytes = [descriptors.concat().as_slice(), &[0x79, 0]].concat();
    with_length(&[BUFFER_OP], &[integer(bytes.len() as u8), bytes].concat())
}

/// `count` ports from `base`, decoded with 16 address bits (6.4.2.5).
pub fn ports(base: u16, count: u8) -> Vec<u8> {
    let [low, high] = base.to_le_bytes();
    vec![0x47, 1, low, high, low, high, 1, count]
}

/// An interrupt that the device uses: edge-triggered, active high, not shared (6.4.3.6).
pub fn interrupt(gsi: u32) -> Vec<u8> {
    let mut descriptor = vec![0x89, 6, 0, 0b0011, 1];
    descriptor.extend_from_slice(&gsi.to_le_bytes());
    descriptor
}

/// Both ends of the range that a bridge forwards are fixed (6.4.3.5).
const FIXED_ENDS: u8 = 1 << 2 | 1 << 3;

/// The only bus of a host bridge, number 0 (6.4.3.5.3). The 16-bit fields are granularity, minimum,
/// maximum, translation and length.
pub fn bus_0() -> Vec<u8> {
    vec![0x88, 13, 0, 2, FIXED_ENDS, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0]
}

/// Memory that a host bridge forwards, writable and not cacheable (6.4.3.5.2). The window must not
/// be empty.
pub fn memory_window(window: Range<u32>) -> Vec<u8> {
    let mut descriptor = vec![0x87, 23, 0, 0, FIXED_ENDS, 1];
    for field in [0, window.start, window.end - 1, 0, window.end - window.start] {
        descriptor.extend_from_slice(&field.to_le_bytes());
    }
    descriptor
}

/// An opcode, then a length (PkgLength, 20.2.4) that counts itself and the contents, then the
/// contents. The whole term must be shorter than 4 KiB.
fn with_length(opcode: &[u8], contents: &[u8]) -> Vec<u8> {
    let mut term = opcode.to_vec();
    let length = contents.len() + 1;
    if length < 1 << 6 {
        term.push(length as u8);
    } else {
        let length = length + 1;
        assert!(length < 1 << 12, "a longer term would need a longer PkgLength");
        term.extend_from_slice(&[1 << 6 | (length & 0xf) as u8, (length >> 4) as u8]);
    }
    term.extend_from_slice(contents);
    term
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_counts_itself_and_grows_by_a_byte() {
        assert_eq!(scope(*b"_SB_", &[7; 58])[..2], [SCOPE_OP, 63]);
        assert_eq!(
            scope(*b"_SB_", &[7; 59])[..3],
            [SCOPE_OP, 1 << 6 | 1, 4],
            "length 65: four bytes, 59 bytes and the two of the length"
        );
    }

    #[test]
    fn identifiers_are_compressed_as_in_the_specification() {
        assert_eq!(eisa_id(*b"PNP", 0x0a03), [DWORD_PREFIX, 0x41, 0xd0, 0x0a, 0x03]);
    }

    #[test]
    fn descriptors_have_the_length_that_they_name() {
        for descriptor in [interrupt(4), bus_0(), memory_window(0xc000_0000..0xf000_0000)] {
            assert_eq!(descriptor.len(), 3 + usize::from(descriptor[1]), "{descriptor:x?}");
        }
        assert_eq!(ports(0x3f8, 8).len(), 1 + usize::from(ports(0x3f8, 8)[0] & 7));
        assert_eq!(memory_window(0x1000..0x3000)[22..], [0, 0x20, 0, 0], "length");
    }

    #[test]
    fn a_package_names_its_number_of_values() {
        assert_eq!(package(&[integer(5), integer(0)]), [PACKAGE_OP, 5, 2, BYTE_PREFIX, 5, 0]);
    }
}
