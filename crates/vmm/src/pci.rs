// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! A PCI bus with two functions: the host bridge, and the region as an ivshmem device. Guests
//! access their configuration spaces through a window in memory (ECAM, arm64) or through two ports
//! (mechanism 1, x86-64).

#[cfg(any(target_arch = "aarch64", test))]
#[cfg_attr(not(target_arch = "aarch64"), allow(dead_code))]
pub mod ecam;
#[cfg(any(target_arch = "x86_64", test))]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub mod mechanism1;
pub mod window;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use paracord_devices::ivshmem::Ivshmem;
use paracord_devices::pci_config::{ConfigSpace, Identity};

use crate::interrupts::Interrupts;
use crate::memory::MovableMemory;
use window::Window;

/// Number of the host bridge on the bus: device × 8 + function.
const BRIDGE: u32 = 0;
/// Number of the region's function.
pub const REGION: u32 = 8;

/// The same identity as QEMU's generic PCI Express host. The kernel requires a bridge, but does not
/// care which one.
const BRIDGE_IDENTITY: Identity = Identity {
    id: (0x1b36, 0x0008),
    class: (0x06, 0x00, 0x00),
    revision: 0,
    subsystem: (0x1af4, 0x1100),
};

/// The region's function, its memory, and where its registers are.
pub struct RegionFunction {
    /// The configuration space.
    pub function: Ivshmem,
    /// The memory of BAR 2.
    pub memory: MovableMemory,
    /// The registers of BAR 0.
    pub registers: Arc<Window>,
    /// The interrupt table of BAR 1.
    pub interrupts: Option<Arc<Interrupts>>,
}

struct Functions {
    bridge: ConfigSpace,
    region: Option<RegionFunction>,
}

/// The PCI bus.
pub struct PciBus {
    functions: Mutex<Functions>,
    /// Addresses where BARs may be placed.
    window: Range<u64>,
    misplaced: AtomicU64,
}

impl PciBus {
    /// Makes a bus whose BARs must be in `window`.
    pub fn new(window: Range<u64>, region: Option<RegionFunction>) -> PciBus {
        let functions = Functions { bridge: ConfigSpace::new(&BRIDGE_IDENTITY), region };
        PciBus { functions: Mutex::new(functions), window, misplaced: AtomicU64::new(0) }
    }

    /// How often the guest placed the region at an address that is not possible.
    pub fn misplaced(&self) -> u64 {
        self.misplaced.load(Ordering::Relaxed)
    }

    /// Handles a read of a function's configuration space. `function` is bus number × 256 + device
    /// number × 8 + function number.
    fn read_config(&self, function: u32, offset: u64, data: &mut [u8]) {
        let functions = self.locked();
        match (function, &functions.region) {
            (BRIDGE, _) => functions.bridge.read(offset, data),
            (REGION, Some(region)) => region.function.read(offset, data),
            _ => data.fill(0xff),
        }
    }

    fn write_config(&self, function: u32, offset: u64, data: &[u8]) {
        let functions = &mut *self.locked();
        match (function, &mut functions.region) {
            (BRIDGE, _) => functions.bridge.write(offset, data),
            (REGION, Some(region)) => {
                region.function.write(offset, data);
                self.follow(region);
            }
            _ => {}
        }
    }

    /// Places memory and registers where the guest's BARs say. They are hidden if the address is
    /// not possible, which is the case while the guest sizes a BAR, or if the guest is malicious.
    fn follow(&self, region: &mut RegionFunction) {
        let fits = |start: &u64, bytes: u64| {
            let end = start.checked_add(bytes);
            *start >= self.window.start && end.is_some_and(|end| end <= self.window.end)
        };
        let place = |window: &Window, start: Option<u64>| {
            window.place(start.filter(|start| fits(start, window.bytes())));
        };
        place(&region.registers, region.function.registers());
        if let Some(interrupts) = &region.interrupts {
            place(&interrupts.window, region.function.interrupts());
            interrupts.set_control(region.function.interrupt_control());
        }
        let bytes = region.memory.bytes();
        let wanted = region.function.window();
        let place = wanted.filter(|start| fits(start, bytes));
        if region.memory.place(place).is_err() || place != wanted {
            self.misplaced.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn locked(&self) -> MutexGuard<'_, Functions> {
        self.functions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
