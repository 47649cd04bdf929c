// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The bus as a window in memory, with 4 KiB per function (PCI Express Base Specification, 7.2.2).

use std::sync::Arc;

use super::PciBus;
use crate::bus::Device;

/// Size of one function's part of the window.
const FUNCTION_BYTES: u64 = 4096;
/// Size of the window for one bus, which has 32 devices with 8 functions each.
pub const ECAM_BYTES: u64 = 256 * FUNCTION_BYTES;

/// The window of the configuration spaces.
pub struct Ecam(pub Arc<PciBus>);

impl Device for Ecam {
    fn read(&self, offset: u64, data: &mut [u8]) {
        let function = (offset / FUNCTION_BYTES) as u32;
        self.0.read_config(function, offset % FUNCTION_BYTES, data);
    }

    fn write(&self, offset: u64, data: &[u8]) {
        let function = (offset / FUNCTION_BYTES) as u32;
        self.0.write_config(function, offset % FUNCTION_BYTES, data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bus() -> Arc<PciBus> {
        Arc::new(PciBus::new(0..0, None))
    }

    fn read4(device: &dyn Device, offset: u64) -> u32 {
        let mut data = [0; 4];
        device.read(offset, &mut data);
        u32::from_le_bytes(data)
    }

    #[test]
    fn ecam_finds_the_bridge_and_nothing_else() {
        let ecam = Ecam(bus());
        assert_eq!(read4(&ecam, 0), 0x0008_1b36);
        assert_eq!(read4(&ecam, 8), 0x0600_0000);
        for function in 1..256 {
            assert_eq!(read4(&ecam, function * FUNCTION_BYTES), u32::MAX, "{function}");
        }
        assert_eq!(read4(&ecam, 0x100), u32::MAX, "there is no extended space");
    }
}
