// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Pools leave nothing behind. Alone in its process: other tests' files would be counted too.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use paracord_devices::pmu::{Budget, Mode, Offer, Pool, Quota, Settings, Want};

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn a_thousand_pools_leave_no_file_open() {
    let offer = Arc::new(Offer::probe());
    let event = offer.find("task-clock").unwrap();
    let quota = Quota { opens_per_sec: u32::MAX, ..Quota::default() };
    let before = open_files();
    for n in 0..1000_u32 {
        let mode = [Mode::Keyed, Mode::Last, Mode::Recreate][n as usize % 3];
        let settings = Settings { mode, ..Settings::default() };
        let mut pool = Pool::new(Arc::clone(&offer), Arc::new(Budget::new(quota)), settings);
        let want = Want { event, user: true, kernel: true, ..Want::default() };
        pool.start(0, want).unwrap();
        pool.start(1, Want { period: 1 << 40, ..want }).unwrap();
        // Bad ones leave nothing either.
        pool.start(2, Want { event: u32::MAX, ..want }).unwrap_err();
        pool.stop(0).unwrap();
        assert!(open_files() > before);
    }
    assert_eq!(open_files(), before);
}
