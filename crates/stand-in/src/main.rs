// SPDX-License-Identifier: GPL-2.0-only
//! Runs the supervisor and the daemon with ordinary threads that stand in for vCPUs. This is for
//! tests and benchmarks on machines without KVM. Everything except VM exits is real.
//!
//! paracord-stand-in RUN_DIR SNAPSHOT restart|no-restart PID TID... [--place PLACEMENT]
//!
//! Writes a snapshot as JSON to the file SNAPSHOT once a second.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use paracord_host::config::parse;
use paracord_host::daemon::{self, Surroundings};
use paracord_host::handle::DaemonHandle;
use paracord_host::settings::{OwnScheduler, Settings};
use paracord_host::supervisor;
use paracord_sensor::{Options, Sensor};

const DAEMON_OF: &str = "--daemon-of";
const PLACE: &str = "--place";

fn main() -> ExitCode {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let supervisor = words.iter().position(|word| word == DAEMON_OF).map(|at| {
        let pid = words.drain(at..).nth(1).expect("pid of the supervisor");
        pid.parse().expect("a pid")
    });
    let all = words.clone();
    let place = words.iter().position(|word| word == PLACE).map(|at| words.split_off(at));
    let [run_dir, file, restart, pid, tids @ ..] = words.as_slice() else {
        eprintln!(
            "paracord-stand-in RUN_DIR SNAPSHOT restart|no-restart PID TID... [--place PLACEMENT]"
        );
        return ExitCode::from(2);
    };
    // A test or benchmark must not replace the scheduler of the machine on which it runs.
    let mut settings = Settings {
        run_dir: PathBuf::from(run_dir),
        own_scheduler: OwnScheduler::Never,
        ..Settings::default()
    };
    // A vCPU exits at each tick of the host, but these threads do not. The daemon's own tick is
    // therefore as short as a tick of the host.
    settings.rt.tick = Duration::from_millis(4);
    settings.supervisor.restart = restart == "restart";
    if let Some(place) = place.and_then(|words| words.into_iter().nth(1)) {
        let section = format!("[vm.\"*\"]\nplace = \"{place}\"\n");
        settings.vm_rules = parse(&section, Path::new(PLACE)).expect("a placement").vm_rules;
    }
    let result = match supervisor {
        Some(pid_of_supervisor) => {
            let pid = pid.parse().expect("a pid");
            let tids = tids.iter().map(|tid| tid.parse().expect("a tid")).collect();
            serve(settings, pid_of_supervisor, PathBuf::from(file), pid, tids)
        }
        None => supervise(&settings, &all),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(line) => {
            eprintln!("{line}");
            ExitCode::FAILURE
        }
    }
}

fn supervise(settings: &Settings, words: &[String]) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    supervisor::run(settings, Path::new("/proc"), || {
        let mut command = Command::new(&program);
        command.args(words).arg(DAEMON_OF).arg(std::process::id().to_string());
        command
    })
    .map_err(|e| e.to_string())
}

fn serve(
    settings: Settings,
    supervisor: u32,
    file: PathBuf,
    pid: u32,
    tids: Vec<u32>,
) -> Result<(), String> {
    let surroundings = Surroundings {
        supervisor: Some(supervisor),
        sensor: Options { without_kvm: true, ..Options::default() },
        loaded: Box::new(move |sensor: &Sensor| {
            for &tid in &tids {
                sensor.adopt_stand_in(tid, pid).expect("the thread runs");
            }
        }),
        ..Surroundings::default()
    };
    daemon::run(settings, surroundings, |handle| {
        std::thread::spawn(move || write_snapshots(&handle, &file));
        Ok(())
    })
    .map_err(|e| e.to_string())
}

fn write_snapshots(handle: &DaemonHandle, file: &Path) {
    let new = file.with_extension("new");
    while let Ok(snapshot) = handle.snapshot() {
        let text = serde_json::to_vec(&snapshot).expect("plain values");
        // The file is renamed when it is complete, so that a reader never sees an incomplete
        // snapshot.
        let _ = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, file));
        std::thread::sleep(Duration::from_secs(1));
    }
}
