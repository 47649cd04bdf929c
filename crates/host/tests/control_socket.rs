// SPDX-License-Identifier: GPL-2.0-only
//! Tests the control socket with correct, faulty and hostile clients. The test takes the place of
//! the daemon.
#![allow(clippy::unwrap_used, reason = "a failed assumption of a test fails it")]

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use paracord_host::command_error::CommandError;
use paracord_host::control::{Access, Client, ClientError, ErrorCode, Request, Server, Stop};
use paracord_host::handle::{Message, channel};
use paracord_host::place::{PlaceMode, PlaceReport};
use paracord_host::scheduler::clamp_order::ClampTarget;
use paracord_host::settings::Mode;
use paracord_host::snapshot::{Snapshot, VmSnapshot};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Gid, Uid, geteuid};
use serde_json::Value;

/// A user that is neither root nor a user that runs tests.
const STRANGER: u32 = 65_534;
/// A group without members.
const GROUP: u32 = 54_321;

/// The answers of a daemon that has one VM, which is called web.
fn play(request: Request) -> Result<Value, CommandError> {
    match request {
        Request::VmSet { vm, .. } if vm != "web" => Err(CommandError::NoSuchVm(vm)),
        Request::VmPlace { vm, .. } if vm == "web" => {
            Ok(serde_json::to_value(PlaceReport { vm, ..PlaceReport::default() }).unwrap())
        }
        Request::VmPlaceGet { vm } | Request::VmPlaceClear { vm } if vm == "web" => Ok(Value::Null),
        Request::VmPlace { .. } | Request::VmPlaceGet { .. } | Request::VmPlaceClear { .. } => {
            Err(CommandError::Invalid("vCPU 0: this host has no CPU 9".into()))
        }
        Request::Reload {} => Err(CommandError::Invalid("p.toml:3: rt_prio: unknown key".into())),
        Request::ClampSet { .. } | Request::ClampGet { .. } | Request::ClampList {} => {
            Ok(Value::Array(Vec::new()))
        }
        _ => Ok(Value::Null),
    }
}

struct Served {
    socket: PathBuf,
    stop: Stop,
    server: Option<JoinHandle<()>>,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Served {
    fn start(name: &str, access: Access) -> Served {
        let dir =
            std::env::temp_dir().join(format!("paracord-control-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::set_permissions(&dir, PermissionsExt::from_mode(0o755)).unwrap();
        let socket = dir.join("control.sock");
        let (handle, messages) = channel().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        std::thread::spawn(move || {
            loop {
                let _ = poll(&mut [PollFd::from_borrowed_fd(messages.fd(), PollFlags::IN)], None);
                while let Some(message) = messages.next() {
                    log.lock().unwrap().push(format!("{message:?}"));
                    match message {
                        Message::Snapshot(answer) => drop(answer.send(Box::new(big_snapshot()))),
                        Message::Request(request, answer) => drop(answer.send(play(request))),
                    }
                }
            }
        });
        let server = Server::bind(&socket, access, handle).unwrap();
        let stop = server.stopper();
        let server = Some(std::thread::spawn(move || server.run()));
        Served { socket, stop, server, seen }
    }

    fn client(&self) -> Client {
        Client::connect(&self.socket).unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.stop();
        self.server.take().unwrap().join().unwrap();
        assert!(!self.socket.exists(), "the socket is removed at the end");
        let _ = std::fs::remove_dir_all(self.socket.parent().unwrap());
    }
}

/// A snapshot that is larger than any socket buffer.
fn big_snapshot() -> Snapshot {
    let vm = VmSnapshot { name: "x".repeat(200), ..Default::default() };
    Snapshot { vms: vec![vm; 4000], ..Default::default() }
}

fn own() -> Access {
    Access::own()
}

fn code(result: Result<serde_json::Value, ClientError>) -> ErrorCode {
    match result {
        Err(ClientError::Refused(failure)) => failure.code,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_request_is_answered() {
    let served = Served::start("requests", own());
    let mut client = served.client();
    let status = client.ask(&Request::Status {}).unwrap();
    assert_eq!(status["vms"].as_array().unwrap().len(), 4000);
    client.ask(&Request::Mode { mode: Mode::Observe }).unwrap();
    let set = |vm: &str, key: &str, value: &str| Request::VmSet {
        vm: vm.into(),
        set: [(key.to_owned(), value.to_owned())].into(),
    };
    client.ask(&set("web", "wake.grant_us", "500")).unwrap();
    assert_eq!(code(client.ask(&set("db", "mode", "off"))), ErrorCode::NoSuchVm);
    assert_eq!(code(client.ask(&Request::Reload {})), ErrorCode::Invalid);
    let target = ClampTarget::Task(7);
    client.ask(&Request::ClampSet { target, min: None, max: Some(200) }).unwrap();
    assert_eq!(client.ask(&Request::ClampList {}).unwrap(), serde_json::json!([]));
    let place = |vm: &str, place: &str| Request::VmPlace {
        vm: vm.into(),
        place: place.into(),
        mode: PlaceMode::Hints,
    };
    assert_eq!(client.ask(&place("web", "0=4-5")).unwrap()["vm"], "web");
    assert_eq!(code(client.ask(&place("db", "0=9"))), ErrorCode::Invalid);
    client.ask(&Request::VmPlaceGet { vm: "web".into() }).unwrap();
    client.ask(&Request::VmPlaceClear { vm: "web".into() }).unwrap();
    client.ask(&Request::Stop {}).unwrap();
    let seen = served.seen.lock().unwrap().join("\n");
    for part in [
        "Mode { mode: Observe }",
        "wake.grant_us",
        "mode: Hints",
        "VmPlaceGet { vm: \"web\" }",
        "VmPlaceClear { vm: \"web\" }",
        "ClampSet { target: Task(7), min: None, max: Some(200) }",
        "Request(Stop",
    ] {
        assert!(seen.contains(part), "no {part} in {seen}");
    }
}

#[test]
fn the_socket_is_closed_to_others_by_its_mode() {
    let served = Served::start("mode", own());
    assert_eq!(std::fs::metadata(&served.socket).unwrap().mode() & 0o777, 0o600);
}

#[test]
fn garbage_is_refused_and_the_connection_goes_on() {
    let served = Served::start("garbage", own());
    let mut stream = UnixStream::connect(&served.socket).unwrap();
    // Several lines in one write: the server answers each line, in order.
    stream
        .write_all(
            b"hello\n\n{\"command\":\"fly\"}\n\xff\xfe\n{\"command\":\"mode\",\"mode\":\"on\"}\n",
        )
        .unwrap();
    let mut lines = BufReader::new(stream).lines();
    for _ in 0..4 {
        let line = lines.next().unwrap().unwrap();
        assert!(line.contains("\"bad_request\""), "{line}");
    }
    assert!(lines.next().unwrap().unwrap().contains("\"protocol\":1"));
}

#[test]
fn endless_requests_are_cut_off() {
    let served = Served::start("endless", own());
    let mut stream = UnixStream::connect(&served.socket).unwrap();
    let _ = stream.write_all(&[b'x'; 64 * 1024]);
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    assert!(answer.contains("\"bad_request\""), "{answer}");
    served.client().ask(&Request::Status {}).unwrap();
}

#[test]
fn clients_that_do_not_read_hold_nobody_up() {
    let served = Served::start("slow", own());
    let lazy: Vec<UnixStream> = (0..5)
        .map(|_| {
            let mut stream = UnixStream::connect(&served.socket).unwrap();
            stream.set_nonblocking(true).unwrap();
            for _ in 0..500 {
                let _ = stream.write(b"{\"command\":\"status\"}\n");
            }
            stream
        })
        .collect();
    let begun = Instant::now();
    for _ in 0..5 {
        served.client().ask(&Request::Status {}).unwrap();
    }
    // A server that waited for a lazy client would wait for a minute (IDLE_MAX). The limit in this
    // test is high, because a busy machine is also slow.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    drop(lazy);
}

#[test]
fn there_is_a_limit_of_clients_and_room_again_afterwards() {
    let served = Served::start("many", own());
    let mut clients: Vec<Client> = Vec::new();
    let busy = (0..40).find_map(|_| {
        let mut client = served.client();
        match client.ask(&Request::Mode { mode: Mode::On }) {
            Ok(_) => {
                clients.push(client);
                None
            }
            refused => Some(code(refused)),
        }
    });
    assert_eq!(busy, Some(ErrorCode::Busy));
    clients.clear();
    std::thread::sleep(Duration::from_millis(200));
    served.client().ask(&Request::Status {}).unwrap();
}

#[test]
fn a_dead_daemons_socket_is_replaced_and_a_file_is_not() {
    let served = Served::start("replace", own());
    let error = Server::bind(&served.socket, own(), channel().unwrap().0).err().unwrap();
    assert!(error.to_string().contains("another paracord"), "{error}");
    let file = served.socket.with_file_name("file");
    std::fs::write(&file, "keep").unwrap();
    let error = Server::bind(&file, own(), channel().unwrap().0).err().unwrap();
    assert!(error.to_string().contains("not a socket"), "{error}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "keep");
    let stale = served.socket.with_file_name("stale");
    drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
    Server::bind(&stale, own(), channel().unwrap().0).unwrap();
}

/// Sends a request from a thread with other credentials (credentials are per thread).
fn ask_as(uid: u32, gid: u32, groups: &[u32], socket: &Path) -> Result<(), ClientError> {
    let (socket, groups) = (socket.to_owned(), groups.to_owned());
    std::thread::spawn(move || {
        let gids: Vec<Gid> = groups.iter().map(|g| Gid::from_raw(*g)).collect();
        rustix::thread::set_thread_groups(&gids).unwrap();
        let (gid, uid) = (Gid::from_raw(gid), Uid::from_raw(uid));
        rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
        rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
        Client::connect(&socket)?.ask(&Request::Mode { mode: Mode::On }).map(drop)
    })
    .join()
    .unwrap()
}

#[test]
fn strangers_are_refused_even_when_the_mode_lets_them_connect() {
    if !geteuid().is_root() {
        // Without root, the test cannot change credentials. Instead, it makes the server refuse the
        // user who runs the test.
        let served = Served::start("stranger", Access { user: STRANGER, group: None });
        let result = served.client().ask(&Request::Status {});
        assert_eq!(code(result), ErrorCode::Denied);
        return;
    }
    let served = Served::start("stranger", Access { user: 0, group: Some(GROUP) });
    let meta = std::fs::metadata(&served.socket).unwrap();
    assert_eq!((meta.mode() & 0o777, meta.gid()), (0o660, GROUP));
    let denied = ask_as(STRANGER, STRANGER, &[], &served.socket);
    assert!(matches!(denied, Err(ClientError::Denied(_))), "{denied:?}");

    std::fs::set_permissions(&served.socket, PermissionsExt::from_mode(0o666)).unwrap();
    match ask_as(STRANGER, STRANGER, &[], &served.socket) {
        Err(ClientError::Refused(failure)) => assert_eq!(failure.code, ErrorCode::Denied),
        other => panic!("{other:?}"),
    }
    assert!(served.seen.lock().unwrap().is_empty(), "a refused client reached the daemon");
    ask_as(STRANGER, GROUP, &[], &served.socket).unwrap();
    ask_as(STRANGER, STRANGER, &[7, GROUP], &served.socket).unwrap();
    ask_as(0, 0, &[], &served.socket).unwrap();
}
