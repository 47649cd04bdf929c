// SPDX-License-Identifier: GPL-2.0-only
//! Creates, lists and removes region files. A region file is created before its VM starts.
//!
//! The daemon attaches to the regions that running VMs map. It trusts nothing in these files,
//! because the VM's user may write to them.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use paracord_abi::{
    DOMAIN_BYTES, Domain, EventOffer, GuestDriver, OFFER_BYTES, RegionLayout, ServedAt,
    feature_names, layout,
};
use paracord_devices::pmu::Offered;
use paracord_sys::proc;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde::Serialize;

use crate::regions::file_identity::FileIdentity;
use crate::regions::file_system::FileSystem;
use crate::regions::offered;
use crate::regions::region_name::is_region_name;

/// Why a region file could not be created, read or removed.
#[derive(Debug, thiserror::Error)]
pub enum RegionFileError {
    /// The name would lead out of the directory, or break the syntax of QEMU's options.
    #[error(
        "{0:?} is no region name: use 1 to 64 letters, digits, \"_\", \"-\" and \".\", not beginning with \".\""
    )]
    Name(String),
    /// A region with this name exists already.
    #[error("region {} exists; `paracord region remove` removes it", .0.display())]
    Exists(PathBuf),
    /// There is no region with this name.
    #[error("no region {}; `paracord region list` shows those that exist", .0.display())]
    Missing(PathBuf),
    /// Other users could change files in the directory.
    #[error("{}: must belong to root and be writable by root only", .0.display())]
    Directory(PathBuf),
    /// The directory is on hugetlbfs, which lacks write(2). Regions are created with write(2).
    #[error("{}: lies on hugetlbfs, where files cannot be written: use a directory on tmpfs", .0.display())]
    HugePages(PathBuf),
    /// The directory is not on tmpfs, so an access to a region could wait for a disk or a server.
    #[error("{}: lies on no tmpfs, where accesses can wait for a disk or a server: use a directory on tmpfs", .0.display())]
    FileSystem(PathBuf),
    /// A running process maps the region.
    #[error("region {name} is in use by process {pid}: stop that VM first")]
    InUse {
        /// Name of the region.
        name: String,
        /// Process that maps the region.
        pid: u32,
    },
    /// The header cannot be created.
    #[error("{0}")]
    Header(#[from] paracord_abi::AbiError),
    /// The table of events cannot be created.
    #[error("{0}")]
    Events(#[from] paracord_abi::EventError),
    /// Any other system call failed.
    #[error("{}: {error}", path.display())]
    Io {
        /// File or directory.
        path: PathBuf,
        /// Error of the call.
        error: io::Error,
    },
}

/// What a new region offers to the guest. By default, it has no slots and offers nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// Number of vCPUs, 1..=4096.
    pub slots: u32,
    /// Whether the guest may kick when a boost is stale.
    pub kick: bool,
    /// Whether the host reads the guest's preempt_count.
    pub preempt_count: bool,
    /// Whether the guest is told on which CPUs it runs, and how fast they are.
    pub capacity: bool,
    /// The host's performance domains, at most 16. Without domains, the guest cannot request
    /// performance.
    pub domains: Vec<Domain>,
    /// Events that the daemon counts for the guest.
    pub events: Vec<Offered>,
    /// Age from which a stale boost is worth a kick; 0: the guest's default.
    pub stale_boost_kick_us: u32,
    /// uid and gid of the file's owner, who is the VM's user; `None`: the user of this process.
    pub owner: Option<(u32, u32)>,
}

/// A region file as `paracord region list` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// File name.
    pub name: String,
    /// Path of the file.
    pub path: PathBuf,
    /// Size of the file.
    pub bytes: u64,
    /// User ID of the owner.
    pub uid: u32,
    /// Number of slots. `None` if the header is refused.
    pub slots: Option<u32>,
    /// Features that the region offers.
    pub features: Vec<&'static str>,
    /// Performance domains that the region reports to the guest.
    pub domains: Vec<ListedDomain>,
    /// Whether a guest driver has accepted the region.
    pub guest_driver: bool,
    /// Why the header is refused.
    pub refused: Option<String>,
}

/// A performance domain of a listed region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListedDomain {
    /// Capacity at the highest frequency, 1..=1024.
    pub capacity: u16,
    /// The highest frequency.
    pub max_khz: u32,
    /// Whether its CPUs share one frequency.
    pub shared: bool,
    /// Frequencies relative to the highest frequency, which is 1024.
    pub levels: Vec<u16>,
}

/// The identities of the files in `directory` whose names are allowed for regions.
pub(crate) fn identities(directory: &Path) -> impl Iterator<Item = FileIdentity> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_region_name));
    named.filter_map(|entry| Some(FileIdentity::of(&entry.metadata().ok()?)))
}

/// Checks the name of a region.
///
/// # Errors
/// [`RegionFileError::Name`].
pub fn check_name(name: &str) -> Result<(), RegionFileError> {
    if is_region_name(name) { Ok(()) } else { Err(RegionFileError::Name(name.to_owned())) }
}

/// Creates the region `name` in `directory`, and returns the path of the region. Creates the
/// directory if it is absent. The file appears under its name only when it is complete.
///
/// # Errors
/// Any [`RegionFileError`].
pub fn create(directory: &Path, name: &str, offer: &Offer) -> Result<PathBuf, RegionFileError> {
    check_name(name)?;
    let mut features = layout::PARACORD_F_BOOST;
    if offer.kick {
        features |= layout::PARACORD_F_KICK;
    }
    if offer.preempt_count {
        features |= layout::PARACORD_F_PREEMPT_COUNT;
    }
    if offer.capacity {
        features |= layout::PARACORD_F_CAPACITY;
    }
    if !offer.domains.is_empty() {
        features |= layout::PARACORD_F_PERF_REQUEST;
    }
    let mut header =
        paracord_abi::new_region(offer.slots, features, offer.stale_boost_kick_us, &offer.domains)?;
    offer_events(&mut header, offer)?;
    prepare_region_directory(directory)?;
    let path = directory.join(name);
    let held = offered::hold(directory).map_err(at(directory))?;
    if path.symlink_metadata().is_ok() {
        return Err(RegionFileError::Exists(path));
    }
    let features =
        RegionLayout::check(&header, paracord_abi::region_bytes(offer.slots))?.host_features;
    offered::write(&held, &path, features).map_err(at(&path))?;
    let unfinished = directory.join(format!(".{name}.unfinished"));
    let made = write_file(&unfinished, &header, offer).map_err(at(&unfinished)).and_then(|()| {
        renameat_with(CWD, &unfinished, CWD, &path, RenameFlags::NOREPLACE).map_err(|e| match e {
            rustix::io::Errno::EXIST => RegionFileError::Exists(path.clone()),
            e => at(&path)(e.into()),
        })
    });
    if made.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    made.map(|()| path)
}

fn offer_events(header: &mut Vec<u8>, offer: &Offer) -> Result<(), RegionFileError> {
    if offer.events.is_empty() {
        return Ok(());
    }
    let region = RegionLayout::check(header, paracord_abi::region_bytes(offer.slots))?;
    header.resize(header.len().max(OFFER_BYTES), 0);
    if let Some(first) = header.first_chunk_mut() {
        let event = |event: &Offered| EventOffer { name: event.name, min_period: event.min_period };
        let events: Vec<EventOffer<'_>> = offer.events.iter().map(event).collect();
        paracord_abi::offer_events(first, &region, &events, ServedAt::Kick)?;
    }
    Ok(())
}

/// Creates the directory if it is absent. Refuses a directory that does not belong to the user of
/// this process, or in which other users can change files. The parent directory may be writable by
/// everybody.
///
/// Other users may open files in a new directory, but not list the directory: getdents(2) holds the
/// lock of the directory while it copies into the caller's buffer, and that buffer may consist of
/// pages that a FUSE server never delivers.
pub(crate) fn prepare_directory(directory: &Path) -> Result<(), RegionFileError> {
    let new = DirBuilder::new().recursive(true).mode(0o711).create(directory);
    new.map_err(at(directory))?;
    let meta = fs::symlink_metadata(directory).map_err(at(directory))?;
    let own = rustix::process::geteuid().as_raw();
    if !meta.is_dir() || meta.uid() != own || meta.mode() & 0o022 != 0 {
        return Err(RegionFileError::Directory(directory.to_owned()));
    }
    Ok(())
}

/// Like [`prepare_directory`], but for a directory of regions. Its file system must be one that
/// regions may lie on.
pub(crate) fn prepare_region_directory(directory: &Path) -> Result<(), RegionFileError> {
    prepare_directory(directory)?;
    let found = rustix::fs::statfs(directory).map_err(|e| at(directory)(e.into()))?;
    check_file_system(directory, FileSystem::of(&found))
}

fn check_file_system(directory: &Path, found: FileSystem) -> Result<(), RegionFileError> {
    match found {
        FileSystem::Tmpfs => Ok(()),
        FileSystem::HugePages => Err(RegionFileError::HugePages(directory.to_owned())),
        FileSystem::Other => Err(RegionFileError::FileSystem(directory.to_owned())),
    }
}

fn write_file(path: &Path, header: &[u8], offer: &Offer) -> io::Result<()> {
    // An earlier process may have been killed while it wrote the file.
    let _ = fs::remove_file(path);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(header)?;
    // Reserve the space now, so that a full tmpfs cannot kill the VM later.
    let bytes = paracord_abi::region_bytes(offer.slots);
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes)?;
    if let Some((uid, gid)) = offer.owner {
        std::os::unix::fs::fchown(&file, Some(uid), Some(gid))?;
    }
    Ok(())
}

/// Removes the region `name`, unless a process maps it.
///
/// # Errors
/// [`RegionFileError::Name`], [`RegionFileError::Missing`], [`RegionFileError::InUse`],
/// [`RegionFileError::Io`].
pub fn remove(directory: &Path, proc_root: &Path, name: &str) -> Result<(), RegionFileError> {
    check_name(name)?;
    let path = directory.join(name);
    let missing = |e: io::Error| match e.kind() {
        io::ErrorKind::NotFound => RegionFileError::Missing(path.clone()),
        _ => at(&path)(e),
    };
    let identity = FileIdentity::of(&fs::symlink_metadata(&path).map_err(missing)?);
    let entries = fs::read_dir(proc_root).map_err(at(proc_root))?;
    for pid in entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
        // A process that has ended meanwhile maps nothing.
        let mappings = proc::mappings(proc_root, pid).unwrap_or_default();
        if mappings.iter().any(|mapping| identity.is_mapped_by(mapping)) {
            return Err(RegionFileError::InUse { name: name.to_owned(), pid });
        }
    }
    let held = offered::hold(directory).map_err(at(directory))?;
    fs::remove_file(&path).map_err(missing)?;
    offered::remove(&held, &path).map_err(at(&path))
}

/// Lists the regions in `directory`, sorted by name. An absent directory counts as empty.
///
/// # Errors
/// [`RegionFileError::Io`] if the directory cannot be read.
pub fn list(directory: &Path) -> Result<Vec<Listed>, RegionFileError> {
    let entries = match fs::read_dir(directory) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(at(directory))?,
    };
    let mut found: Vec<Listed> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let meta = entry.metadata().ok()?;
            let ours = check_name(&name).is_ok() && meta.is_file();
            ours.then(|| describe(name, entry.path(), &meta))
        })
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

fn describe(name: String, path: PathBuf, meta: &fs::Metadata) -> Listed {
    let mut copy = Vec::new();
    let limit = u64::from(layout::PARACORD_SLOT_OFFSET_BYTES);
    // The owner may hold a lease on the file, or put a FIFO in the file's place. Without
    // O_NONBLOCK, open(2) would wait for the end of the lease, or for a writer of the FIFO.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(&path);
    let read = file.and_then(|file| file.take(limit).read_to_end(&mut copy));
    let checked = match read {
        Ok(_) => RegionLayout::check(&copy, meta.len()).map_err(|e| e.to_string()),
        Err(e) => Err(e.to_string()),
    };
    let checked = checked.and_then(|mut layout| {
        let offered = offered::Offered::read(&path).map_err(|e| e.to_string())?;
        layout.host_features = offered.of_header(layout.host_features);
        Ok((layout, domains_in(&copy, &layout)?))
    });
    let (layout, domains) = match &checked {
        Ok((layout, domains)) => (Some(layout), domains.as_slice()),
        Err(_) => (None, [].as_slice()),
    };
    Listed {
        slots: layout.map(|l| l.slot_count),
        features: layout.map(|l| feature_names(l.host_features)).unwrap_or_default(),
        domains: domains.iter().map(ListedDomain::from).collect(),
        guest_driver: layout
            .is_some_and(|l| GuestDriver::check(&copy, l).is_ok_and(|driver| driver.is_some())),
        refused: checked.err(),
        name,
        path,
        bytes: meta.len(),
        uid: meta.uid(),
    }
}

fn domains_in(copy: &[u8], layout: &RegionLayout) -> Result<Vec<Domain>, String> {
    let domain = |index| {
        let at = layout.domain_offset(index).and_then(|at| usize::try_from(at).ok())?;
        copy.get(at..)?.first_chunk::<DOMAIN_BYTES>()
    };
    (0..layout.domain_count)
        .map(|index| match domain(index) {
            Some(bytes) => Domain::from_bytes(bytes).map_err(|error| error.to_string()),
            None => Err(format!("performance domain {index} is not in the file's first page")),
        })
        .collect()
}

impl From<&Domain> for ListedDomain {
    fn from(domain: &Domain) -> ListedDomain {
        ListedDomain {
            capacity: domain.capacity,
            max_khz: domain.max_khz,
            shared: domain.shared,
            levels: domain.levels.clone(),
        }
    }
}

fn at(path: &Path) -> impl Fn(io::Error) -> RegionFileError {
    move |error| RegionFileError::Io { path: path.to_owned(), error }
}

#[cfg(test)]
#[path = "region_file_tests.rs"]
mod tests;
