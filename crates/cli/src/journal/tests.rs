// SPDX-License-Identifier: GPL-2.0-only
//! Log lines with a real socket in the journal's place.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use tracing_subscriber::layer::SubscriberExt;

use super::*;

/// More lines than a socket's queue holds (net.unix.max_dgram_qlen).
const MANY: usize = 700;

#[test]
fn the_journals_stream_is_known_by_device_and_inode() {
    let dir = tempfile::tempdir().unwrap();
    let (one, other) = (dir.path().join("one"), dir.path().join("other"));
    let (one, other) = (File::create(one).unwrap(), File::create(other).unwrap());
    let meta = one.metadata().unwrap();
    let value = format!("{}:{}", meta.dev(), meta.ino());
    assert!(is_stream(&value, &one));
    assert!(!is_stream(&value, &other));
    for wrong in ["", ":", "x:y", &format!("{}", meta.ino()), &format!("{value}:0")] {
        assert!(!is_stream(wrong, &one), "{wrong}");
    }
}

#[test]
fn a_journal_that_is_absent_or_full_takes_no_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    assert!(!takes_a_line(&path));
    let socket = UnixDatagram::bind(&path).unwrap();
    assert!(takes_a_line(&path));
    let sender = UnixDatagram::unbound().unwrap();
    sender.set_nonblocking(true).unwrap();
    while takes_a_line(&path) {
        sender.send_to(b"X=1\n", &path).unwrap();
    }
    socket.recv(&mut [0; 16]).unwrap();
    assert!(takes_a_line(&path));
    drop(socket);
    // A process that another test starts has a copy of the socket until its execve(2), so the
    // socket may stay open for a moment.
    let is_gone = (0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(5));
        !takes_a_line(&path)
    });
    assert!(is_gone);
}

/// Whether this user can mount a directory over the journal's directory. Some distributions allow
/// only root to do that.
fn can_mount() -> bool {
    let args = ["--mount", "--map-root-user", "mount", "-t", "tmpfs", "none", "/run"];
    let can = Command::new("unshare").args(args).status().is_ok_and(|status| status.success());
    if !can {
        eprintln!("skipped: no mount namespace for this user");
    }
    can
}

/// Runs [`writes_lines`] in a process that finds `dir/socket` where the journal's socket is, and
/// whose standard error is the journal's stream. Returns what the process has written to standard
/// error.
fn write_lines(dir: &Path, what: &str) -> String {
    let script = "mount -t tmpfs none /run && mkdir -p /run/systemd/journal \
        && mount --bind \"$DIR\" /run/systemd/journal && exec \"$0\" \"$@\"";
    let stderr = File::create(dir.join("stderr")).unwrap();
    let meta = stderr.metadata().unwrap();
    // 60 s is the longest time that the process takes on a busy machine.
    let status = Command::new("timeout")
        .args(["60", "unshare", "--mount", "--map-root-user", "sh", "-c", script])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "journal::tests::writes_lines", "--ignored", "--nocapture"])
        .env("DIR", dir)
        .env("WHAT", what)
        .env("JOURNAL_STREAM", format!("{}:{}", meta.dev(), meta.ino()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(stderr)
        .status()
        .unwrap();
    let text = std::fs::read_to_string(dir.join("stderr")).unwrap();
    assert!(status.success(), "{status}: {text}");
    text
}

#[test]
#[ignore = "other tests run it, with a journal of their own"]
fn writes_lines() {
    let Ok(what) = std::env::var("WHAT") else { return };
    let subscriber = tracing_subscriber::registry().with(crate::log::lines());
    tracing::subscriber::with_default(subscriber, || match what.as_str() {
        "many" => (0..MANY).for_each(|n| tracing::info!("line {n};")),
        _ => {
            let (vm, mode) = ("web\nSERVER", Some(7));
            tracing::info!(vm, pid = 7, name = "x", ?mode, "VM found");
            let span = tracing::info_span!("a span", inside = 1);
            span.in_scope(|| tracing::warn!("in a span"));
            tracing::debug!("detail");
            // The journal goes away.
            std::fs::remove_file(SOCKET).unwrap();
            tracing::error!(vm = "db", "no journal");
        }
    });
}

/// A journal in a directory of its own.
fn journal() -> (tempfile::TempDir, UnixDatagram) {
    let dir = tempfile::tempdir().unwrap();
    let socket = UnixDatagram::bind(dir.path().join("socket")).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    (dir, socket)
}

/// The entries that the journal has received: name and value of each field.
fn entries(socket: &UnixDatagram) -> Vec<Vec<(String, String)>> {
    let mut bytes = [0; 8192];
    let datagrams =
        std::iter::from_fn(|| socket.recv(&mut bytes).ok().map(|n| bytes[..n].to_vec()));
    // `tracing_journald` sends an empty datagram at its start.
    datagrams.filter(|datagram| !datagram.is_empty()).map(|datagram| parse(&datagram)).collect()
}

/// Parses an entry of the journal's native protocol.
fn parse(mut bytes: &[u8]) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    while let Some(end) = bytes.iter().position(|&byte| byte == b'\n') {
        let line = std::str::from_utf8(&bytes[..end]).unwrap();
        bytes = &bytes[end + 1..];
        if let Some((name, value)) = line.split_once('=') {
            fields.push((name.to_owned(), value.to_owned()));
            continue;
        }
        let (length, rest) = bytes.split_at(8);
        let length = usize::try_from(u64::from_le_bytes(length.try_into().unwrap())).unwrap();
        fields.push((line.to_owned(), String::from_utf8(rest[..length].to_vec()).unwrap()));
        bytes = &rest[length + 1..];
    }
    fields
}

fn field<'e>(entry: &'e [(String, String)], name: &str) -> Vec<&'e str> {
    entry.iter().filter(|(one, _)| one == name).map(|(_, value)| value.as_str()).collect()
}

#[test]
fn entries_have_text_priority_and_fields_and_a_lost_journal_loses_no_line() {
    if !can_mount() {
        return;
    }
    let (dir, socket) = journal();
    let stderr = write_lines(dir.path(), "fields");
    let entries = entries(&socket);
    let of = |name| entries.iter().map(|entry| field(entry, name)).collect::<Vec<_>>();
    let found = "VM found vm=\"web\\nSERVER\" pid=7 name=\"x\" mode=Some(7)";
    assert_eq!(of("MESSAGE"), [[found], ["in a span"], ["detail"]]);
    assert_eq!(of("PRIORITY"), [["6"], ["4"], ["7"]]);
    let first = &entries[0];
    assert_eq!(field(first, "VM"), ["web\nSERVER"]);
    assert_eq!((field(first, "PID"), field(first, "MODE")), (vec!["7"], vec!["Some(7)"]));
    assert_eq!(field(first, "NAME"), [""; 0], "not in FIELDS");
    assert_eq!(stderr, "ERROR no journal vm=\"db\"\n");
}

#[test]
fn a_full_journal_loses_no_line() {
    if !can_mount() {
        return;
    }
    let (dir, socket) = journal();
    let stderr = write_lines(dir.path(), "many");
    let mut lines: Vec<String> = entries(&socket)
        .iter()
        .flat_map(|entry| field(entry, "MESSAGE"))
        .map(str::to_owned)
        .collect();
    let in_journal = lines.len();
    lines.extend(stderr.lines().filter_map(|line| Some(line.strip_prefix(" INFO ")?.to_owned())));
    assert!(in_journal > 0 && in_journal < MANY, "{in_journal}");
    assert_eq!(lines, (0..MANY).map(|n| format!("line {n};")).collect::<Vec<_>>());
}

#[test]
fn the_documentation_lists_every_field() {
    let page = include_str!("../../../../docs/logging.md");
    for name in FIELDS {
        let name = name.to_uppercase();
        assert!(page.contains(&format!("\n| `{name}` |")), "{name}");
    }
}
