// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Address ranges and the devices at them: one bus for memory-mapped devices, and one for x86's I/O
//! ports.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A device that a guest reads and writes. Offsets count from the start of the device's range. An
/// access may reach beyond the end of the range. Nothing that a guest does may cause a panic.
pub trait Device: Send + Sync {
    /// Handles a read: fills `data`.
    fn read(&self, offset: u64, data: &mut [u8]);
    /// Handles a write of `data`.
    fn write(&self, offset: u64, data: &[u8]);
}

/// Two devices have overlapping addresses.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{bytes:#x} bytes at {start:#x} overlap another device")]
pub struct OverlapError {
    /// Start of the device that was added later.
    pub start: u64,
    /// Its size.
    pub bytes: u64,
}

struct Entry {
    start: u64,
    bytes: u64,
    device: Arc<dyn Device>,
}

/// Devices by address. Accesses to addresses without a device read all ones, write nothing, and are
/// counted.
#[derive(Default)]
pub struct Bus {
    entries: Vec<Entry>,
    strays: AtomicU64,
}

impl Bus {
    /// Adds a device.
    ///
    /// # Errors
    /// [`OverlapError`].
    pub fn insert(
        &mut self,
        start: u64,
        bytes: u64,
        device: Arc<dyn Device>,
    ) -> Result<(), OverlapError> {
        let at = self.entries.partition_point(|entry| entry.start < start);
        let before = at.checked_sub(1).map(|index| &self.entries[index]);
        let overlaps = before.is_some_and(|entry| start - entry.start < entry.bytes)
            || self.entries.get(at).is_some_and(|entry| entry.start - start < bytes)
            || start.checked_add(bytes).is_none();
        if overlaps {
            return Err(OverlapError { start, bytes });
        }
        self.entries.insert(at, Entry { start, bytes, device });
        Ok(())
    }

    /// Handles a guest's read.
    pub fn read(&self, address: u64, data: &mut [u8]) {
        match self.find(address) {
            Some((device, offset)) => device.read(offset, data),
            None => data.fill(0xff),
        }
    }

    /// Handles a guest's write.
    pub fn write(&self, address: u64, data: &[u8]) {
        if let Some((device, offset)) = self.find(address) {
            device.write(offset, data);
        }
    }

    /// Number of accesses to addresses without a device.
    pub fn strays(&self) -> u64 {
        self.strays.load(Ordering::Relaxed)
    }

    fn find(&self, address: u64) -> Option<(&dyn Device, u64)> {
        let at = self.entries.partition_point(|entry| entry.start <= address);
        let found = at.checked_sub(1).and_then(|index| {
            let entry = &self.entries[index];
            let offset = address - entry.start;
            (offset < entry.bytes).then_some((&*entry.device, offset))
        });
        if found.is_none() {
            self.strays.fetch_add(1, Ordering::Relaxed);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[derive(Default)]
    struct Recorder(Mutex<Vec<(u64, Vec<u8>)>>);

    impl Device for Recorder {
        fn read(&self, offset: u64, data: &mut [u8]) {
            data.fill(offset as u8);
        }
        fn write(&self, offset: u64, data: &[u8]) {
            self.0.lock().unwrap().push((offset, data.to_vec()));
        }
    }

    fn read(bus: &Bus, address: u64) -> u8 {
        let mut data = [0];
        bus.read(address, &mut data);
        data[0]
    }

    #[test]
    fn accesses_reach_the_device_of_their_range() {
        let (low, high) = (Arc::new(Recorder::default()), Arc::new(Recorder::default()));
        let mut bus = Bus::default();
        bus.insert(0x2000, 0x10, high.clone()).unwrap();
        bus.insert(0x1000, 0x10, low.clone()).unwrap();
        assert_eq!((read(&bus, 0x1000), read(&bus, 0x100f), read(&bus, 0x2001)), (0, 0xf, 1));
        bus.write(0x2003, &[7, 8]);
        assert_eq!(*high.0.lock().unwrap(), [(3, vec![7, 8])]);
        assert!(low.0.lock().unwrap().is_empty());
        assert_eq!(bus.strays(), 0);
    }

    #[test]
    fn what_is_nobodys_is_counted() {
        let mut bus = Bus::default();
        bus.insert(0x1000, 0x10, Arc::new(Recorder::default())).unwrap();
        for address in [0, 0xfff, 0x1010, u64::MAX] {
            assert_eq!(read(&bus, address), 0xff);
        }
        bus.write(0x1010, &[1]);
        assert_eq!(bus.strays(), 5);
    }

    #[test]
    fn overlaps_are_refused() {
        let mut bus = Bus::default();
        let mut insert =
            |start, bytes| bus.insert(start, bytes, Arc::new(Recorder::default())).is_ok();
        assert!(insert(0x1000, 0x10));
        for (start, bytes) in [(0x1000, 1), (0x100f, 1), (0xff0, 0x11), (u64::MAX, 2)] {
            assert!(!insert(start, bytes), "{start:#x} {bytes:#x}");
        }
        assert!(insert(0x1010, 1) && insert(0xff0, 0x10));
    }
}
