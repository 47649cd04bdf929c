// SPDX-License-Identifier: GPL-2.0-only
//! A region in the guest's own memory, which the guest has announced (bpf/announce.h).
//!
//! The sensor reads such a region in the context of the vCPUs. The daemon sees a copy of the header
//! and never accesses the guest's memory, so a guest whose memory is slow or gone delays nobody.

use paracord_abi::{AbiError, GuestDriver, RegionLayout, layout};
use paracord_sensor::Announced;

/// Name that stands for the name of a region file. No region file can have it.
pub const NAME: &str = "(guest memory)";

/// A checked announcement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnouncedRegion {
    /// Guest-physical address of the first byte.
    pub gpa: u64,
    /// Layout of the region.
    pub layout: RegionLayout,
    /// Declaration of the guest's driver.
    pub driver: Option<GuestDriver>,
}

impl AnnouncedRegion {
    /// Checks the header in an announcement.
    ///
    /// The size of the region is not checked against anything: the sensor translates the address of
    /// each slot by itself, and refuses addresses that are no memory of the guest.
    ///
    /// # Errors
    /// [`AbiError`] if the header is refused.
    pub fn check(announced: &Announced) -> Result<AnnouncedRegion, AbiError> {
        let mut layout = RegionLayout::check(&announced.header, u64::MAX)?;
        // The guest has written this part of the header, too.
        layout.host_features &= layout::PARACORD_ANNOUNCED_FEATURES;
        let driver = GuestDriver::check(&announced.header, &layout)?;
        Ok(AnnouncedRegion { gpa: announced.gpa, layout, driver })
    }

    /// Guest-physical address of a vCPU's slot. `None` if there is no such slot.
    pub fn slot_gpa(&self, vcpu_id: u32) -> Option<u64> {
        self.gpa.checked_add(self.layout.slot_offset(vcpu_id)?)
    }
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

    #[test]
    fn slots_lie_behind_the_announced_address() {
        let region = AnnouncedRegion::check(&announced(layout::PARACORD_F_BOOST, 1)).unwrap();
        assert_eq!(region.slot_gpa(1), Some(0x10_0000 + 4096 + 1024));
        assert_eq!(region.slot_gpa(2), None);
        let last = AnnouncedRegion { gpa: u64::MAX - 4095, ..region };
        assert_eq!(last.slot_gpa(0), None);
    }

    #[test]
    fn a_guest_gets_no_feature_for_which_the_host_would_write_into_its_memory() {
        let all = u32::MAX;
        let driver = AnnouncedRegion::check(&announced(all, all)).unwrap().driver.unwrap();
        assert_eq!(driver.features, layout::PARACORD_F_BOOST | layout::PARACORD_F_PREEMPT_COUNT);
    }

    #[test]
    fn a_page_that_is_no_region_is_refused() {
        let refused = AnnouncedRegion::check(&Announced { gpa: 4096, header: [7; HEADER_BYTES] });
        assert!(matches!(refused, Err(AbiError::Magic { .. })), "{refused:?}");
    }
}
