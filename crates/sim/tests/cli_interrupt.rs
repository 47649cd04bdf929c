// SPDX-License-Identifier: GPL-2.0-only
//! After Ctrl-C, the results so far are written and marked as partial.
#![allow(clippy::unwrap_used, reason = "a failed assumption of a test fails it")]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Takes minutes on any machine, so that the signal arrives during the run.
const LONG: &str = "machine cpus=8\nrun 3600s\ntask nap count=30 : run 50us, sleep 100us\n";

fn start(directory: &Path, args: &[&str]) -> Child {
    std::fs::write(directory.join("long.mix"), LONG).unwrap();
    Command::new(env!("CARGO_BIN_EXE_paracord-sim"))
        .current_dir(directory)
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn interrupt(child: &Child) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
}

/// Waits until the trace has grown. Then the signal handlers are installed, and the machine runs.
fn wait_for(path: &Path) {
    let begun = Instant::now();
    while std::fs::metadata(path).map_or(0, |meta| meta.len()) == 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "{} stays empty", path.display());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn an_interrupted_run_writes_what_there_is() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let child = start(
        directory.path(),
        &["run", "long.mix", "--trace", "t.pftrace", "--json", "results.json"],
    );
    wait_for(&at("t.pftrace.part"));
    interrupt(&child);
    let o = child.wait_with_output().unwrap();
    let (text, error) =
        (String::from_utf8(o.stdout).unwrap(), String::from_utf8(o.stderr).unwrap());
    assert_eq!(o.status.code(), Some(130), "{text}{error}");
    let title = text.lines().next().unwrap();
    assert!(title.contains("PARTIAL, interrupted at") && title.ends_with("of 3600 s"), "{title}");
    assert!(text.lines().any(|line| line.starts_with("nap ")), "{text}");
    let data = std::fs::read_to_string(at("results.json")).unwrap();
    let data: serde_json::Value = serde_json::from_str(&data).unwrap();
    assert_eq!(data["partial"], true);
    assert_eq!(data["verdicts"][0]["status"], "undecided");
    assert!(data["verdicts"][0]["reason"].as_str().unwrap().starts_with("interrupted at "));
    assert!(at("t.pftrace").exists() && !at("t.pftrace.part").exists());
}

#[test]
fn an_interrupted_comparison_shows_what_there_is() {
    let directory = tempfile::tempdir().unwrap();
    let child = start(directory.path(), &["compare", "long.mix", "--trace", "t.pftrace"]);
    wait_for(&directory.path().join("t.pftrace.part"));
    interrupt(&child);
    let o = child.wait_with_output().unwrap();
    let text = String::from_utf8(o.stdout).unwrap();
    assert_eq!(o.status.code(), Some(130), "{text}");
    assert!(text.contains("PARTIAL") && text.contains("of 3600 s"), "{text}");
}
