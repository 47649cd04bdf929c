// SPDX-License-Identifier: GPL-2.0-only
//! Tests with a supervisor that watches a shell in place of the daemon.

use std::io::Write;
use std::path::PathBuf;

use super::*;

/// First commands of the shell. They record each start, and exit from the second start on.
const BEGIN: &str = "echo >>$STARTS; [ $(wc -l <$STARTS) -gt 1 ] && exit 0";
const UNTIL_TOLD: &str = "while :; do sleep 0.02; done";

struct Run {
    /// How often the daemon was started.
    starts: usize,
    result: Result<(), SupervisorError>,
}

fn starts(file: &PathBuf) -> usize {
    std::fs::read_to_string(file).map_or(0, |text| text.lines().count())
}

/// Lets a supervisor watch a shell that runs `body`. If `ends`, the supervisor is told to end
/// once the shell has created the file `$READY`.
fn watch(body: &str, ends: bool) -> Run {
    let dir = tempfile::tempdir().unwrap();
    let (path, proc_root) = (dir.path().join("run"), Path::new("/proc"));
    let (ready, starts_file) = (dir.path().join("ready"), dir.path().join("starts"));
    let settings = Settings { run_dir: path.clone(), ..Settings::default() };
    let run_dir = RunDir::lock(&path).unwrap();
    let journal = keep_journals(&path, proc_root).unwrap();
    let (end, mut tell_end) = UnixStream::pair().unwrap();
    let (reload, _tell_reload) = UnixStream::pair().unwrap();
    end.set_nonblocking(true).unwrap();
    reload.set_nonblocking(true).unwrap();
    let signals = Signals { end, reload };
    let supervisor =
        Supervisor { settings: &settings, proc_root, run_dir, journal, placements: None, signals };
    let command = || {
        let mut command = Command::new("sh");
        command.args(["-c", body]).env("STARTS", &starts_file).env("READY", &ready);
        command
    };
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            while ends && !ready.exists() {
                std::thread::sleep(Duration::from_millis(5));
            }
            if ends {
                tell_end.write_all(b"x").unwrap();
            }
        });
        supervisor.watch(&command)
    });
    Run { starts: starts(&starts_file), result }
}

#[test]
fn a_daemon_that_panics_by_itself_is_started_again() {
    let run = watch(&format!("{BEGIN}; exit {PANIC_EXIT}"), false);
    assert!(run.result.is_ok() && run.starts == 2, "{} {:?}", run.starts, run.result);
}

#[test]
fn a_daemon_that_panics_while_it_is_told_to_end_is_not() {
    let body = format!("trap 'exit {PANIC_EXIT}' TERM; {BEGIN}; : >$READY; {UNTIL_TOLD}");
    let run = watch(&body, true);
    assert!(run.result.is_ok() && run.starts == 1, "{} {:?}", run.starts, run.result);
    // A daemon that dies of a signal while it is told to end is not started again either.
    let body = format!("trap 'kill -9 $$' TERM; {BEGIN}; : >$READY; {UNTIL_TOLD}");
    let run = watch(&body, true);
    assert!(run.result.is_ok() && run.starts == 1, "{} {:?}", run.starts, run.result);
}

#[test]
fn an_error_while_a_daemon_is_told_to_end_is_reported() {
    let body = format!("trap 'exit 3' TERM; {BEGIN}; : >$READY; {UNTIL_TOLD}");
    let run = watch(&body, true);
    assert!(matches!(run.result, Err(SupervisorError::Daemon(3))), "{:?}", run.result);
    assert_eq!(run.starts, 1);
}
