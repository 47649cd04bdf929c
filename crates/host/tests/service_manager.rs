// SPDX-License-Identifier: GPL-2.0-only
//! Tests what a service manager hears from a daemon that waits for KVM.
#![allow(clippy::unwrap_used, reason = "a failed assumption of a test fails it")]

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use paracord_host::control::Request;
use paracord_host::daemon::{self, Manager, Reloaded, Surroundings};
use paracord_host::handle::DaemonHandle;
use paracord_host::run_dir::keep_journals;
use paracord_host::settings::Settings;
use rustix::process::{Signal, getpid, kill_process};

/// Longest wait for a message on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// Interval of the `alive` messages. It is shorter than one second, the interval at which a daemon
/// without VMs has other work to do.
const ALIVE: Duration = Duration::from_millis(100);

struct Recorder(Sender<String>);

impl Recorder {
    fn hear(&self, word: &str) {
        self.0.send(word.to_owned()).unwrap();
    }
}

impl Manager for Recorder {
    fn ready(&mut self, state: &str) {
        self.hear(&format!("ready: {state}"));
    }
    fn status(&mut self, state: &str) {
        self.hear(&format!("status: {state}"));
    }
    fn reloading(&mut self) {
        self.hear("reloading");
    }
    fn reloaded(&mut self) {
        self.hear("reloaded");
    }
    fn stopping(&mut self, state: &str) {
        self.hear(&format!("stopping: {state}"));
    }
    fn alive_interval(&self) -> Option<Duration> {
        Some(ALIVE)
    }
    fn alive(&mut self) {
        self.hear("alive");
    }
}

/// The next word other than `alive`.
fn next(words: &Receiver<String>) -> String {
    loop {
        let word = words.recv_timeout(PATIENCE).unwrap();
        if word != "alive" {
            return word;
        }
    }
}

fn listen(words: &Receiver<String>, handle: &DaemonHandle) {
    let ready = next(words);
    assert!(ready.starts_with("ready: KVM is not loaded"), "{ready}");

    let start = Instant::now();
    for _ in 0..10 {
        assert_eq!(words.recv_timeout(PATIENCE).unwrap(), "alive");
    }
    let took = start.elapsed();
    assert!(took < Duration::from_secs(8), "only when there was other work to do: {took:?}");

    assert!(handle.request(Request::Reload {}).is_ok());
    assert_eq!((next(words).as_str(), next(words).as_str()), ("reloading", "reloaded"));
    // The configuration is wrong from now on.
    assert!(handle.request(Request::Reload {}).is_err());
    assert_eq!((next(words).as_str(), next(words).as_str()), ("reloading", "reloaded"));
    kill_process(getpid(), Signal::HUP).unwrap();
    assert_eq!((next(words).as_str(), next(words).as_str()), ("reloading", "reloaded"));

    assert!(handle.request(Request::Stop {}).is_ok());
    assert_eq!(next(words), "stopping: ending, restoring every thread");
}

#[test]
fn a_manager_hears_of_readiness_life_reloads_and_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let settings = Settings { run_dir: dir.path().join("run"), ..Settings::default() };
    std::fs::create_dir(&settings.run_dir).unwrap();
    drop(keep_journals(&settings.run_dir, Path::new("/proc")).unwrap());
    let (words_in, words) = channel();
    let mut answers = vec![Ok(Reloaded { settings: settings.clone(), note: String::new() })];
    let surroundings = Surroundings {
        kvm_module: dir.path().join("no-kvm"),
        manager: Box::new(Recorder(words_in)),
        reload: Box::new(move || answers.pop().unwrap_or_else(|| Err("wrong".to_owned()))),
        ..Surroundings::default()
    };
    let mut listener = None;
    daemon::run(settings, surroundings, |handle| {
        listener = Some(std::thread::spawn(move || listen(&words, &handle)));
        Ok(())
    })
    .unwrap();
    listener.unwrap().join().unwrap();
}
