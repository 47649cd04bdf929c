// SPDX-License-Identifier: GPL-2.0-only
//! The program as users and scripts see it: output, one line per error, exit codes.
#![allow(clippy::unwrap_used, reason = "a failed assumption of a test fails it")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn paracord(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_paracord")).args(args).output().unwrap()
}

fn stdout(o: &Output) -> String {
    String::from_utf8(o.stdout.clone()).unwrap()
}

/// A separate directory, with a configuration that keeps all files inside this directory. It is on
/// tmpfs, where regions must lie.
struct Sandbox(PathBuf);

impl Sandbox {
    fn new(name: &str) -> Sandbox {
        let dir = PathBuf::from(format!("/dev/shm/paracord-cli-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        let s = Sandbox(dir);
        let text = format!(
            "run_dir = \"{0}/run\"\nregion_dir = \"{0}/regions\"\n[control]\nsocket = \"{0}/no.sock\"\n",
            s.0.display()
        );
        s.write("p.toml", &text);
        s
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn config(&self) -> String {
        self.0.join("p.toml").to_str().unwrap().to_owned()
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Checks that the command fails with this exit code and prints one line that begins with the
/// program's name.
fn fails(args: &[&str], code: i32, says: &[&str]) {
    let o = paracord(args);
    let error = String::from_utf8(o.stderr.clone()).unwrap();
    assert_eq!(o.status.code(), Some(code), "{args:?}: {error}");
    assert!(error.starts_with("paracord: ") && error.lines().count() == 1, "{args:?}: {error}");
    assert!(o.stdout.is_empty(), "{args:?}: {}", stdout(&o));
    for s in says {
        assert!(error.contains(s), "{args:?}: {s:?} not in {error}");
    }
}

#[test]
fn without_a_daemon_every_command_says_so() {
    let s = Sandbox::new("none");
    let c = s.config();
    for args in [
        &["status"][..],
        &["status", "--json"],
        &["vm", "list"],
        &["vm", "show", "x"],
        &["vm", "set", "x", "mode=off"],
        &["vm", "place", "x"],
        &["vm", "place", "x", "0=0-3", "--hints"],
        &["vm", "place", "x", "--clear"],
        &["top", "--once"],
        &["reload"],
        &["mode", "off"],
        &["stop"],
    ] {
        let args: Vec<&str> = args.iter().copied().chain(["--config", &c]).collect();
        fails(&args, 3, &["no daemon at", "no.sock", "paracord run"]);
    }
}

#[test]
fn wrong_arguments_are_one_line_with_the_remedy() {
    fails(&["statu"], 2, &["statu", "status"]);
    fails(&["qemu-args"], 2, &["NAME"]);
    fails(&["qemu-args", "a/b"], 2, &["no region name", "letters"]);
    fails(&["qemu-args", "a", "--vcpus", "0"], 2, &["1..=4096"]);
    fails(&["region", "create", "a", "--vcpus", "4097"], 2, &["4097"]);
    fails(&["mode", "maybe"], 2, &["maybe", "observe"]);
    fails(&["vm", "set", "x", "mode"], 2, &["KEY=VALUE"]);
    fails(&["vm", "set", "x", "wake.grant=1"], 2, &["did you mean \"wake.grant_us\""]);
    fails(&["vm", "set", "x", "vcpu_budget_pct=101"], 2, &["from 0 to 100"]);
    fails(&["vm", "set", "x", "place=0=1"], 2, &["paracord vm place"]);
    fails(&["vm", "place", "x", "0=big"], 2, &["\"0=big\": names no CPUs", "cluster:N"]);
    fails(&["vm", "place", "x", "0=1", "0=2"], 2, &["vCPU 0 is placed twice"]);
    fails(&["vm", "place", "x", "0=1", "--auto"], 2, &["--auto"]);
    fails(&["vm", "place", "x", "--hints"], 2, &["0=4-5"]);
    fails(&["run", "--actuator", "magic"], 2, &["magic", "observe"]);
}

#[test]
fn wrong_configurations_are_named_by_file_line_and_key() {
    let s = Sandbox::new("config");
    let file = s.write("bad.toml", "mode = \"on\"\n[boost.wake]\ngrant_us = 99999999999\n");
    let place = format!("{file}:3: boost.wake.grant_us: 99999999999");
    fails(&["config", "check", &file], 2, &[&place, "from 0 to"]);
    fails(&["config", "show", "--config", &file], 2, &[&place]);
    fails(&["status", "--config", &file], 2, &[&place]);
    fails(&["run", "--config", &file], 2, &[&place]);
    fails(&["restore", "--config", &file], 2, &[&place]);
    fails(&["config", "check", "/nonexistent.toml"], 2, &["/nonexistent.toml: cannot be read"]);
    let place = s.write("place.toml", "[vm.web]\n\nplace = \"0=1023\"\n");
    let place_says = [&format!("{place}:3: vm.\"web\".place: vCPU 0: this host has no CPU 1023")];
    fails(&["config", "check", &place], 2, &place_says.map(String::as_str));
    let typo = s.write("typo.toml", "[boots]\n");
    fails(&["config", "check", &typo], 2, &["typo.toml:1: boots: unknown key", "\"boost\""]);
}

#[test]
fn config_show_is_a_valid_configuration() {
    let s = Sandbox::new("show");
    for args in [&["config", "show"][..], &["config", "show", "--explain"]] {
        let shown = stdout(&paracord(args));
        let file = s.write("shown.toml", &shown);
        let o = paracord(&["config", "check", &file]);
        assert!(o.status.success() && stdout(&o).ends_with(": ok\n"), "{shown}");
    }
}

#[test]
fn regions_live_in_their_directory() {
    let s = Sandbox::new("region");
    let c = s.config();
    let with = |args: &[&str]| {
        paracord(&args.iter().copied().chain(["--config", c.as_str()]).collect::<Vec<_>>())
    };
    assert!(stdout(&with(&["region", "list"])).starts_with("no region in"));
    let path = stdout(&with(&["region", "create", "vm1", "--vcpus", "4"]));
    assert_eq!(Path::new(path.trim()), s.0.join("regions/vm1"));
    let size = std::fs::metadata(path.trim()).unwrap().len();
    fails(&["region", "create", "vm1", "--config", &c], 1, &["exists", "region remove"]);
    fails(&["region", "create", "vm2", "--owner", "no-such-user", "--config", &c], 2, &["UID:GID"]);
    let json: serde_json::Value =
        serde_json::from_slice(&with(&["region", "list", "--json"]).stdout).unwrap();
    assert_eq!((&json[0]["name"], &json[0]["slots"]), (&"vm1".into(), &4.into()));
    // The size in QEMU's options must be the size of the file.
    let qemu = stdout(&with(&["qemu-args", "vm1", "--vcpus", "4"]));
    for part in [
        format!("mem-path={},", path.trim()),
        format!("size={size},"),
        "prealloc=on".into(),
        "master=on".into(),
    ] {
        assert!(qemu.contains(&part), "{part} in {qemu}");
    }
    let xml = stdout(&with(&["libvirt-xml", "vm1", "--vcpus", "4"]));
    // libvirt's own devices are JSON, too, and QEMU creates all such devices after the others.
    let device = r#"{"driver":"ivshmem-plain","master":"on","memdev":"paracord"}"#;
    for word in qemu.split_whitespace().take(3).chain([device]) {
        assert!(xml.contains(&format!("<qemu:arg value='{word}'/>")), "{word} in {xml}");
    }
    assert!(!xml.contains("seclabel"), "{xml}");
    let own_user = stdout(&with(&["libvirt-xml", "vm1", "--vcpus", "4", "--user", "vm-1"]));
    assert!(own_user.contains("<label>vm-1:kvm</label>"), "{own_user}");
    fails(&["libvirt-xml", "vm1", "--user", "root", "--config", &c], 2, &["useradd"]);
    fails(&["libvirt-xml", "vm1", "--user", "<root>", "--config", &c], 2, &["no name of a user"]);
    let doorbell = stdout(&with(&["qemu-args", "vm1", "--vcpus", "4", "--counters"]));
    let socket = s.0.join("run/ivshmem/vm1");
    let part = format!("-chardev socket,id=paracord,path={} ", socket.display());
    assert!(doorbell.starts_with(&part), "{doorbell}");
    assert!(doorbell.ends_with("-device ivshmem-doorbell,chardev=paracord,vectors=4\n"));
    assert!(with(&["region", "remove", "vm1"]).status.success());
    fails(&["region", "remove", "vm1", "--config", &c], 1, &["no region"]);
}

#[test]
fn doctor_tells_programs_by_its_exit_code() {
    let o = paracord(&["doctor", "--json", "--root", "/nonexistent"]);
    assert_eq!(o.status.code(), Some(5));
    let checks: serde_json::Value = serde_json::from_slice(&o.stdout).unwrap();
    let btf = checks.as_array().unwrap().iter().find(|c| c["name"] == "btf").unwrap();
    assert_eq!(btf["status"], "fail");
    assert!(btf["remedy"].as_str().unwrap().contains("CONFIG_DEBUG_INFO_BTF"));
    let text = stdout(&paracord(&["doctor", "--root", "/nonexistent"]));
    assert!(text.contains("FAIL  btf"), "{text}");
}

#[test]
fn a_recorded_status_can_be_read_again() {
    let s = Sandbox::new("from");
    let json = serde_json::to_string(&paracord_host::snapshot::Snapshot {
        version: "9.9".into(),
        vms: vec![paracord_host::snapshot::VmSnapshot { name: "web".into(), ..Default::default() }],
        ..Default::default()
    })
    .unwrap();
    let file = s.write("status.json", &json);
    for args in [&["status"][..], &["vm", "list"], &["vm", "show", "web"], &["top"]] {
        let o =
            paracord(&args.iter().copied().chain(["--from", file.as_str()]).collect::<Vec<_>>());
        assert!(o.status.success() && stdout(&o).contains("web"), "{args:?} {o:?}");
    }
    fails(&["vm", "show", "db", "--from", &file], 1, &["no VM named \"db\"", "vm list"]);
    let region = paracord_host::snapshot::RegionSnapshot {
        slow_accesses: 3,
        left_out_ns: 2_000_000_000,
        ..Default::default()
    };
    let slow = paracord_host::snapshot::Snapshot {
        vms: vec![paracord_host::snapshot::VmSnapshot {
            name: "web".into(),
            region: Some(region),
            ..Default::default()
        }],
        ..Default::default()
    };
    let file = s.write("slow.json", &serde_json::to_string(&slow).unwrap());
    let shown = stdout(&paracord(&["vm", "show", "web", "--from", &file]));
    assert!(shown.contains("region I/O 3 accesses took too long; left out for 2"), "{shown}");
    let bad = s.write("bad.json", "{");
    fails(&["status", "--from", &bad], 1, &["bad.json", "status --json"]);
}

#[test]
fn a_closed_pipe_ends_output_quietly() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_paracord"))
        .args(["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let o = child.wait_with_output().unwrap();
    assert!(o.stderr.is_empty() && o.status.code() == Some(0), "{o:?}");
}

#[test]
fn manual_pages_are_written_for_every_command() {
    let s = Sandbox::new("man");
    let directory = s.0.join("man");
    assert!(paracord(&["man", directory.to_str().unwrap()]).status.success());
    for page in ["paracord.1", "paracord-run.1", "paracord-vm-set.1", "paracord-top.1"] {
        assert!(directory.join(page).exists(), "{page}");
    }
}
