// SPDX-License-Identifier: GPL-2.0-only
//! Terminals that go away or accept no more output: a process that waits for such a terminal must
//! end, and must not use much CPU time.
#![allow(clippy::unwrap_used, reason = "a failed assumption of a test fails it")]

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use paracord_host::snapshot::{Snapshot, VmSnapshot};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Action, Winsize, tcflow, tcsetwinsize};

/// A process must end within this time.
const END_MAX: Duration = Duration::from_secs(2);
/// Limit of CPU time in clock ticks, which are hundredths of a second. A start and some draws cost
/// less, even on a slow machine. A busy loop costs far more.
const CPU_MAX_TICKS: u64 = 60;
/// The VM that `top` shows.
const VM: &str = "shown-vm";

struct Pty {
    master: File,
    slave: File,
}

impl Pty {
    fn new() -> Pty {
        let master =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let slave = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let size = Winsize { ws_row: 30, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&slave, size).unwrap();
        Pty { master: master.into(), slave }
    }

    fn stdio(&self) -> Stdio {
        self.slave.try_clone().unwrap().into()
    }
}

/// A directory with a recorded status.
fn recorded(name: &str) -> (PathBuf, String) {
    let dir = std::env::temp_dir().join(format!("paracord-tty-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let vms = vec![VmSnapshot { name: VM.into(), ..Default::default() }];
    let text = serde_json::to_string(&Snapshot { vms, ..Default::default() }).unwrap();
    std::fs::write(dir.join("status.json"), &text).unwrap();
    (dir, text)
}

/// Starts `paracord top` on a terminal of its own, and waits until it has drawn its first screen.
fn top(pty: &mut Pty, arguments: &[&str]) -> Child {
    let child = Command::new(env!("CARGO_BIN_EXE_paracord"))
        .args(["top", "--interval-ms", "250"])
        .args(arguments)
        .env("TERM", "xterm")
        .stdin(pty.stdio())
        .stdout(pty.stdio())
        .stderr(pty.stdio())
        .spawn()
        .unwrap();
    let mut seen = Vec::new();
    let mut some = [0; 4096];
    while !String::from_utf8_lossy(&seen).contains(VM) {
        let n = pty.master.read(&mut some).unwrap();
        seen.extend_from_slice(&some[..n]);
    }
    child
}

/// utime + stime of a process that runs or is a zombie.
fn cpu_ticks(child: &Child) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

fn is_zombie(child: &Child) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    stat.rsplit_once(')').unwrap().1.trim_start().starts_with('Z')
}

/// Checks that the process ends soon and has used little CPU time.
fn ends(mut child: Child, what: &str) -> ExitStatus {
    let start = Instant::now();
    while !is_zombie(&child) {
        if start.elapsed() > END_MAX {
            let ticks = cpu_ticks(&child);
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{what}: it runs on, {ticks} clock ticks so far");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let ticks = cpu_ticks(&child);
    assert!(ticks < CPU_MAX_TICKS, "{what}: {ticks} clock ticks");
    child.wait().unwrap()
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn a_terminal_that_goes_away_ends_top() {
    let (dir, _) = recorded("gone");
    let from = dir.join("status.json");
    let mut pty = Pty::new();
    let child = top(&mut pty, &["--from", from.to_str().unwrap()]);
    // Wait until `top` waits for a key. During drawing, a hang-up would make the write fail
    // instead.
    std::thread::sleep(Duration::from_millis(600));
    drop(pty);
    ends(child, "hang-up");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn signals_and_a_key_end_top_and_give_the_terminal_back() {
    let (dir, _) = recorded("signals");
    let from = dir.join("status.json");
    for how in [Some(Signal::TERM), Some(Signal::HUP), Some(Signal::INT), None] {
        let mut pty = Pty::new();
        let child = top(&mut pty, &["--from", from.to_str().unwrap()]);
        match how {
            Some(how) => signal(&child, how),
            None => pty.master.write_all(b"q").unwrap(),
        }
        assert!(ends(child, &format!("{how:?}")).success());
        let mut said = vec![0; 1 << 16];
        let n = pty.master.read(&mut said).unwrap();
        let said = String::from_utf8_lossy(&said[..n]).into_owned();
        assert!(said.contains("\u{1b}[?1049l"), "{how:?}: still on the other screen: {said:?}");
    }
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_terminal_that_takes_nothing_keeps_no_signal_from_top() {
    let (dir, _) = recorded("stopped");
    let from = dir.join("status.json");
    for how in [Signal::TERM, Signal::HUP] {
        let mut pty = Pty::new();
        let child = top(&mut pty, &["--from", from.to_str().unwrap()]);
        tcflow(&pty.slave, Action::OOff).unwrap();
        std::thread::sleep(Duration::from_millis(600));
        signal(&child, how);
        ends(child, &format!("output stopped, {how:?}"));
    }
    std::fs::remove_dir_all(dir).unwrap();
}

/// Answers the first request, and no other.
fn silent_daemon(socket: &Path, snapshot: &str) {
    let listener = UnixListener::bind(socket).unwrap();
    let answer = format!("{{\"protocol\":1,\"result\":{snapshot}}}\n");
    std::thread::spawn(move || {
        let (mut first, _) = listener.accept().unwrap();
        BufReader::new(first.try_clone().unwrap()).read_line(&mut String::new()).unwrap();
        first.write_all(answer.as_bytes()).unwrap();
        let mut unanswered = Vec::new();
        for client in listener.incoming() {
            unanswered.push(client);
        }
    });
}

#[test]
fn a_daemon_that_does_not_answer_keeps_no_signal_from_top() {
    let (dir, snapshot) = recorded("silent");
    let socket = dir.join("control.sock");
    silent_daemon(&socket, &snapshot);
    let mut pty = Pty::new();
    let child = top(&mut pty, &["--socket", socket.to_str().unwrap()]);
    std::thread::sleep(Duration::from_millis(600));
    signal(&child, Signal::TERM);
    ends(child, "a silent daemon");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn an_error_that_nobody_can_be_told_is_an_exit_code_and_no_panic() {
    let pty = Pty::new();
    let stderr = pty.stdio();
    drop(pty);
    let mut command = Command::new(env!("CARGO_BIN_EXE_paracord"));
    command.args(["status", "--socket", "/nonexistent/control.sock"]);
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr).status();
    assert_eq!(status.unwrap().code(), Some(3));
}
