// SPDX-License-Identifier: GPL-2.0-only
//! Compares the policy's load tracking with the kernel's, update by update. Needs root and a kernel
//! with BTF: `cargo test -p paracord-sensor --test pelt -- --ignored`.
#![allow(clippy::unwrap_used)]

use std::{
    ffi::OsStr,
    thread,
    time::{Duration, Instant},
};

use libbpf_rs::{Link, MapCore, MapFlags, ObjectBuilder};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/pelt_check.bpf.o"));
const WATCHED: Duration = Duration::from_secs(3);
/// Number of updates that must have been compared. A busy second has several hundred.
const COMPARED_MIN: u64 = 500;

/// Four threads that compute and sleep, for times that do not match the periods of the load
/// tracking.
fn load() -> Vec<thread::JoinHandle<()>> {
    let end = Instant::now() + WATCHED;
    let one = move |busy_us, idle_us| {
        while Instant::now() < end {
            let until = Instant::now() + Duration::from_micros(busy_us);
            while Instant::now() < until {}
            thread::sleep(Duration::from_micros(idle_us));
        }
    };
    [(700, 300), (4_000, 6_000), (13_000, 50_000), (100, 2_900)]
        .map(|(busy_us, idle_us)| thread::spawn(move || one(busy_us, idle_us)))
        .into()
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn every_update_equals_the_kernels() {
    let object = ObjectBuilder::default().open_memory(OBJECT).unwrap().load().unwrap();
    let links: Vec<Link> = object.progs_mut().map(|program| program.attach().unwrap()).collect();
    for thread in load() {
        thread.join().unwrap();
    }
    drop(links);
    let result = object.maps().find(|map| map.name() == OsStr::new("result")).unwrap();
    let bytes = result.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).unwrap().unwrap();
    let word = |n: usize| u64::from_ne_bytes(bytes[8 * n..8 * n + 8].try_into().unwrap());
    let (compared, crossed, differing) = (word(0), word(1), word(2));
    println!("{compared} updates compared; a period ended in {crossed} of them");
    assert!(compared >= COMPARED_MIN && crossed > compared / 10, "{compared} {crossed}");
    let first: Vec<u64> = (3..9).map(word).collect();
    assert_eq!(
        differing, 0,
        "of {compared}; the first difference (ours, the kernel's): {first:x?}"
    );
}
