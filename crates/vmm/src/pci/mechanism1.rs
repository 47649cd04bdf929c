// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The bus as two ports (PCI Local Bus 3.0, 3.2.2.3.2). The first port takes the address: bit 31
//! enables it, and the other bits select bus, device, function and register. The second port
//! transfers the data, and the low two bits of its number select the byte.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::PciBus;
use crate::bus::Device;

/// Size of both ports.
pub const PORT_BYTES: u64 = 8;
const ADDRESS_BYTES: u64 = 4;
const ADDRESS_ENABLE: u32 = 1 << 31;
const ADDRESS_BITS: u32 = 0x80ff_fffc;

/// The two ports.
pub struct Mechanism1 {
    bus: Arc<PciBus>,
    /// Guests take a lock around the pair of accesses. A guest that takes no lock may read a wrong
    /// register of its own devices.
    address: AtomicU32,
}

impl Mechanism1 {
    /// Makes ports with address 0, which is not enabled.
    pub fn new(bus: Arc<PciBus>) -> Mechanism1 {
        Mechanism1 { bus, address: AtomicU32::new(0) }
    }

    /// The function and the register that the stored address and an offset into the ports select.
    fn target(&self, offset: u64) -> Option<(u32, u64)> {
        let byte = offset.checked_sub(ADDRESS_BYTES).filter(|byte| *byte < 4)?;
        let address = self.address.load(Ordering::Relaxed);
        let function = (address >> 8) & 0xffff;
        let register = u64::from(address & 0xfc) + byte;
        (address & ADDRESS_ENABLE != 0).then_some((function, register))
    }
}

impl Device for Mechanism1 {
    fn read(&self, offset: u64, data: &mut [u8]) {
        if offset == 0 && data.len() == 4 {
            return data.copy_from_slice(&self.address.load(Ordering::Relaxed).to_le_bytes());
        }
        match self.target(offset) {
            Some((function, register)) => self.bus.read_config(function, register, data),
            None => data.fill(0xff),
        }
    }

    fn write(&self, offset: u64, data: &[u8]) {
        if let (0, Ok(address)) = (offset, <[u8; 4]>::try_from(data)) {
            self.address.store(u32::from_le_bytes(address) & ADDRESS_BITS, Ordering::Relaxed);
        } else if let Some((function, register)) = self.target(offset) {
            self.bus.write_config(function, register, data);
        }
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
    fn mechanism_1_finds_the_same() {
        let ports = Mechanism1::new(bus());
        assert_eq!(read4(&ports, 4), u32::MAX, "not enabled");
        ports.write(0, &0x8000_0000u32.to_le_bytes());
        assert_eq!((read4(&ports, 0), read4(&ports, 4)), (0x8000_0000, 0x0008_1b36));
        let mut word = [0; 2];
        ports.read(6, &mut word);
        assert_eq!(word, [0x08, 0x00]);
        ports.write(0, &0x8000_0008u32.to_le_bytes());
        let mut byte = [0];
        ports.read(7, &mut byte);
        assert_eq!(byte, [0x06]);
        ports.write(0, &0x8000_0800u32.to_le_bytes());
        assert_eq!(read4(&ports, 4), u32::MAX, "no region, no function");
    }

    #[test]
    fn only_a_whole_address_is_taken() {
        let ports = Mechanism1::new(bus());
        ports.write(0, &[0x80]);
        ports.write(3, &[0x80]);
        assert_eq!(read4(&ports, 0), 0);
        ports.write(0, &[0xff; 4]);
        assert_eq!(read4(&ports, 0), 0x80ff_fffc);
        let mut wide = [0; 8];
        ports.read(4, &mut wide);
        assert_eq!(wide, [0xff; 8]);
    }
}
