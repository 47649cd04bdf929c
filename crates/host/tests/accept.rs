// SPDX-License-Identifier: GPL-2.0-only
//! Tests a process that has no free file descriptor: clients wait, and the servers sleep meanwhile.
//! This test has a process of its own, because it lowers the process's limit of file descriptors.
#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use paracord_host::config::Metrics;
use paracord_host::control::{Access, Server};
use paracord_host::handle::channel;
use paracord_host::metrics::MetricsServer;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, connect, socket};
use rustix::process::{Resource, Rlimit, setrlimit};

/// utime + stime of this process. `stat`: /proc/self/stat, which the test opens while there are
/// free file descriptors. If the test freed a descriptor for this file later, a server could take
/// that descriptor.
fn cpu_ticks(stat: &File) -> u64 {
    let mut text = [0; 1024];
    let length = stat.read_at(&mut text, 0).unwrap();
    let stat = std::str::from_utf8(&text[..length]).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn clients_that_cannot_be_accepted_take_no_cpu() {
    let dir = tempfile::tempdir().unwrap();
    let (handle, _commands) = channel().unwrap();
    let (control, scrape) = (dir.path().join("control"), dir.path().join("metrics"));
    let access = Access::own();
    let server = Server::bind(&control, access, handle.clone()).unwrap();
    let stop = server.stopper();
    let thread = std::thread::spawn(move || server.run());
    let config = Metrics {
        listen: None,
        socket: Some(scrape.clone()),
        textfile: None,
        textfile_interval_s: 1,
    };
    let metrics = MetricsServer::start(&config, None, handle).unwrap().unwrap();
    let clients = [&control, &scrape].map(|path| {
        let client = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        (client, SocketAddrUnix::new(path).unwrap())
    });
    let stat = File::open("/proc/self/stat").unwrap();
    let before = rustix::process::getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), maximum: before.maximum }).unwrap();
    let mut held = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        held.push(file);
    }
    for (client, address) in &clients {
        connect(client, address).unwrap();
    }
    let at_start = cpu_ticks(&stat);
    std::thread::sleep(Duration::from_secs(1));
    held.clear();
    let used = cpu_ticks(&stat) - at_start;
    setrlimit(Resource::Nofile, before).unwrap();
    assert!(used < 25, "{used} clock ticks in a second");
    stop.stop();
    thread.join().unwrap();
    drop(metrics);
}
