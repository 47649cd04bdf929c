// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The region that a host and a guest share: layout and checks of untrusted bytes.
//!
//! [`layout`] mirrors `abi/paracord_abi.h`, which documents every field. The other modules convert
//! untrusted bytes into checked values. The caller copies the bytes once, and then calls
//! [`RegionLayout::check`], [`GuestDriver::check`], [`Domain::from_bytes`],
//! [`GuestLine::from_bytes`] or [`PmuAsk::from_bytes`] on the copy.
//!
//! A field that a newer minor version has added may be read only if it ends inside the bytes that
//! the writer of the line has declared ([`field_in`]).
#![forbid(unsafe_code)]

mod domain;
mod header;
mod line;
mod pmu;

/// Generated mirror of `abi/paracord_abi.h`.
#[allow(missing_docs, non_camel_case_types, clippy::all)]
#[rustfmt::skip]
#[path = "generated.rs"]
pub mod layout;

pub use domain::{DOMAIN_BYTES, Domain, DomainError, table_id, table_of};
pub use header::{
    AbiError, GuestDriver, HEADER_BYTES, RegionLayout, feature_names, new_region, region_bytes,
};
pub use line::{
    GuestContext, GuestLine, HOST_BOOST_BYTES, HOST_PLACE_BYTES, HOST_PLACE_MIN_BYTES, HostBoost,
    HostPlace, LINE_BYTES,
};
pub use pmu::{
    COUNTERS, CounterCounts, CounterWant, EventError, EventOffer, OFFER_BYTES, PMU_GUEST_BYTES,
    PMU_GUEST_OFFSET, PMU_HOST_BYTES, PMU_HOST_OFFSET, PMU_SERVED_OFFSET, PmuAnswer, PmuAsk,
    ServedAt, event_names, known_events, offer_events,
};

/// Whether a field ends inside the bytes that the writer has declared, so that it may be read
/// (`PARACORD_FIELD_IN`).
pub const fn field_in(offset_bytes: usize, size_bytes: usize, declared_bytes: usize) -> bool {
    match offset_bytes.checked_add(size_bytes) {
        Some(end) => end <= declared_bytes,
        None => false,
    }
}

/// Reads a little-endian integer at the offset of a field. The layout assertions ensure that the
/// integer is inside the caller's buffer, which has a fixed size.
macro_rules! read_field {
    ($bytes:expr, $type:ty, $structure:ty, $field:ident) => {{
        let at = core::mem::offset_of!($structure, $field);
        let mut value = [0u8; core::mem::size_of::<$type>()];
        value.copy_from_slice(&$bytes[at..at + core::mem::size_of::<$type>()]);
        <$type>::from_le_bytes(value)
    }};
}

/// Stores a little-endian integer at the offset of a field.
macro_rules! write_field {
    ($bytes:expr, $value:expr, $structure:ty, $field:ident) => {{
        let at = core::mem::offset_of!($structure, $field);
        let value = $value.to_le_bytes();
        $bytes[at..at + value.len()].copy_from_slice(&value);
    }};
}

pub(crate) use {read_field, write_field};
