// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The region's header, which every reader checks.

use crate::domain::{DOMAIN_BYTES, Domain, DomainError, table_id};
use crate::layout::{self, paracord_header};
use crate::{LINE_BYTES, read_field, write_field};

/// Size of the header that this version knows.
pub const HEADER_BYTES: usize = layout::PARACORD_HEADER_BYTES as usize;

/// Why a region is refused. There is one variant per reason, and each variant contains the value
/// that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AbiError {
    /// There are too few bytes for a header.
    #[error("region too small: {found_bytes} bytes, a header needs {HEADER_BYTES}")]
    TooSmall {
        /// Number of bytes.
        found_bytes: u64,
    },
    /// This is not a region.
    #[error("not a paracord region: magic {found:#018x}")]
    Magic {
        /// The value in the place of the magic number.
        found: u64,
    },
    /// The region has another major version.
    #[error("region has ABI version {found}, this paracord has {}", layout::PARACORD_ABI_MAJOR)]
    Major {
        /// The region's major version.
        found: u16,
    },
    /// The header declares fewer bytes than version 1.0 has.
    #[error("header of {found} bytes, version 1.0 has {HEADER_BYTES}")]
    HeaderBytes {
        /// Declared size.
        found: u32,
    },
    /// The header declares more bytes than are mapped.
    #[error("region declares {declared} bytes, but only {mapped} are there")]
    RegionBytes {
        /// Declared size.
        declared: u64,
        /// Size of the file or mapping.
        mapped: u64,
    },
    /// No slots, or more slots than any reader accepts.
    #[error("{found} slots, allowed are 1 to {}", layout::PARACORD_SLOTS_MAX)]
    SlotCount {
        /// Declared number of slots.
        found: u32,
    },
    /// The distance between slots is too small, too large or not a multiple of a line.
    #[error(
        "slot stride of {found} bytes, allowed are multiples of {LINE_BYTES} from {} to {}",
        2 * LINE_BYTES,
        layout::PARACORD_SLOT_STRIDE_MAX_BYTES
    )]
    SlotStride {
        /// Declared distance.
        found: u32,
    },
    /// The first slot does not begin at a multiple of a line.
    #[error("first slot at byte {found}, must be a multiple of {LINE_BYTES}")]
    SlotOffset {
        /// Declared offset.
        found: u32,
    },
    /// The first slot lies in the header.
    #[error("first slot at byte {slot_offset} overlaps the header of {header_bytes} bytes")]
    Overlap {
        /// Declared offset of slot 0.
        slot_offset: u32,
        /// Declared size of the header.
        header_bytes: u32,
    },
    /// The last slot ends beyond the region.
    #[error("slots end at byte {end}, but the region ends at {region_bytes}")]
    SlotsOutside {
        /// End of the last slot.
        end: u64,
        /// Declared size of the region.
        region_bytes: u64,
    },
    /// The host line in each slot is too small for a single field.
    #[error("host line of {found} bytes")]
    HostLineBytes {
        /// Declared size.
        found: u32,
    },
    /// The table of performance domains is not between the header and the slots.
    #[error(
        "{count} performance domains at byte {offset}, {stride} bytes apart, do not fit before the slots"
    )]
    Domains {
        /// Declared number of domains.
        count: u16,
        /// Declared offset of the first domain.
        offset: u32,
        /// Declared distance between domains.
        stride: u16,
    },
    /// A performance domain is refused.
    #[error(transparent)]
    Domain(#[from] DomainError),
    /// The guest's driver has another major version.
    #[error(
        "guest driver has ABI version {found}, this paracord has {}",
        layout::PARACORD_ABI_MAJOR
    )]
    GuestMajor {
        /// The driver's major version.
        found: u16,
    },
    /// The guest's line is too small for the context.
    #[error("guest line of {found} bytes, but the context alone has 8")]
    GuestLineBytes {
        /// Declared size.
        found: u32,
    },
}

/// Where the parts of a region are, according to its checked header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionLayout {
    /// Size of the whole region.
    pub region_bytes: u64,
    /// Offset of the first slot.
    pub slot_offset_bytes: u32,
    /// Distance between slots.
    pub slot_stride_bytes: u32,
    /// Number of slots, 1..=4096.
    pub slot_count: u32,
    /// The features (`PARACORD_F_*`) that the host offers.
    pub host_features: u32,
    /// Used size of each host line, at most [`LINE_BYTES`].
    pub host_line_bytes: u32,
    /// Minor version of the header's writer.
    pub abi_minor: u16,
    /// Offset of the first performance domain.
    pub domain_offset_bytes: u32,
    /// Distance between domains.
    pub domain_stride_bytes: u16,
    /// Number of domains, 0..=16.
    pub domain_count: u16,
}

impl RegionLayout {
    /// Checks a region's header, which is in the first [`HEADER_BYTES`] of `copy`. `mapped_bytes`
    /// is the size of the file or mapping.
    ///
    /// # Errors
    /// The first [`AbiError`] that applies.
    pub fn check(copy: &[u8], mapped_bytes: u64) -> Result<RegionLayout, AbiError> {
        let Some(header) = copy.first_chunk::<HEADER_BYTES>() else {
            return Err(AbiError::TooSmall { found_bytes: copy.len() as u64 });
        };
        if mapped_bytes < HEADER_BYTES as u64 {
            return Err(AbiError::TooSmall { found_bytes: mapped_bytes });
        }
        let magic = read_field!(header, u64, paracord_header, magic);
        if magic != layout::PARACORD_MAGIC {
            return Err(AbiError::Magic { found: magic });
        }
        let major = read_field!(header, u16, paracord_header, abi_major);
        if u32::from(major) != layout::PARACORD_ABI_MAJOR {
            return Err(AbiError::Major { found: major });
        }
        let header_bytes = read_field!(header, u32, paracord_header, header_bytes);
        if (header_bytes as usize) < HEADER_BYTES {
            return Err(AbiError::HeaderBytes { found: header_bytes });
        }
        let region_bytes = read_field!(header, u64, paracord_header, region_bytes);
        if region_bytes > mapped_bytes {
            return Err(AbiError::RegionBytes { declared: region_bytes, mapped: mapped_bytes });
        }
        let slot_count = read_field!(header, u32, paracord_header, slot_count);
        if slot_count == 0 || slot_count > layout::PARACORD_SLOTS_MAX {
            return Err(AbiError::SlotCount { found: slot_count });
        }
        let stride = read_field!(header, u32, paracord_header, slot_stride_bytes);
        let stride_max = layout::PARACORD_SLOT_STRIDE_MAX_BYTES;
        if stride < 2 * LINE_BYTES as u32 || stride > stride_max || stride % LINE_BYTES as u32 != 0
        {
            return Err(AbiError::SlotStride { found: stride });
        }
        let offset = read_field!(header, u32, paracord_header, slot_offset_bytes);
        if offset % LINE_BYTES as u32 != 0 {
            return Err(AbiError::SlotOffset { found: offset });
        }
        if offset < header_bytes {
            return Err(AbiError::Overlap { slot_offset: offset, header_bytes });
        }
        // The sum is at most 2^32 + 2^12 * 2^16, so it cannot overflow.
        let end = u64::from(offset) + u64::from(slot_count) * u64::from(stride);
        if end > region_bytes {
            return Err(AbiError::SlotsOutside { end, region_bytes });
        }
        let (domain_offset, domain_stride, domain_count) = domain_table(header, offset)?;
        let host_line_bytes = read_field!(header, u32, paracord_header, host_line_bytes);
        if host_line_bytes == 0 {
            return Err(AbiError::HostLineBytes { found: host_line_bytes });
        }
        Ok(RegionLayout {
            region_bytes,
            slot_offset_bytes: offset,
            slot_stride_bytes: stride,
            slot_count,
            host_features: read_field!(header, u32, paracord_header, host_features),
            host_line_bytes: host_line_bytes.min(LINE_BYTES as u32),
            abi_minor: read_field!(header, u16, paracord_header, abi_minor),
            domain_offset_bytes: domain_offset,
            domain_stride_bytes: domain_stride,
            domain_count,
        })
    }

    /// Offset of domain `index` in the region; `None` if there is no such domain.
    pub fn domain_offset(&self, index: u16) -> Option<u64> {
        (index < self.domain_count).then(|| {
            u64::from(self.domain_offset_bytes)
                + u64::from(index) * u64::from(self.domain_stride_bytes)
        })
    }

    /// Offset of slot `vcpu_id` in the region; `None` if there is no such slot.
    pub fn slot_offset(&self, vcpu_id: u32) -> Option<u64> {
        (vcpu_id < self.slot_count).then(|| {
            u64::from(self.slot_offset_bytes)
                + u64::from(vcpu_id) * u64::from(self.slot_stride_bytes)
        })
    }
}

/// Offset, distance and number of the domains that a header declares. `slots` is the offset of the
/// first slot.
fn domain_table(header: &[u8; HEADER_BYTES], slots: u32) -> Result<(u32, u16, u16), AbiError> {
    let count = read_field!(header, u16, paracord_header, domain_count);
    let offset = read_field!(header, u32, paracord_header, domain_offset_bytes);
    let stride = read_field!(header, u16, paracord_header, domain_stride_bytes);
    let end = u64::from(offset) + u64::from(count) * u64::from(stride);
    let fits = u32::from(count) <= layout::PARACORD_DOMAINS_MAX
        && usize::from(stride) >= DOMAIN_BYTES
        && usize::from(stride) % LINE_BYTES == 0
        && offset as usize >= HEADER_BYTES
        && offset as usize % LINE_BYTES == 0
        && end <= u64::from(slots);
    if count != 0 && !fits {
        return Err(AbiError::Domains { count, offset, stride });
    }
    Ok((offset, stride, count))
}

/// The checked declaration of the guest's driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuestDriver {
    /// The features (`PARACORD_F_*`) that the guest has accepted and the host offers.
    pub features: u32,
    /// Minor version of the driver.
    pub abi_minor: u16,
    /// Used size of each guest line, 8 to [`LINE_BYTES`].
    pub line_bytes: u32,
}

impl GuestDriver {
    /// Checks the guest line of a copied header. Returns `None` if the guest has no driver.
    ///
    /// # Errors
    /// [`AbiError::TooSmall`], [`AbiError::GuestMajor`], [`AbiError::GuestLineBytes`].
    pub fn check(copy: &[u8], region: &RegionLayout) -> Result<Option<GuestDriver>, AbiError> {
        let Some(header) = copy.first_chunk::<HEADER_BYTES>() else {
            return Err(AbiError::TooSmall { found_bytes: copy.len() as u64 });
        };
        let accepted = read_field!(header, u32, paracord_header, guest_features);
        if accepted == 0 {
            return Ok(None);
        }
        let major = read_field!(header, u16, paracord_header, guest_abi_major);
        if u32::from(major) != layout::PARACORD_ABI_MAJOR {
            return Err(AbiError::GuestMajor { found: major });
        }
        let line_bytes = read_field!(header, u32, paracord_header, guest_line_bytes);
        if line_bytes < 8 {
            return Err(AbiError::GuestLineBytes { found: line_bytes });
        }
        Ok(Some(GuestDriver {
            features: accepted & region.host_features,
            abi_minor: read_field!(header, u16, paracord_header, guest_abi_minor),
            line_bytes: line_bytes.min(LINE_BYTES as u32),
        }))
    }
}

/// Size of a region with `slots` slots. It is a power of two, as a PCI BAR must be.
pub fn region_bytes(slots: u32) -> u64 {
    let end = u64::from(layout::PARACORD_SLOT_OFFSET_BYTES)
        + u64::from(slots) * u64::from(layout::PARACORD_SLOT_STRIDE_BYTES);
    end.next_power_of_two()
}

/// The first bytes of a new region, up to its slots: the header and the performance domains. All
/// other bytes of the region are zero.
///
/// # Errors
/// [`AbiError::SlotCount`], [`DomainError::Count`].
pub fn new_region(
    slots: u32,
    host_features: u32,
    stale_boost_kick_us: u32,
    domains: &[Domain],
) -> Result<Vec<u8>, AbiError> {
    if slots == 0 || slots > layout::PARACORD_SLOTS_MAX {
        return Err(AbiError::SlotCount { found: slots });
    }
    if domains.len() > layout::PARACORD_DOMAINS_MAX as usize {
        return Err(DomainError::Count { found: domains.len() }.into());
    }
    let mut bytes = vec![0u8; layout::PARACORD_SLOT_OFFSET_BYTES as usize];
    write_field!(bytes, layout::PARACORD_MAGIC, paracord_header, magic);
    write_field!(bytes, layout::PARACORD_ABI_MAJOR as u16, paracord_header, abi_major);
    write_field!(bytes, layout::PARACORD_ABI_MINOR as u16, paracord_header, abi_minor);
    write_field!(bytes, layout::PARACORD_HEADER_BYTES, paracord_header, header_bytes);
    write_field!(bytes, region_bytes(slots), paracord_header, region_bytes);
    write_field!(bytes, layout::PARACORD_SLOT_OFFSET_BYTES, paracord_header, slot_offset_bytes);
    write_field!(bytes, layout::PARACORD_SLOT_STRIDE_BYTES, paracord_header, slot_stride_bytes);
    write_field!(bytes, slots, paracord_header, slot_count);
    write_field!(bytes, host_features, paracord_header, host_features);
    write_field!(bytes, LINE_BYTES as u32, paracord_header, host_line_bytes);
    write_field!(bytes, stale_boost_kick_us, paracord_header, stale_boost_kick_us);
    if !domains.is_empty() {
        let (offset, stride) =
            (layout::PARACORD_DOMAIN_OFFSET_BYTES, layout::PARACORD_DOMAIN_STRIDE_BYTES);
        write_field!(bytes, offset, paracord_header, domain_offset_bytes);
        write_field!(bytes, stride as u16, paracord_header, domain_stride_bytes);
        write_field!(bytes, domains.len() as u16, paracord_header, domain_count);
        let table = table_id(domains);
        let places = bytes[offset as usize..].chunks_exact_mut(stride as usize);
        for (place, domain) in places.zip(domains) {
            place.copy_from_slice(&domain.in_table(table));
        }
    }
    Ok(bytes)
}

/// Names of the features in a mask, for messages. Unknown bits are ignored.
pub fn feature_names(mask: u32) -> Vec<&'static str> {
    const NAMES: [(u32, &str); 7] = [
        (layout::PARACORD_F_BOOST, "boost"),
        (layout::PARACORD_F_PREEMPT_COUNT, "preempt_count"),
        (layout::PARACORD_F_KICK, "kick"),
        (layout::PARACORD_F_PERF_REQUEST, "perf_request"),
        (layout::PARACORD_F_CAPACITY, "capacity"),
        (layout::PARACORD_F_PMU, "pmu"),
        (layout::PARACORD_F_PMU_DOORBELL, "pmu_doorbell"),
    ];
    NAMES.into_iter().filter(|(bit, _)| mask & bit != 0).map(|(_, name)| name).collect()
}
