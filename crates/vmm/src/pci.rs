// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! A PCI bus of two functions: the host bridge, and the region as an ivshmem device. Guests reach their
//! configuration spaces through a window in memory (ECAM, arm64) or two ports (mechanism 1, x86-64).

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use paracord_devices::ivshmem::Ivshmem;
use paracord_devices::pci_config::{ConfigSpace, Identity};

use crate::bus::Device;
use crate::memory::MovableMemory;

/// Bytes of one function in an ECAM window.
const ECAM_FUNCTION_BYTES: u64 = 4096;
/// An ECAM window for one bus: 32 devices of 8 functions.
pub const ECAM_BYTES: u64 = 256 * ECAM_FUNCTION_BYTES;
/// Ports of mechanism 1: the address, then the data.
pub const PORT_BYTES: u64 = 8;

/// Numbers of the functions on the bus, device × 8 + function.
const BRIDGE: u32 = 0;
const REGION: u32 = 8;

/// What QEMU's generic PCI Express host says of itself; the kernel wants to see some bridge.
const BRIDGE_IDENTITY: Identity = Identity {
    id: (0x1b36, 0x0008),
    class: (0x06, 0x00, 0x00),
    revision: 0,
    subsystem: (0x1af4, 0x1100),
};

/// The region's function, and its memory.
struct RegionFunction {
    function: Ivshmem,
    memory: MovableMemory,
}

struct Functions {
    bridge: ConfigSpace,
    region: Option<RegionFunction>,
    /// Mechanism 1's address register.
    address: u32,
}

/// The bus.
pub struct PciBus {
    functions: Mutex<Functions>,
    /// Where BARs may lie.
    window: Range<u64>,
    misplaced: AtomicU64,
}

impl PciBus {
    /// A bus whose BARs lie in `window`.
    pub fn new(window: Range<u64>, region: Option<(Ivshmem, MovableMemory)>) -> PciBus {
        let region = region.map(|(function, memory)| RegionFunction { function, memory });
        let functions =
            Functions { bridge: ConfigSpace::new(&BRIDGE_IDENTITY), region, address: 0 };
        PciBus { functions: Mutex::new(functions), window, misplaced: AtomicU64::new(0) }
    }

    /// How often the guest put the region where it cannot be.
    pub fn misplaced(&self) -> u64 {
        self.misplaced.load(Ordering::Relaxed)
    }

    /// `function` is bus × 256 + device × 8 + function.
    fn read_config(&self, functions: &Functions, function: u32, offset: u64, data: &mut [u8]) {
        match (function, &functions.region) {
            (BRIDGE, _) => functions.bridge.read(offset, data),
            (REGION, Some(region)) => region.function.read(offset, data),
            _ => data.fill(0xff),
        }
    }

    fn write_config(&self, functions: &mut Functions, function: u32, offset: u64, data: &[u8]) {
        match (function, &mut functions.region) {
            (BRIDGE, _) => functions.bridge.write(offset, data),
            (REGION, Some(region)) => {
                region.function.write(offset, data);
                self.follow(region);
            }
            _ => {}
        }
    }

    /// Puts the memory where the guest's BAR says, or hides it. While the guest sizes the BAR, or means
    /// harm, that is nowhere.
    fn follow(&self, region: &mut RegionFunction) {
        let bytes = region.memory.bytes();
        let fits = |start: &u64| {
            let end = start.checked_add(bytes);
            *start >= self.window.start && end.is_some_and(|end| end <= self.window.end)
        };
        let wanted = region.function.window();
        let place = wanted.filter(fits);
        if region.memory.place(place).is_err() || place != wanted {
            self.misplaced.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn locked(&self) -> MutexGuard<'_, Functions> {
        self.functions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bus through an ECAM window.
pub struct Ecam(pub std::sync::Arc<PciBus>);

impl Device for Ecam {
    fn read(&self, offset: u64, data: &mut [u8]) {
        let function = (offset / ECAM_FUNCTION_BYTES) as u32;
        self.0.read_config(&self.0.locked(), function, offset % ECAM_FUNCTION_BYTES, data);
    }

    fn write(&self, offset: u64, data: &[u8]) {
        let function = (offset / ECAM_FUNCTION_BYTES) as u32;
        self.0.write_config(&mut self.0.locked(), function, offset % ECAM_FUNCTION_BYTES, data);
    }
}

/// The bus through mechanism 1 (PCI Local Bus 3.0, 3.2.2.3.2): bit 31 enables, then bus, device, function
/// and register; the data port's low two bits choose the byte.
pub struct Mechanism1(pub std::sync::Arc<PciBus>);

const ADDRESS_BYTES: u64 = 4;
const ADDRESS_ENABLE: u32 = 1 << 31;
const ADDRESS_BITS: u32 = 0x80ff_fffc;

impl Mechanism1 {
    /// The function and the register that the address register and an offset into the ports mean.
    fn target(functions: &Functions, offset: u64) -> Option<(u32, u64)> {
        let byte = offset.checked_sub(ADDRESS_BYTES).filter(|byte| *byte < 4)?;
        let enabled = functions.address & ADDRESS_ENABLE != 0;
        let function = (functions.address >> 8) & 0xffff;
        enabled.then_some((function, u64::from(functions.address & 0xfc) + byte))
    }
}

impl Device for Mechanism1 {
    fn read(&self, offset: u64, data: &mut [u8]) {
        let functions = self.0.locked();
        if offset == 0 && data.len() == 4 {
            return data.copy_from_slice(&functions.address.to_le_bytes());
        }
        match Self::target(&functions, offset) {
            Some((function, register)) => self.0.read_config(&functions, function, register, data),
            None => data.fill(0xff),
        }
    }

    fn write(&self, offset: u64, data: &[u8]) {
        let mut functions = self.0.locked();
        if let (0, Ok(address)) = (offset, <[u8; 4]>::try_from(data)) {
            functions.address = u32::from_le_bytes(address) & ADDRESS_BITS;
        } else if let Some((function, register)) = Self::target(&functions, offset) {
            self.0.write_config(&mut functions, function, register, data);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

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
            assert_eq!(read4(&ecam, function * ECAM_FUNCTION_BYTES), u32::MAX, "{function}");
        }
        assert_eq!(read4(&ecam, 0x100), u32::MAX, "there is no extended space");
    }

    #[test]
    fn mechanism_1_finds_the_same() {
        let ports = Mechanism1(bus());
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
        let ports = Mechanism1(bus());
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
