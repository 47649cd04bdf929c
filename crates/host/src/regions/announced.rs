// SPDX-License-Identifier: GPL-2.0-only
//! A region that a guest has created in its own memory and has announced (bpf/announce.h).
//!
//! The sensor reads and writes such a region in the context of the vCPUs. The daemon sees only a
//! copy of the header and never accesses the guest's memory, so a guest whose memory is slow or
//! gone delays nobody.

use paracord_abi::{AbiError, GuestDriver, LINE_BYTES, RegionLayout, layout};
use paracord_sensor::Announced;

/// Name that is shown in place of the name of a region file. No region file can have this name.
pub const NAME: &str = "(guest memory)";

/// A checked announcement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnouncedRegion {
    /// Guest-physical address of the region's first byte.
    pub gpa: u64,
    /// Layout of the region.
    pub layout: RegionLayout,
    /// Declaration of the guest's driver.
    pub driver: Option<GuestDriver>,
    /// `true`: the sensor writes the host line of each vCPU (boost state, CPU speed) into this
    /// region.
    pub has_host_line: bool,
    /// `true`: the sensor writes the host's performance domains into this region.
    pub has_domains: bool,
    /// `true`: the guest makes requests for counters in this region.
    pub has_counters: bool,
}

/// The kinds of data that the sensor may write into the guest's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writes {
    /// `true`: the sensor may write host lines.
    pub lines: bool,
    /// `true`: the sensor may write performance domains. This has no effect without `lines`.
    pub domains: bool,
    /// `true`: the sensor may write answers to requests for counters. This has no effect without
    /// `lines`.
    pub answers: bool,
}

/// Features that need performance domains in the guest's memory.
const NEED_DOMAINS: u32 = layout::PARACORD_F_PERF_REQUEST | layout::PARACORD_F_CAPACITY;
/// Features that need host lines in the guest's memory.
const NEED_HOST_LINE: u32 = layout::PARACORD_F_KICK | layout::PARACORD_F_PMU | NEED_DOMAINS;

impl AnnouncedRegion {
    /// Checks the header in an announcement.
    ///
    /// The size of the region is not checked, because the sensor translates the address of each
    /// slot separately, and refuses addresses that are not memory of the guest.
    ///
    /// # Errors
    /// [`AbiError`] if the header is refused.
    pub fn check(announced: &Announced, writes: Writes) -> Result<AnnouncedRegion, AbiError> {
        let mut layout = RegionLayout::check(&announced.header, u64::MAX)?;
        // The guest has also written the host's part of the header. Remove features that the host
        // does not offer.
        layout.host_features &= layout::PARACORD_ANNOUNCED_FEATURES;
        // The sensor writes only whole host lines. Drivers before ABI 1.4 declare shorter ones. The
        // sensor translates only the address of the guest line, so the host line must lie in the
        // same page: behind the last page of a memory slot, the VMM's memory may contain anything.
        let has_host_line = writes.lines
            && layout.host_line_bytes as usize >= LINE_BYTES
            && is_multiple_of_both_lines(layout.slot_offset_bytes)
            && is_multiple_of_both_lines(layout.slot_stride_bytes);
        if !has_host_line {
            layout.host_features &= !NEED_HOST_LINE;
        }
        let has_room = writes.domains
            && layout.domain_count == layout::PARACORD_DOMAINS_MAX as u16
            && (0..layout.domain_count)
                .all(|index| layout.domain_offset(index) == own_place(index));
        if !has_room {
            layout.host_features &= !NEED_DOMAINS;
        }
        // The PMU area at the end of the slot must also lie in the page of the guest line.
        let has_area = writes.answers
            && [layout.slot_offset_bytes, layout.slot_stride_bytes]
                .iter()
                .all(|offset| offset % layout::PARACORD_SLOT_STRIDE_BYTES == 0);
        if !has_area {
            layout.host_features &= !layout::PARACORD_F_PMU;
        }
        let driver = GuestDriver::check(&announced.header, &layout)?;
        let accepted = driver.map_or(0, |driver| driver.features);
        let has_domains = accepted & NEED_DOMAINS != 0;
        let has_counters = accepted & layout::PARACORD_F_PMU != 0;
        let gpa = announced.gpa;
        Ok(AnnouncedRegion { gpa, layout, driver, has_host_line, has_domains, has_counters })
    }

    /// Guest-physical address of a vCPU's slot. `None` if there is no such slot.
    pub fn slot_gpa(&self, vcpu_id: u32) -> Option<u64> {
        self.gpa.checked_add(self.layout.slot_offset(vcpu_id)?)
    }
}

/// Whether each slot at a multiple of `offset` has both of its lines in one page.
fn is_multiple_of_both_lines(offset: u32) -> bool {
    offset % (2 * LINE_BYTES as u32) == 0
}

/// Offset at which the sensor writes domain `index`.
fn own_place(index: u16) -> Option<u64> {
    let stride = u64::from(layout::PARACORD_DOMAIN_STRIDE_BYTES);
    Some(u64::from(layout::PARACORD_DOMAIN_OFFSET_BYTES) + u64::from(index) * stride)
}

#[cfg(test)]
mod tests {
    use super::*;
    use paracord_abi::{HEADER_BYTES, new_region};

    fn announced(features: u32, guest_features: u32) -> Announced {
        let region = new_region(2, features, 0, &[]).unwrap();
        let mut header: [u8; HEADER_BYTES] = region[..HEADER_BYTES].try_into().unwrap();
        let guest = std::mem::offset_of!(layout::paracord_header, guest_features);
        header[guest..guest + 4].copy_from_slice(&guest_features.to_le_bytes());
        header[guest + 4..guest + 6].copy_from_slice(&1u16.to_le_bytes());
        header[guest + 8..guest + 12].copy_from_slice(&64u32.to_le_bytes());
        Announced { gpa: 0x10_0000, header }
    }

    const ALL: Writes = Writes { lines: true, domains: true, answers: true };
    const NOTHING: Writes = Writes { lines: false, domains: false, answers: false };

    #[test]
    fn slots_lie_behind_the_announced_address() {
        let region = AnnouncedRegion::check(&announced(layout::PARACORD_F_BOOST, 1), ALL).unwrap();
        assert_eq!(region.slot_gpa(1), Some(0x10_0000 + 4096 + 1024));
        assert_eq!(region.slot_gpa(2), None);
        let last = AnnouncedRegion { gpa: u64::MAX - 4095, ..region };
        assert_eq!(last.slot_gpa(0), None);
    }

    #[test]
    fn a_guest_gets_no_host_line_if_the_host_may_not_write_or_the_driver_is_older() {
        let mut announced = announced(u32::MAX, u32::MAX);
        let without = layout::PARACORD_F_BOOST | layout::PARACORD_F_PREEMPT_COUNT;
        let of = |announced: &Announced, writes| {
            let region = AnnouncedRegion::check(announced, writes).unwrap();
            (region.has_host_line, region.driver.unwrap().features)
        };
        let with = without | layout::PARACORD_F_KICK | layout::PARACORD_F_PMU;
        assert_eq!(of(&announced, ALL), (true, with));
        assert_eq!(of(&announced, NOTHING), (false, without));
        let bytes = std::mem::offset_of!(layout::paracord_header, host_line_bytes);
        announced.header[bytes..bytes + 4].copy_from_slice(&1u32.to_le_bytes());
        assert_eq!(of(&announced, ALL), (false, without));
    }

    /// The guest line lies at the end of a page, and the host line would lie in the next page.
    #[test]
    fn no_line_is_written_behind_the_page_of_its_slot() {
        let features = layout::PARACORD_F_BOOST | layout::PARACORD_F_KICK;
        let offset = std::mem::offset_of!(layout::paracord_header, slot_offset_bytes);
        let stride = std::mem::offset_of!(layout::paracord_header, slot_stride_bytes);
        let bytes = std::mem::offset_of!(layout::paracord_header, region_bytes);
        for (at, value) in [(offset, 8192 - 64_u32), (stride, 1024 + 64)] {
            let mut announced = announced(features, features);
            announced.header[bytes..bytes + 8].copy_from_slice(&0x10000_u64.to_le_bytes());
            announced.header[at..at + 4].copy_from_slice(&value.to_le_bytes());
            let region = AnnouncedRegion::check(&announced, ALL).unwrap();
            assert!(!region.has_host_line, "{value}");
            assert_eq!(region.driver.unwrap().features, layout::PARACORD_F_BOOST);
        }
    }

    /// The PMU area is at the end of a slot. The slot has 1024 bytes and must lie in one page.
    #[test]
    fn counters_are_served_only_if_each_slot_lies_in_one_page() {
        let offset = std::mem::offset_of!(layout::paracord_header, slot_offset_bytes);
        let stride = std::mem::offset_of!(layout::paracord_header, slot_stride_bytes);
        let bytes = std::mem::offset_of!(layout::paracord_header, region_bytes);
        let features = layout::PARACORD_F_BOOST | layout::PARACORD_F_PMU;
        for (at, value, serves) in [
            (stride, 1024_u32, true),
            (stride, 2048, true),
            (stride, 128, false),
            (stride, 1024 + 128, false),
            (offset, 4096 + 128, false),
        ] {
            let mut announced = announced(features, features);
            announced.header[bytes..bytes + 8].copy_from_slice(&0x10000_u64.to_le_bytes());
            announced.header[at..at + 4].copy_from_slice(&value.to_le_bytes());
            let of = |writes| AnnouncedRegion::check(&announced, writes).unwrap();
            assert_eq!((of(ALL).has_host_line, of(ALL).has_counters), (true, serves), "{value}");
            assert!(!of(Writes { answers: false, ..ALL }).has_counters);
        }
    }

    #[test]
    fn domains_are_written_where_the_abi_says_and_nowhere_else() {
        let features = layout::PARACORD_F_BOOST | NEED_DOMAINS;
        let of = |announced: &Announced, writes| {
            let region = AnnouncedRegion::check(announced, writes).unwrap();
            (region.has_domains, region.driver.unwrap().features)
        };
        let mut announced = announced(features, features);
        assert_eq!(of(&announced, ALL), (false, layout::PARACORD_F_BOOST), "no room for domains");
        declare_domains(&mut announced, layout::PARACORD_DOMAIN_OFFSET_BYTES);
        assert_eq!(of(&announced, ALL), (true, features));
        let lines = Writes { domains: false, ..ALL };
        assert_eq!(of(&announced, lines), (false, layout::PARACORD_F_BOOST));
        declare_domains(&mut announced, layout::PARACORD_DOMAIN_OFFSET_BYTES + 64);
        assert_eq!(of(&announced, ALL), (false, layout::PARACORD_F_BOOST));
    }

    /// Declares all domains, from `offset` on.
    fn declare_domains(announced: &mut Announced, offset: u32) {
        let (count, stride) =
            (layout::PARACORD_DOMAINS_MAX as u16, layout::PARACORD_DOMAIN_STRIDE_BYTES as u16);
        let at = std::mem::offset_of!(layout::paracord_header, domain_offset_bytes);
        announced.header[at..at + 4].copy_from_slice(&offset.to_le_bytes());
        announced.header[at + 4..at + 6].copy_from_slice(&count.to_le_bytes());
        announced.header[at + 6..at + 8].copy_from_slice(&stride.to_le_bytes());
    }

    /// A short fuzz test: a valid header with a few changed bytes. Whatever a header contains, the
    /// sensor may write only where the ABI allows, and no address of a slot may exceed 64 bits.
    #[test]
    fn whatever_a_guest_announces_is_checked() {
        let mut state = 1_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize
        };
        let mut valid = announced(u32::MAX, u32::MAX);
        declare_domains(&mut valid, layout::PARACORD_DOMAIN_OFFSET_BYTES);
        let mut accepted = 0;
        for _ in 0..200_000 {
            let mut announced = valid;
            announced.gpa = if random() % 2 == 0 { u64::MAX << 12 } else { 0x10_0000 };
            for _ in 0..random() % 4 {
                announced.header[random() % HEADER_BYTES] = random() as u8;
            }
            let Ok(region) = AnnouncedRegion::check(&announced, ALL) else { continue };
            accepted += 1;
            let features = region.driver.map_or(0, |driver| driver.features);
            assert_eq!(features & !layout::PARACORD_ANNOUNCED_FEATURES, 0);
            assert!(features & NEED_HOST_LINE == 0 || region.has_host_line);
            assert!(features & NEED_DOMAINS == 0 || region.has_domains);
            if region.has_domains {
                assert_eq!(region.layout.domain_offset(15), own_place(15));
            }
            for vcpu_id in [0, 1, region.layout.slot_count - 1, u32::MAX] {
                let Some(slot) = region.slot_gpa(vcpu_id) else { continue };
                assert!(slot >= region.gpa);
                let end = slot % 4096 + 2 * LINE_BYTES as u64;
                assert!(!region.has_host_line || end <= 4096, "the host line is in another page");
                let end = slot % 4096 + u64::from(layout::PARACORD_SLOT_STRIDE_BYTES);
                assert!(!region.has_counters || end <= 4096, "the PMU area is in another page");
            }
        }
        assert!(accepted > 1000, "{accepted} of the headers were accepted");
    }

    #[test]
    fn a_page_that_is_no_region_is_refused() {
        let page = Announced { gpa: 4096, header: [7; HEADER_BYTES] };
        let refused = AnnouncedRegion::check(&page, ALL);
        assert!(matches!(refused, Err(AbiError::Magic { .. })), "{refused:?}");
    }
}
