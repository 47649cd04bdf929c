// SPDX-License-Identifier: GPL-2.0-only
//! Tests of regions in a fixture tree. The tree has real region files, and `maps` files with the
//! inode numbers of the region files.

use std::fs::File;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;

use paracord_abi::layout::paracord_header;
use rustix::fs::{FallocateFlags, fallocate};

use super::*;
use crate::regions::region_file::{self, Offer, RegionFileError};

struct Tree {
    root: PathBuf,
}

impl Tree {
    fn new(name: &str) -> Tree {
        // Regions lie on tmpfs.
        let root = PathBuf::from(format!("/dev/shm/paracord-region-{name}-{}", std::process::id()));
        std::fs::create_dir_all(root.join("proc")).unwrap();
        Tree { root }
    }

    fn dir(&self) -> PathBuf {
        self.root.join("regions")
    }

    fn proc(&self) -> PathBuf {
        self.root.join("proc")
    }

    fn create(&self, name: &str, slots: u32) -> Result<PathBuf, RegionFileError> {
        let offer =
            Offer { slots, kick: true, preempt_count: true, capacity: true, ..Offer::default() };
        region_file::create(&self.dir(), name, &offer)
    }

    /// Makes process `pid` map `path` with these permissions, at 0x10000.
    fn map(&self, pid: u32, path: &Path, permissions: &str, bytes: u64) {
        let meta = std::fs::metadata(path).unwrap();
        let (major, minor) = FileIdentity::of(&meta).device;
        let line = format!(
            "{:x}-{:x} {permissions} 00000000 {major:02x}:{minor:02x} {}   /elsewhere/x\n",
            0x10000,
            0x10000 + bytes,
            meta.ino()
        );
        let dir = self.proc().join(pid.to_string());
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("maps"), line).unwrap();
    }

    fn find(&self, pid: u32, uid: u32) -> Result<Option<Region>, RegionError> {
        let mapped = MappedRegion::find(&self.dir(), &self.proc(), pid);
        mapped.map(|mapped| Region::open(mapped, uid)).transpose()
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[test]
fn a_region_is_found_under_any_path() {
    let tree = Tree::new("new");
    let path = tree.create("web", 2).unwrap();
    let meta = std::fs::metadata(&path).unwrap();
    tree.map(7, &path, "rw-s", meta.len());
    let region = tree.find(7, own_uid()).unwrap().unwrap();
    assert_eq!(region.name, "web");
    assert_eq!(region.slot_hva(1), Some(0x10000 + 4096 + 1024));
    assert_eq!(region.slot_hva(region.layout.slot_count), None);
    assert_eq!(region.guest_driver().unwrap(), None);
    region
        .write_boost(1, HostBoost { state: 1, reasons: 4, flags: 0, boosts: 7, throttles: 0 })
        .unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes[4096 + 1024 + 64..][..12], [1, 4, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn a_region_in_use_is_not_removed() {
    let tree = Tree::new("in-use");
    let path = tree.create("web", 1).unwrap();
    tree.map(9, &path, "rw-s", std::fs::metadata(&path).unwrap().len());
    let remove = || region_file::remove(&tree.dir(), &tree.proc(), "web");
    assert_eq!(
        remove().unwrap_err().to_string(),
        "region web is in use by process 9: stop that VM first"
    );
    std::fs::remove_dir_all(tree.proc().join("9")).unwrap();
    remove().unwrap();
    assert!(!path.exists());
}

#[test]
fn a_directory_that_others_can_write_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let tree = Tree::new("dir");
    std::fs::create_dir_all(tree.dir()).unwrap();
    std::fs::set_permissions(tree.dir(), PermissionsExt::from_mode(0o777)).unwrap();
    assert!(matches!(tree.create("web", 1), Err(RegionFileError::Directory(_))));
}

#[test]
fn broken_regions_are_refused_with_their_reason() {
    let tree = Tree::new("broken");
    let path = tree.create("web", 1).unwrap();
    let bytes = std::fs::metadata(&path).unwrap().len();
    tree.map(7, &path, "rw-s", bytes);
    let error = |tree: &Tree, uid| tree.find(7, uid).unwrap_err().to_string();
    assert!(error(&tree, own_uid() + 1).contains("belongs to user"));
    tree.map(7, &path, "rw-s", 4096);
    assert!(error(&tree, own_uid()).contains("4096 are there"));
    std::fs::write(&path, [0; 64]).unwrap();
    assert!(error(&tree, own_uid()).contains("region too small: 64 bytes"));
    std::fs::write(&path, [0; 128]).unwrap();
    assert!(error(&tree, own_uid()).contains("not a paracord region"));
    // Private or read-only mappings cannot carry hints.
    tree.map(7, &path, "rw-p", bytes);
    assert!(tree.find(7, own_uid()).unwrap().is_none());
    // Symbolic links are not followed.
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
    assert!(tree.find(7, own_uid()).unwrap().is_none());
}

/// The guest and the VM's user can write to the header at any moment. The daemon reads the header
/// again whenever the region is found anew.
#[test]
fn a_guest_cannot_add_to_what_its_region_offers() {
    let tree = Tree::new("grant");
    let path = tree.create("web", 1).unwrap();
    let owner = File::options().read(true).write(true).open(&path).unwrap();
    tree.map(7, &path, "rw-s", owner.metadata().unwrap().len());
    let open = || tree.find(7, own_uid()).map(Option::unwrap);
    let offered = open().unwrap().layout.host_features;
    let (host, guest) =
        (offset_of!(paracord_header, host_features), offset_of!(paracord_header, guest_features));
    let all = !layout::PARACORD_F_PMU_DOORBELL;
    for at in [host, guest] {
        owner.write_all_at(&all.to_le_bytes(), at as u64).unwrap();
    }
    owner.write_all_at(&[1, 0], offset_of!(paracord_header, guest_abi_major) as u64).unwrap();
    let line = offset_of!(paracord_header, guest_line_bytes);
    owner.write_all_at(&64u32.to_le_bytes(), line as u64).unwrap();
    let region = open().unwrap();
    assert_eq!(region.layout.host_features, offered);
    assert_eq!(region.guest_driver().unwrap().unwrap().features, offered);
    assert!(!region.asks_at_kicks());
    let listed = region_file::list(&tree.dir()).unwrap();
    assert_eq!(listed[0].features, paracord_abi::feature_names(offered));
    // The guest may withdraw features that the region offers.
    owner.write_all_at(&[0; 4], host as u64).unwrap();
    assert_eq!(open().unwrap().layout.host_features, 0);
    // An earlier version of paracord has created the region.
    owner.write_all_at(&all.to_le_bytes(), host as u64).unwrap();
    std::fs::remove_file(tree.dir().join(".web.offered")).unwrap();
    let region = open().unwrap();
    let names = paracord_abi::feature_names(region.layout.host_features);
    assert_eq!((region.lacks_copy, names), (true, vec!["boost", "preempt_count", "kick"]));
}

/// A VMM that serves the counters itself says so in the header.
#[test]
fn counters_that_the_vmm_serves_are_not_served_again() {
    let tree = Tree::new("doorbell");
    let events = crate::counters::Offer::probe("task-clock".parse().unwrap());
    let events = events.events().copied().collect();
    let offer = Offer { slots: 1, events, ..Offer::default() };
    let path = region_file::create(&tree.dir(), "web", &offer).unwrap();
    let owner = File::options().read(true).write(true).open(&path).unwrap();
    tree.map(7, &path, "rw-s", owner.metadata().unwrap().len());
    let open = || tree.find(7, own_uid()).unwrap().unwrap();
    let features = open().layout.host_features;
    assert!(open().asks_at_kicks());
    let with = features | layout::PARACORD_F_PMU_DOORBELL;
    let host = offset_of!(paracord_header, host_features);
    owner.write_all_at(&with.to_le_bytes(), host as u64).unwrap();
    assert!(!open().asks_at_kicks());
}

#[test]
fn a_shortened_file_is_an_error_not_a_signal() {
    let tree = Tree::new("short");
    let path = tree.create("web", 1).unwrap();
    let bytes = std::fs::metadata(&path).unwrap().len();
    tree.map(7, &path, "rw-s", bytes);
    let region = tree.find(7, own_uid()).unwrap().unwrap();
    File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
    assert!(region.guest_driver().is_err());
    let _ = region.write_boost(0, HostBoost::default());
}

/// The owner may hold the lock of the file for any length of time. In this test, fallocate(2) holds
/// the lock until all pages are allocated.
#[test]
fn no_write_waits_for_the_lock_of_the_file() {
    let tree = Tree::new("lock");
    let path = tree.create("web", 2).unwrap();
    let (begin, bytes) = (std::fs::metadata(&path).unwrap().len(), 32 << 20);
    tree.map(7, &path, "rw-s", begin);
    let region = tree.find(7, own_uid()).unwrap().unwrap();
    let owner = File::options().read(true).write(true).open(&path).unwrap();
    let allocated = || owner.metadata().unwrap().blocks() * 512;
    // The scheduler may at first run only the owner's thread. The write then comes too late, and
    // the test tries again.
    let overtakes = (0..50).any(|boosts| {
        owner.set_len(begin).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| fallocate(&owner, FallocateFlags::empty(), begin, bytes).unwrap());
            while allocated() < begin + (64 << 10) {
                std::hint::spin_loop();
            }
            region.write_boost(1, HostBoost { boosts, ..HostBoost::default() }).unwrap();
            region.write_place(1, HostPlace::UNKNOWN).unwrap();
            region.write_answer(1, &[7; PMU_HOST_BYTES]).unwrap();
            region.read_asks(1).unwrap();
            region.guest_driver().unwrap();
            allocated() < begin + bytes
        })
    });
    assert!(overtakes, "each access waited until the owner let go of the file");
    assert_eq!(region.read_answer(1).unwrap(), [7; PMU_HOST_BYTES]);
}

#[test]
fn what_the_owner_does_to_the_file_ends_when_it_ends() {
    let tree = Tree::new("holes");
    let path = tree.create("web", 2).unwrap();
    let bytes = std::fs::metadata(&path).unwrap().len();
    tree.map(7, &path, "rw-s", bytes);
    let region = tree.find(7, own_uid()).unwrap().unwrap();
    let owner = File::options().read(true).write(true).open(&path).unwrap();
    fallocate(&owner, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, bytes).unwrap();
    region.write_answer(1, &[7; PMU_HOST_BYTES]).unwrap();
    owner.set_len(4096).unwrap();
    assert!(region.write_answer(1, &[8; PMU_HOST_BYTES]).is_err());
    assert!(region.read_asks(1).is_err());
    owner.set_len(bytes).unwrap();
    region.write_answer(1, &[9; PMU_HOST_BYTES]).unwrap();
    let mut copy = [0; PMU_HOST_BYTES];
    let at = region.layout.slot_offset(1).unwrap() + PMU_HOST_OFFSET as u64;
    owner.read_exact_at(&mut copy, at).unwrap();
    assert_eq!(copy, [9; PMU_HOST_BYTES]);
    assert_eq!(region.slow_io(), (0, 0), "none of this is slow");
}

#[test]
fn regions_lie_on_tmpfs_and_are_small() {
    let disk = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).or_else(|_| tempfile::tempfile());
    let disk = disk.unwrap();
    let is_tmpfs = rustix::fs::fstatfs(&disk).unwrap().f_type == libc::TMPFS_MAGIC;
    match RegionIo::new(disk, 4096) {
        Ok(_) => assert!(is_tmpfs),
        Err(refused) => assert!(!is_tmpfs && refused.to_string().contains("not on tmpfs")),
    }
    let memory = || tempfile::tempfile_in("/dev/shm").unwrap();
    assert!(RegionIo::new(memory(), paracord_abi::region_bytes(4096)).is_ok());
    let refused = RegionIo::new(memory(), (16 << 20) + 1).unwrap_err().to_string();
    assert_eq!(refused, "its slots end at byte 16777217, beyond 16777216");
}
