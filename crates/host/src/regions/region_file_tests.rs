// SPDX-License-Identifier: GPL-2.0-only
use super::*;

const OFFER: Offer = Offer {
    events: Vec::new(),
    slots: 4,
    kick: true,
    preempt_count: true,
    capacity: false,
    domains: Vec::new(),
    stale_boost_kick_us: 0,
    owner: None,
};

fn directory(name: &str) -> PathBuf {
    // Regions lie on tmpfs.
    let path = PathBuf::from(format!("/dev/shm/paracord-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    path
}

#[test]
fn created_regions_are_listed_and_removed() {
    let dir = directory("region-life");
    assert_eq!(list(&dir).unwrap(), []);
    let path = create(&dir, "web", &OFFER).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(&dir).unwrap().mode() & 0o066, 0, "others may list the directory");
    assert!(matches!(create(&dir, "web", &OFFER), Err(RegionFileError::Exists(_))));
    let all = list(&dir).unwrap();
    assert_eq!((all.len(), all[0].slots, all[0].guest_driver), (1, Some(4), false));
    assert_eq!(all[0].bytes, paracord_abi::region_bytes(4));
    assert_eq!(all[0].features, ["boost", "preempt_count", "kick"]);
    fs::write(dir.join("junk"), b"short").unwrap();
    assert!(list(&dir).unwrap().iter().any(|l| l.name == "junk" && l.refused.is_some()));
    remove(&dir, Path::new("/proc"), "web").unwrap();
    assert!(matches!(remove(&dir, Path::new("/proc"), "web"), Err(RegionFileError::Missing(_))));
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn domains_are_listed_and_what_they_offer_with_them() {
    let dir = directory("region-domains");
    let domain = Domain::from_frequencies(&[450_000, 950_000], 383, true).unwrap();
    let offer = Offer { capacity: true, domains: vec![domain], ..OFFER };
    let path = create(&dir, "big", &offer).unwrap();
    let one = list(&dir).unwrap().remove(0);
    assert_eq!(one.features, ["boost", "preempt_count", "kick", "perf_request", "capacity"]);
    let shown =
        ListedDomain { capacity: 383, max_khz: 950_000, shared: true, levels: vec![486, 1024] };
    assert_eq!(one.domains, [shown]);
    // Write a table that a guest would refuse.
    let mut bytes = fs::read(&path).unwrap();
    bytes[layout::PARACORD_DOMAIN_OFFSET_BYTES as usize] = 0;
    bytes[layout::PARACORD_DOMAIN_OFFSET_BYTES as usize + 4] = 0;
    bytes[layout::PARACORD_DOMAIN_OFFSET_BYTES as usize + 5] = 0xff;
    fs::write(&path, bytes).unwrap();
    let one = list(&dir).unwrap().remove(0);
    assert!(one.refused.unwrap().contains("capacity"), "{:?}", one.domains);
    create(&dir, "plain", &Offer { capacity: true, ..OFFER }).unwrap();
    let plain = list(&dir).unwrap().remove(1);
    assert_eq!(plain.features, ["boost", "preempt_count", "kick", "capacity"]);
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn names_stay_inside_the_directory_and_the_option() {
    for bad in ["", "..", ".x", "a/b", "a,b", "a b", "é", &"x".repeat(65)] {
        let dir = Path::new("/nonexistent");
        assert!(matches!(create(dir, bad, &OFFER), Err(RegionFileError::Name(_))), "{bad:?}");
        assert!(
            matches!(remove(dir, Path::new("/proc"), bad), Err(RegionFileError::Name(_))),
            "{bad:?}"
        );
    }
    assert!(check_name("web-1.example_org").is_ok());
}

#[test]
fn slot_counts_are_limited() {
    let dir = directory("region-slots");
    for slots in [0, 4097] {
        let offer = Offer { slots, ..OFFER };
        assert!(matches!(create(&dir, "x", &offer), Err(RegionFileError::Header(_))));
    }
    assert!(!dir.exists());
}

#[test]
fn only_a_directory_on_tmpfs_is_used() {
    let dir = Path::new("/regions");
    let refused = |found| check_file_system(dir, found).unwrap_err().to_string();
    assert!(check_file_system(dir, FileSystem::Tmpfs).is_ok());
    let line = refused(FileSystem::HugePages);
    assert!(
        line.starts_with("/regions: lies on hugetlbfs, where files cannot be written"),
        "{line}"
    );
    let line = refused(FileSystem::Other);
    assert!(line.starts_with("/regions: lies on no tmpfs"), "{line}");
    // What `check_file_system` decides about a real directory depends on the machine. `create` must
    // decide the same.
    let real = tempfile::tempdir().unwrap();
    let found = FileSystem::of(&rustix::fs::statfs(real.path()).unwrap());
    let (made, decided) =
        (create(real.path(), "web", &OFFER), check_file_system(real.path(), found));
    assert_eq!(
        made.map(drop).map_err(|e| e.to_string()),
        decided.map_err(|e| e.to_string()),
        "{found:?}"
    );
}

/// Without O_NONBLOCK, open(2) would wait for the writer of a FIFO, and for the end of a lease that
/// the owner holds.
#[test]
fn a_list_does_not_wait_for_an_owner_who_has_replaced_the_file() {
    let dir = directory("region-fifo");
    let path = create(&dir, "web", &OFFER).unwrap();
    let meta = fs::metadata(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let (fifo, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR);
    rustix::fs::mknodat(CWD, &path, fifo, mode, 0).unwrap();
    let (say, hear) = std::sync::mpsc::channel();
    std::thread::spawn(move || say.send(describe("web".into(), path, &meta)).unwrap());
    let listed = hear.recv_timeout(std::time::Duration::from_secs(10)).unwrap();
    assert!(listed.refused.unwrap().contains("too small"));
    fs::remove_dir_all(&dir).unwrap();
}
