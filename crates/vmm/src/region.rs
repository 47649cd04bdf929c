// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The region file: memory that a guest and its host share through paracord.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use paracord_abi::layout::PARACORD_F_PMU;
use paracord_abi::{
    EventError, EventOffer, HEADER_BYTES, OFFER_BYTES, RegionLayout, ServedAt, offer_events,
};
use rustix::fs::OFlags;
use vm_memory::{FileOffset, MmapRegion, mmap::MmapRegionBuilder};

use crate::error::{self, Error};

/// A region file that was checked.
#[derive(Debug)]
pub struct RegionFile {
    file: File,
    bytes: usize,
    layout: RegionLayout,
}

impl RegionFile {
    /// Opens and checks the region of a VM with `vcpus` vCPUs.
    ///
    /// The daemon ignores a region that does not belong to the VM's user, so this function refuses
    /// such a region.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::Content`].
    pub fn open(path: &Path, vcpus: u32) -> Result<RegionFile, Error> {
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
        let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path);
        let file = file.map_err(error::file(path))?;
        let meta = file.metadata().map_err(error::file(path))?;
        let refuse = |reason: String| Error::Content { path: path.to_owned(), reason };
        let user = rustix::process::geteuid().as_raw();
        if !meta.is_file() {
            return Err(refuse("is not a file: make it with `paracord region create`".to_owned()));
        }
        if meta.uid() != user {
            let owner = meta.uid();
            return Err(refuse(format!(
                "belongs to user {owner}, but this VM runs as user {user}: create it with --owner {user}"
            )));
        }
        if meta.mode() & 0o077 != 0 {
            return Err(refuse("others can read or write it: chmod it to 600".to_owned()));
        }
        let mut header = [0; HEADER_BYTES];
        file.read_exact_at(&mut header, 0).map_err(|_| {
            refuse("is not a region: make it with `paracord region create`".to_owned())
        })?;
        let layout = RegionLayout::check(&header, meta.len()).map_err(|e| refuse(e.to_string()))?;
        if layout.slot_count < vcpus {
            let slots = layout.slot_count;
            return Err(refuse(format!(
                "has room for {slots} vCPUs, but the VM has {vcpus}: create it with --vcpus {vcpus}"
            )));
        }
        // A region that does not fit into the address space is refused later, when its BAR is made.
        Ok(RegionFile { bytes: usize::try_from(meta.len()).unwrap_or(usize::MAX), file, layout })
    }

    /// Size of the file.
    pub fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// Writes into the region which events the guest may count through this VMM. If there are none,
    /// the offer of an earlier VM that used the region is removed.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::Content`].
    pub fn offer_events(&mut self, path: &Path, events: &[EventOffer<'_>]) -> Result<(), Error> {
        if events.is_empty() && self.layout.host_features & PARACORD_F_PMU == 0 {
            return Ok(());
        }
        let refuse = |reason: EventError| Error::Content {
            path: path.to_owned(),
            reason: reason.to_string(),
        };
        let mut first = [0; OFFER_BYTES];
        self.file.read_exact_at(&mut first, 0).map_err(|_| refuse(EventError::NoRoom))?;
        offer_events(&mut first, &self.layout, events, ServedAt::Doorbell).map_err(refuse)?;
        self.file.write_all_at(&first, 0).map_err(error::file(path))?;
        Ok(())
    }

    /// Where the parts of the region are.
    pub fn layout(&self) -> RegionLayout {
        self.layout
    }

    /// Maps the region with all of its pages present, so that the guest's stores cause no page
    /// faults in the host.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn map(self) -> Result<MmapRegion<()>, Error> {
        let flags = rustix::mm::MapFlags::SHARED | rustix::mm::MapFlags::POPULATE;
        let rights = rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE;
        MmapRegionBuilder::new_with_bitmap(self.bytes, ())
            .with_mmap_flags(flags.bits() as i32)
            .with_mmap_prot(rights.bits() as i32)
            .with_file_offset(FileOffset::new(self.file, 0))
            .build()
            .map_err(|e| Error::Memory { mib: self.bytes as u64 >> 20, reason: e.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    fn region(name: &str, vcpus: u32) -> PathBuf {
        let path = std::env::temp_dir().join(format!("paracord-vmm-{name}-{}", std::process::id()));
        let header = paracord_abi::new_region(vcpus, 0, 0, &[]).unwrap();
        fs::write(&path, header).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(paracord_abi::region_bytes(vcpus)).unwrap();
        path
    }

    fn refused(path: &Path, vcpus: u32) -> String {
        let reason = RegionFile::open(path, vcpus).unwrap_err().to_string();
        reason.strip_prefix(&format!("{}: ", path.display())).unwrap().to_owned()
    }

    #[test]
    fn a_region_is_mapped_from_its_first_byte() {
        let path = region("good", 3);
        let opened = RegionFile::open(&path, 3).unwrap();
        assert_eq!(opened.bytes(), paracord_abi::region_bytes(3));
        let mapping = opened.map().unwrap();
        let offset = mapping.file_offset().unwrap().start();
        assert_eq!((mapping.size() as u64, offset), (paracord_abi::region_bytes(3), 0));
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn what_may_be_counted_is_in_the_header_of_one_vm_only() {
        let path = region("events", 1);
        let before = fs::read(&path).unwrap();
        let features = || {
            let again = RegionFile::open(&path, 1).unwrap();
            again.layout().host_features & PARACORD_F_PMU
        };
        let offer = |names: &[&'static str]| {
            let event = |name: &&'static str| EventOffer { name, min_period: 0 };
            let events: Vec<EventOffer<'_>> = names.iter().map(event).collect();
            RegionFile::open(&path, 1).unwrap().offer_events(&path, &events).unwrap();
        };
        offer(&[]);
        assert_eq!(fs::read(&path).unwrap(), before);
        offer(&["cycles"]);
        assert_eq!(features(), PARACORD_F_PMU);
        offer(&[]);
        assert_eq!(features(), 0);
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn what_the_daemon_would_ignore_is_refused() {
        let path = region("bad", 2);
        assert!(refused(&path, 3).contains("create it with --vcpus 3"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(refused(&path, 1).contains("chmod it to 600"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, b"short").unwrap();
        assert!(refused(&path, 1).contains("`paracord region create`"));
        fs::write(&path, [0; 8192]).unwrap();
        assert!(refused(&path, 1).contains("not a paracord region"));
        fs::remove_file(&path).unwrap();
        assert!(refused(&path, 1).contains("No such file"));
        assert!(refused(&std::env::temp_dir(), 1).contains("directory"));
    }
}
