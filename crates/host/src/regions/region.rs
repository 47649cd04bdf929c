// SPDX-License-Identifier: GPL-2.0-only
//! Regions of running VMs. This module checks and reads regions, and writes host lines and answers
//! to counter requests into them. [`mapped`](crate::regions::mapped) finds these regions, and
//! [`region_file`](crate::regions::region_file) creates and removes them.
//!
//! A region belongs to the VM's user, who may truncate the file or punch holes into it at any
//! moment. [`region_io`](crate::regions::region_io) describes how the daemon can access such a
//! file.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use paracord_abi::{
    AbiError, DOMAIN_BYTES, Domain, GuestDriver, HOST_BOOST_BYTES, HOST_PLACE_MIN_BYTES, HostBoost,
    HostPlace, LINE_BYTES, OFFER_BYTES, PMU_GUEST_BYTES, PMU_GUEST_OFFSET, PMU_HOST_BYTES,
    PMU_HOST_OFFSET, PMU_SERVED_OFFSET, RegionLayout, event_names, layout, table_of,
};

use crate::regions::file_identity::FileIdentity;
use crate::regions::mapped::MappedRegion;
use crate::regions::offered::Offered;
use crate::regions::region_io::{RegionIo, read_header};

/// Why a region that a VM maps is not used.
#[derive(Debug, thiserror::Error)]
pub enum RegionError {
    /// Another VM uses the region already.
    #[error("region {name} is already used by process {pid}: each VM needs its own")]
    Taken {
        /// Name of the region.
        name: String,
        /// Process of the other VM.
        pid: u32,
    },
    /// The file does not belong to the user of the VM's process.
    #[error("{}: belongs to user {owner}, the VM runs as user {user}", path.display())]
    Owner {
        /// Region file.
        path: PathBuf,
        /// Owner of the file.
        owner: u32,
        /// Effective user of the process.
        user: u32,
    },
    /// The content is refused.
    #[error("{}: {source}", path.display())]
    Abi {
        /// Region file.
        path: PathBuf,
        /// What is wrong.
        source: AbiError,
    },
    /// A system call failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// File or directory.
        path: PathBuf,
        /// Error of the call.
        source: io::Error,
    },
}

impl RegionError {
    /// Whether the error only means that accesses to the region are paused (see
    /// [`crate::regions::region_io`]).
    pub fn is_pause(&self) -> bool {
        matches!(self, RegionError::Io { source, .. } if source.kind() == io::ErrorKind::WouldBlock)
    }
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> RegionError {
    move |source| RegionError::Io { path: path.to_owned(), source }
}

/// A checked region that a VM maps.
#[derive(Debug)]
pub struct Region {
    /// File name.
    pub name: String,
    /// Layout of the region.
    pub layout: RegionLayout,
    /// Identity of the file.
    pub identity: FileIdentity,
    /// Address of the region's first byte in the VMM.
    pub start_hva: u64,
    /// Whether the host has no copy of what the region offers. Without a copy, the daemon gives the
    /// guest neither frequencies nor counters.
    pub lacks_copy: bool,
    path: PathBuf,
    io: RegionIo,
    /// The domains that the region had when it was opened; `None` if any of them could not be read
    /// or was refused.
    domains: Option<Vec<Domain>>,
    /// ID of the table to which these domains belong; 0: not known.
    domain_table: u32,
}

impl Region {
    /// Opens and checks a region that a process running as `uid` maps.
    ///
    /// # Errors
    /// [`RegionError`]: the reason why the region is refused.
    pub fn open(mapped: MappedRegion, uid: u32) -> Result<Region, RegionError> {
        let MappedRegion { name, path, identity, start_hva, bytes } = mapped;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(&path)
            .map_err(io_error(&path))?;
        let meta = file.metadata().map_err(io_error(&path))?;
        if !meta.is_file() || FileIdentity::of(&meta) != identity {
            return Err(io_error(&path)(io::Error::other("replaced meanwhile")));
        }
        if meta.uid() != uid {
            return Err(RegionError::Owner { path, owner: meta.uid(), user: uid });
        }
        let header = read_header(&file).map_err(io_error(&path))?;
        let mut layout = RegionLayout::check(&header, meta.len().min(bytes))
            .map_err(|source| RegionError::Abi { path: path.clone(), source })?;
        // The guest may have changed the header.
        let offered = Offered::read(&path).map_err(io_error(&path))?;
        layout.host_features = offered.of_header(layout.host_features);
        let lacks_copy = offered.is_unknown;
        let slots_end = layout.slot_offset(layout.slot_count - 1).unwrap_or(0)
            + u64::from(layout.slot_stride_bytes);
        let io = RegionIo::new(file, slots_end).map_err(io_error(&path))?;
        let copies: Vec<_> =
            (0..layout.domain_count).map(|index| copy_domain(&io, &layout, index)).collect();
        let domain_table = copies.first().copied().flatten().map_or(0, |copy| table_of(&copy));
        let domain =
            |copy: &Option<_>| copy.as_ref().and_then(|copy| Domain::from_bytes(copy).ok());
        let domains = copies.iter().map(domain).collect();
        Ok(Region {
            name,
            layout,
            identity,
            start_hva,
            lacks_copy,
            path,
            io,
            domains,
            domain_table,
        })
    }

    /// Reads the current declaration of the guest's driver. Returns `None` if there is no driver.
    ///
    /// # Errors
    /// [`RegionError`] if the driver's half of the header is refused or cannot be read.
    pub fn guest_driver(&self) -> Result<Option<GuestDriver>, RegionError> {
        let header = self.io.read_header().map_err(io_error(&self.path))?;
        GuestDriver::check(&header, &self.layout)
            .map_err(|source| RegionError::Abi { path: self.path.clone(), source })
    }

    /// Address of a vCPU's slot in the VMM. `None` if there is no such slot.
    pub fn slot_hva(&self, vcpu_id: u32) -> Option<u64> {
        self.start_hva.checked_add(self.layout.slot_offset(vcpu_id)?)
    }

    /// Writes the boost part of a vCPU's host line. Does nothing if the vCPU has no slot.
    ///
    /// # Errors
    /// As [`RegionIo::write`].
    pub fn write_boost(&self, vcpu_id: u32, boost: HostBoost) -> io::Result<()> {
        let Some(slot) = self.layout.slot_offset(vcpu_id) else { return Ok(()) };
        let bytes = boost.to_bytes();
        let declared = bytes.len().min(self.layout.host_line_bytes as usize);
        self.io.write(&[(slot + LINE_BYTES as u64, &bytes[..declared])])
    }

    /// Writes as much of the place part of a vCPU's host line as the header declares. Does nothing
    /// if the vCPU has no slot, or if the header declares less than `HOST_PLACE_MIN_BYTES` of that
    /// part.
    ///
    /// # Errors
    /// As [`RegionIo::write`].
    pub fn write_place(&self, vcpu_id: u32, place: HostPlace) -> io::Result<()> {
        let bytes = place.to_bytes();
        let declared = (self.layout.host_line_bytes as usize).saturating_sub(HOST_BOOST_BYTES);
        let known = &bytes[..bytes.len().min(declared)];
        match self.layout.slot_offset(vcpu_id).filter(|_| declared >= HOST_PLACE_MIN_BYTES) {
            Some(slot) => self.io.write(&[(slot + (LINE_BYTES + HOST_BOOST_BYTES) as u64, known)]),
            None => Ok(()),
        }
    }

    /// Whether the region offers counters that the guest requests with kicks.
    pub fn asks_at_kicks(&self) -> bool {
        let pmu = layout::PARACORD_F_PMU | layout::PARACORD_F_PMU_DOORBELL;
        let slots = self.layout.slot_stride_bytes as usize >= PMU_HOST_OFFSET + PMU_HOST_BYTES;
        slots && self.layout.host_features & pmu == layout::PARACORD_F_PMU
    }

    /// Names of the events in the region's table. The guest can change that table.
    pub fn event_names(&self) -> Vec<String> {
        let mut first = [0; OFFER_BYTES];
        let read = self.io.read(&mut first, 0);
        read.map_or_else(|_| Vec::new(), |()| event_names(&first))
    }

    /// Returns a copy of the guest's requests for the counters of a vCPU.
    ///
    /// # Errors
    /// As [`RegionIo::read`]; `NotFound` if the vCPU has no slot.
    pub fn read_asks(&self, vcpu_id: u32) -> io::Result<[u8; PMU_GUEST_BYTES]> {
        self.read_slot(vcpu_id, PMU_GUEST_OFFSET)
    }

    /// Returns a copy of the last answer to the guest's requests for the counters of a vCPU.
    ///
    /// # Errors
    /// As [`read_asks`](Region::read_asks).
    pub fn read_answer(&self, vcpu_id: u32) -> io::Result<[u8; PMU_HOST_BYTES]> {
        self.read_slot(vcpu_id, PMU_HOST_OFFSET)
    }

    /// Writes an answer to the guest's requests for the counters of a vCPU. The number that marks
    /// the requests as answered is written last, because the guest may wait for that number.
    ///
    /// # Errors
    /// As [`RegionIo::write`]; `NotFound` if the vCPU has no slot.
    pub fn write_answer(&self, vcpu_id: u32, answer: &[u8; PMU_HOST_BYTES]) -> io::Result<()> {
        let at = self.slot(vcpu_id)? + PMU_HOST_OFFSET as u64;
        let (served, rest) = answer.split_at(PMU_SERVED_OFFSET + size_of::<u32>());
        self.io.write(&[(at + served.len() as u64, rest), (at, served)])
    }

    fn read_slot<const N: usize>(&self, vcpu_id: u32, offset: usize) -> io::Result<[u8; N]> {
        let mut copy = [0; N];
        self.io.read_slot(&mut copy, self.slot(vcpu_id)? + offset as u64)?;
        Ok(copy)
    }

    fn slot(&self, vcpu_id: u32) -> io::Result<u64> {
        self.layout.slot_offset(vcpu_id).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Returns how many accesses to the file took too long, and for how many more nanoseconds
    /// accesses are paused because of that (0: they are not paused).
    pub fn slow_io(&self) -> (u64, u64) {
        (self.io.slow(), self.io.left_out_ns())
    }

    /// Whether the region had exactly these performance domains when it was opened.
    pub fn tells(&self, domains: &[Domain]) -> bool {
        self.domains.as_deref() == Some(domains)
    }

    /// ID of the table to which the region's domains belong; 0: not known. A guest that was
    /// migrated to this host may still know another table.
    pub fn domain_table(&self) -> u32 {
        self.domain_table
    }
}

/// The bytes of a performance domain in an open region. `None` if they cannot be read.
fn copy_domain(io: &RegionIo, layout: &RegionLayout, index: u16) -> Option<[u8; DOMAIN_BYTES]> {
    let mut copy = [0; DOMAIN_BYTES];
    io.read(&mut copy, layout.domain_offset(index)?).ok()?;
    Some(copy)
}

#[cfg(test)]
#[path = "region_tests.rs"]
mod tests;
