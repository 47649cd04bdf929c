// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Stores requests in paracord's shared region, as the guest's own driver would. The register write
//! causes a VM exit, and paracord's sensor on the host reads the region at that exit.

use core::mem::offset_of;

use paracord_abi::RegionLayout;
use paracord_abi::layout::{
    PARACORD_ABI_MAJOR, PARACORD_ABI_MINOR, PARACORD_F_PERF_REQUEST, PARACORD_LINE_BYTES,
    paracord_guest_line, paracord_header,
};

use super::backend::Backend;
use super::domain::Request;

/// The region, as the VMM has mapped it.
pub trait RegionMemory: Send + Sync {
    /// Stores a little-endian 32-bit word with a single store. The offset is a multiple of four,
    /// inside the region.
    fn store_u32(&self, offset_bytes: u64, value: u32);
}

/// Why a region cannot be used as a back end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegionBackendError {
    /// The host's daemon would not read requests from this region.
    #[error(
        "the region does not offer perf_request: create it on a host with CPU frequencies, without \
         --no-frequencies"
    )]
    NotOffered,
    /// The region has fewer slots than the device has vCPUs.
    #[error("the region has {slots} slots, but the device has {vcpus} vCPUs")]
    Slots {
        /// Slots in the region.
        slots: u32,
        /// vCPUs of the device.
        vcpus: u32,
    },
}

/// The back end. While it exists, the VMM acts as the region's guest driver. Do not load paracord's
/// module in that guest, because the module would declare itself as the driver.
#[derive(Debug)]
pub struct RegionBackend<M: RegionMemory> {
    memory: M,
    layout: RegionLayout,
}

impl<M: RegionMemory> RegionBackend<M> {
    /// Makes a back end for a region whose header was checked. Slot n belongs to vCPU n. Declares a
    /// driver whose only feature is performance requests.
    ///
    /// # Errors
    /// Any [`RegionBackendError`].
    pub fn new(
        layout: RegionLayout,
        vcpus: u32,
        memory: M,
    ) -> Result<RegionBackend<M>, RegionBackendError> {
        if layout.host_features & PARACORD_F_PERF_REQUEST == 0 {
            return Err(RegionBackendError::NotOffered);
        }
        if vcpus > layout.slot_count {
            return Err(RegionBackendError::Slots { slots: layout.slot_count, vcpus });
        }
        // An earlier VMM may have left requests in the region.
        for vcpu in 0..layout.slot_count {
            store_request(&memory, &layout, vcpu, 0);
        }
        let version = PARACORD_ABI_MAJOR | PARACORD_ABI_MINOR << 16;
        memory.store_u32(offset_of!(paracord_header, guest_abi_major) as u64, version);
        let line_bytes = offset_of!(paracord_header, guest_line_bytes) as u64;
        memory.store_u32(line_bytes, PARACORD_LINE_BYTES);
        // This store comes last, because the host reads the other fields as soon as features are
        // declared.
        memory.store_u32(FEATURES, PARACORD_F_PERF_REQUEST);
        Ok(RegionBackend { memory, layout })
    }
}

const FEATURES: u64 = offset_of!(paracord_header, guest_features) as u64;

impl<M: RegionMemory> Backend for RegionBackend<M> {
    fn request(&self, vcpu: u32, request: Request) {
        store_request(&self.memory, &self.layout, vcpu, request.util);
    }
}

fn store_request(memory: &impl RegionMemory, layout: &RegionLayout, vcpu: u32, util: u16) {
    let Some(slot) = layout.slot_offset(vcpu) else { return };
    // The upper half of the word is the limit. It stays 0, because the device has no register for a
    // limit.
    let word = slot + offset_of!(paracord_guest_line, perf_request) as u64;
    memory.store_u32(word, util.into());
}

impl<M: RegionMemory> Drop for RegionBackend<M> {
    fn drop(&mut self) {
        self.memory.store_u32(FEATURES, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paracord_abi::{
        GuestDriver, GuestLine, HEADER_BYTES, LINE_BYTES, new_region, region_bytes,
    };
    use std::sync::{Arc, Mutex};

    struct Bytes(Mutex<Vec<u8>>);

    impl RegionMemory for Arc<Bytes> {
        fn store_u32(&self, offset_bytes: u64, value: u32) {
            let at = offset_bytes as usize;
            self.0.lock().unwrap()[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
    }

    fn region(features: u32) -> (RegionLayout, Arc<Bytes>) {
        let mut bytes = new_region(2, features, 0, &[]).unwrap();
        bytes.resize(region_bytes(2) as usize, 0);
        let layout = RegionLayout::check(&bytes, bytes.len() as u64).unwrap();
        (layout, Arc::new(Bytes(Mutex::new(bytes))))
    }

    #[test]
    fn the_host_reads_a_request_as_the_guests_own() {
        let (layout, memory) = region(PARACORD_F_PERF_REQUEST);
        store_request(&memory, &layout, 0, 55); // left by an earlier VMM
        let backend = RegionBackend::new(layout, 2, memory.clone()).unwrap();
        backend.request(1, Request { khz: 5, util: 700 });
        backend.request(2, Request { khz: 5, util: 1 });
        let driver = |bytes: &[u8]| GuestDriver::check(&bytes[..HEADER_BYTES], &layout).unwrap();
        let bytes = memory.0.lock().unwrap().clone();
        let declared = driver(&bytes).unwrap();
        assert_eq!(declared.features, PARACORD_F_PERF_REQUEST);
        let line = |vcpu| {
            let at = layout.slot_offset(vcpu).unwrap() as usize;
            let copy: &[u8; LINE_BYTES] = bytes[at..at + LINE_BYTES].try_into().unwrap();
            GuestLine::from_bytes(copy, declared.line_bytes)
        };
        assert_eq!((line(1).perf_request, line(1).perf_limit), (Some(700), Some(0)));
        assert_eq!(line(0).perf_request, Some(0));
        drop(backend);
        assert_eq!(driver(&memory.0.lock().unwrap()), None);
    }

    #[test]
    fn a_region_that_nobody_would_look_at_is_refused() {
        let (layout, memory) = region(0);
        let refused = RegionBackend::new(layout, 2, memory).map(|_| ());
        assert_eq!(refused, Err(RegionBackendError::NotOffered));
        let (layout, memory) = region(PARACORD_F_PERF_REQUEST);
        let refused = RegionBackend::new(layout, 3, memory).map(|_| ());
        assert_eq!(refused, Err(RegionBackendError::Slots { slots: 2, vcpus: 3 }));
    }
}
