// SPDX-License-Identifier: GPL-2.0-only
//! A server with real sockets, for regions on tmpfs.

use std::time::Instant;

use rustix::event::{EventfdFlags, eventfd};

use super::super::protocol::tests::receive;
use super::*;

fn await_that(what: &str, is: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !is() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn make(regions: &Path, name: &str) {
    let (new, bytes) = (regions.join(".new"), paracord_abi::region_bytes(2));
    fs::write(&new, paracord_abi::new_region(2, 0, 0, &[]).unwrap()).unwrap();
    File::options().write(true).open(&new).unwrap().set_len(bytes).unwrap();
    fs::rename(new, regions.join(name)).unwrap();
}

#[test]
fn sockets_follow_regions_and_vectors_their_clients() {
    // Regions must lie on tmpfs.
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let (sockets, regions) = (dir.path().join("ivshmem"), dir.path().join("regions"));
    let make = |name: &str| make(&regions, name);
    fs::create_dir(&regions).unwrap();
    make("old");
    let connected = Arc::<Connected>::default();
    let mut server = Server::new(&sockets, &regions, Arc::clone(&connected));
    let stop = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    let theirs = stop.try_clone().unwrap();
    let thread = std::thread::spawn(move || server.run(&theirs));
    make("new");
    await_that("a socket for each", || {
        ["old", "new"].iter().all(|name| UnixStream::connect(sockets.join(name)).is_ok())
    });
    let client = UnixStream::connect(sockets.join("new")).unwrap();
    let numbers: Vec<i64> = (0..5).map(|_| receive(&client).0).collect();
    assert_eq!(numbers, [0, 0, -1, 0, 0]);
    let vectors = |name: &str| connected.vectors(name, identity_of(&regions.join(name)).unwrap());
    await_that("the client is known", || vectors("new").is_some());
    assert_eq!(vectors("new").unwrap().0.len(), 2);
    assert!(connected.vectors("new", identity_of(&regions.join("old")).unwrap()).is_none());
    drop(client);
    await_that("it is gone", || vectors("new").is_none());
    fs::remove_file(regions.join("new")).unwrap();
    await_that("its socket is gone", || !sockets.join("new").exists());
    fs::write(regions.join("old"), "no region").unwrap();
    let refused = UnixStream::connect(sockets.join("old")).unwrap();
    await_that("closed without a word", || rustix::io::read(&refused, &mut [0; 8]) == Ok(0));
    // Remove both directories, as happens when the file system is mounted again. For a while, a
    // file with the same name keeps the server from recreating one of them.
    await_that("a file is in the way", || {
        let _ = fs::remove_dir_all(&sockets);
        fs::write(&sockets, "in the way").is_ok()
    });
    fs::remove_dir_all(&regions).unwrap();
    fs::create_dir_all(&regions).unwrap();
    make("third");
    std::thread::sleep(Duration::from_millis(2500));
    fs::remove_file(&sockets).unwrap();
    await_that("a socket in the directory that was made anew", || {
        UnixStream::connect(sockets.join("third")).is_ok()
    });
    rustix::io::write(&stop, &1u64.to_ne_bytes()).unwrap();
    thread.join().unwrap();
}

/// A server with one region. The region's socket belongs to another user, as if that user had owned
/// the region when the socket was made.
fn server_of_another_user(dir: &Path) -> Server {
    let regions = dir.join("regions");
    fs::create_dir(&regions).unwrap();
    make(&regions, "web");
    let mut server = Server::new(&dir.join("ivshmem"), &regions, Arc::default());
    server.sockets.get_mut("web").unwrap().owner += 1;
    server
}

/// Lets `server` run while `change` is made, and returns whether a client gets the region
/// afterwards.
fn is_served_after(dir: &Path, mut server: Server, change: impl FnOnce()) -> bool {
    let stop = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    let theirs = stop.try_clone().unwrap();
    let thread = std::thread::spawn(move || server.run(&theirs));
    change();
    let end = Instant::now() + Duration::from_secs(10);
    let is_served = || {
        let Ok(client) = UnixStream::connect(dir.join("ivshmem/web")) else { return false };
        client.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        rustix::io::read(&client, &mut [0; 8]) == Ok(8)
    };
    let mut served = false;
    while !served && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(50));
        served = is_served();
    }
    rustix::io::write(&stop, &1u64.to_ne_bytes()).unwrap();
    thread.join().unwrap();
    served
}

#[test]
fn a_socket_does_not_give_another_users_region() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut server = server_of_another_user(dir.path());
    let client = UnixStream::connect(dir.path().join("ivshmem/web")).unwrap();
    assert!(server.accept("web").is_err());
    assert_eq!(rustix::io::read(&client, &mut [0; 8]), Ok(0), "nothing was sent");
    let meta = fs::metadata(dir.path().join("regions/web")).unwrap();
    let socket = server.sockets.get_mut("web").unwrap();
    let refused = check_owner(&meta, socket).unwrap_err().to_string();
    assert_eq!(refused, "the region is not its socket's any more");
    socket.owner = meta.uid();
    check_owner(&meta, socket).unwrap();
    assert!(check_owner(&fs::metadata(dir.path()).unwrap(), socket).is_err(), "a directory");
}

/// Only root can give a file away with chown(2), so the test uses chmod(2), which causes the same
/// event.
#[test]
fn a_region_that_gets_another_owner_gets_another_socket() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let server = server_of_another_user(dir.path());
    let region = dir.path().join("regions/web");
    assert!(is_served_after(dir.path(), server, || {
        fs::set_permissions(&region, fs::Permissions::from_mode(0o640)).unwrap();
    }));
}

#[test]
fn a_region_in_a_directory_that_was_made_anew_gets_another_socket() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let server = server_of_another_user(dir.path());
    let regions = dir.path().join("regions");
    assert!(is_served_after(dir.path(), server, || {
        // The rename causes no event, because the old directory still contains the same files.
        fs::rename(&regions, dir.path().join("old")).unwrap();
        fs::create_dir(&regions).unwrap();
        make(&regions, "web");
    }));
}

/// The kernel keeps a sent descriptor open until the receiver reads it, even if the sender closes
/// its end.
#[test]
fn clients_that_read_nothing_get_a_few_regions_and_no_more() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let regions = dir.path().join("regions");
    fs::create_dir(&regions).unwrap();
    make(&regions, "web");
    make(&regions, "db");
    let mut server = Server::new(&dir.path().join("ivshmem"), &regions, Arc::default());
    let mut connect = |region: &str| {
        let client = UnixStream::connect(dir.path().join("ivshmem").join(region)).unwrap();
        server.accept(region).map(|()| client).map_err(|error| error.to_string())
    };
    // A client of a region with two vCPUs is sent three descriptors.
    let both = ["web", "db"].into_iter().cycle().take(UNREAD_MAX / 3);
    let mut clients: Vec<_> = both.map(|region| connect(region).unwrap()).collect();
    assert!(connect("web").unwrap_err().contains("have not read 513 descriptors"));
    // One client ends, and another one reads: each of these events makes room for one more client.
    clients.pop();
    (0..5).for_each(|_| drop(receive(&clients[0])));
    let more: Vec<_> = (0..2).map(|_| connect("db").unwrap()).collect();
    assert!(connect("web").is_err());
    drop(more);
}
