// SPDX-License-Identifier: GPL-2.0-only
//! Tests in which several threads work on the same vCPU, with a real region and without any perf
//! event.

use std::cell::Cell;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use paracord_abi::{PMU_GUEST_OFFSET, PMU_HOST_OFFSET, PMU_SERVED_OFFSET};
use paracord_devices::pmu::{Area, Budget, Offer, Pool, Settings};

use super::*;
use crate::counters::requests::Requests;
use crate::regions::mapped::MappedRegion;
use crate::regions::region::Region;
use crate::regions::region_file;

const INDEX: u32 = 5;

/// A region for one vCPU, and a fake procfs in which a process maps this region.
struct Guest {
    root: PathBuf,
    file: File,
    slot: u64,
    region: Arc<Region>,
}

impl Guest {
    fn new(name: &str) -> Guest {
        let root = PathBuf::from(format!("/dev/shm/paracord-table-{name}-{}", std::process::id()));
        let offer = region_file::Offer { slots: 1, kick: true, ..Default::default() };
        let path = region_file::create(&root.join("regions"), "web", &offer).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let meta = file.metadata().unwrap();
        let (major, minor) = (rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
        let (end, inode) = (0x10000 + meta.len(), meta.ino());
        let maps = format!("10000-{end:x} rw-s 00000000 {major:02x}:{minor:02x} {inode}   /x\n");
        std::fs::create_dir_all(root.join("proc/7")).unwrap();
        std::fs::write(root.join("proc/7/maps"), maps).unwrap();
        let mapped = MappedRegion::find(&root.join("regions"), &root.join("proc"), 7).unwrap();
        let region = Arc::new(Region::open(mapped, meta.uid()).unwrap());
        let slot = region.layout.slot_offset(0).unwrap();
        Guest { root, file, slot, region }
    }

    fn served(&self) -> Option<Box<Served>> {
        let budget = Arc::new(Budget::default());
        let pool = Pool::new(Arc::<Offer>::default(), Arc::clone(&budget), Settings::default());
        let requests = Requests::File { region: Arc::clone(&self.region), vcpu_id: 0 };
        let area = Area::new(pool);
        Some(Box::new(Served { requests, area, budget, vectors: None, vcpu_id: 0 }))
    }

    /// Makes request `number`.
    fn ask(&self, number: u32) {
        self.file.write_all_at(&number.to_le_bytes(), self.slot + PMU_GUEST_OFFSET as u64).unwrap();
    }

    /// Number of the last request that was answered.
    fn answered(&self) -> u32 {
        let mut copy = [0; 4];
        let at = self.slot + (PMU_HOST_OFFSET + PMU_SERVED_OFFSET) as u64;
        self.file.read_exact_at(&mut copy, at).unwrap();
        u32::from_le_bytes(copy)
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

/// Whether `call` returns in another thread while this thread only waits.
fn returns(call: impl FnOnce() + Send + 'static) -> bool {
    let (say, hear) = channel();
    std::thread::spawn(move || {
        call();
        say.send(()).unwrap();
    });
    hear.recv_timeout(Duration::from_secs(10)).is_ok()
}

fn setting(name: &str) -> (Arc<Guest>, Arc<Table>) {
    let (guest, table) = (Arc::new(Guest::new(name)), Arc::new(Table::new()));
    table.replace(INDEX, guest.served(), |_| ());
    (guest, table)
}

#[test]
fn a_worker_does_not_wait_for_the_main_thread_and_no_request_is_lost() {
    let (guest, table) = setting("worker");
    guest.ask(1);
    table.serve(INDEX, now_ns(), |_| ());
    assert_eq!(guest.answered(), 1);
    // This lock stands in for a main thread that is preempted while it holds the vCPU.
    let suspended = table.entries[INDEX as usize].served.try_lock().unwrap();
    guest.ask(2);
    let theirs = Arc::clone(&table);
    assert!(returns(move || theirs.serve(INDEX, now_ns(), |_| ())));
    assert_eq!(guest.answered(), 1);
    drop(suspended);
    table.end_slice(INDEX, |_| ());
    assert_eq!((guest.answered(), table.take_lost()), (2, 0));
}

#[test]
fn the_main_thread_does_not_wait_for_a_worker_that_hangs() {
    let (guest, table) = setting("main");
    assert!(table.totals(INDEX, |_| ()).is_some());
    // This lock stands in for a worker that hangs in an access to the region.
    let hangs = table.entries[INDEX as usize].served.try_lock().unwrap();
    let (theirs, owner) = (Arc::clone(&table), Arc::clone(&guest));
    assert!(returns(move || {
        theirs.end_slice(INDEX, |_| ());
        assert!(theirs.totals(INDEX, |_| ()).is_some(), "the totals of before");
        theirs.replace(INDEX, None, |_| ());
        theirs.replace(INDEX, owner.served(), |_| ());
        theirs.replace(INDEX, None, |_| ());
    }));
    drop(hangs);
    guest.ask(3);
    table.serve(INDEX, now_ns(), |_| ());
    assert_eq!(guest.answered(), 0, "the service has ended");
    assert!(table.totals(INDEX, |_| ()).is_none());
}

/// The test makes the second request while a thread works on the first one. It does so in `ignore`,
/// which that thread calls because the test has used up the budget.
#[test]
fn what_comes_while_a_thread_has_the_vcpu_is_done_by_that_thread() {
    let (guest, table) = setting("both");
    let served = guest.served().unwrap();
    let budget = Arc::clone(&served.budget);
    table.replace(INDEX, Some(served), |_| ());
    let number = Cell::new(0);
    let ask = || {
        number.set(number.get() + 1);
        guest.ask(number.get());
    };
    let came = Cell::new(false);
    for _ in 0..100 {
        // A new period of the budget may begin at any moment, so the budget may not be used up at
        // the first attempt.
        budget.charge(Duration::from_secs(1));
        ask();
        table.serve(INDEX, now_ns(), |_| {
            if !came.replace(true) {
                ask();
                table.serve(INDEX, now_ns(), |_| panic!("two threads have the vCPU"));
            }
        });
        assert_eq!(guest.answered(), number.get());
        if came.get() {
            return;
        }
    }
    panic!("the budget was never used up");
}

#[test]
fn a_truncated_region_loses_batches_and_nothing_else() {
    let (guest, table) = setting("lost");
    let bytes = guest.file.metadata().unwrap().len();
    guest.file.set_len(0).unwrap();
    table.serve(INDEX, now_ns(), |_| ());
    assert_eq!(table.take_lost(), 1);
    guest.file.set_len(bytes).unwrap();
    guest.ask(4);
    table.serve(INDEX, now_ns(), |_| ());
    assert_eq!((guest.answered(), table.take_lost()), (4, 0));
}
