// SPDX-License-Identifier: GPL-2.0-only
//! Kills real supervisor and daemon processes with SIGKILL. A thread of this process stands in for
//! a vCPU. Needs root and a kernel with BTF: `cargo test -p paracord-stand-in -- --ignored`.
#![allow(clippy::unwrap_used)]

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use paracord_host::place::PlaceJournal;
use paracord_host::run_dir;
use paracord_sys::affinity::CpuMask;
use paracord_sys::proc;
use paracord_sys::sched::{self, policy};
use rustix::process::{Pid, Signal, kill_process};

/// The threads that a killed daemon had changed must be restored within this time.
const RESTORED_WITHIN: Duration = Duration::from_secs(1);
/// On a slow machine, an emulated kernel needs 17 s to verify the sensor. Other machines are three
/// times as fast.
const PATIENCE: Duration = Duration::from_secs(60);

/// A thread that sleeps and wakes all the time, like the vCPU of an idle guest. It is boosted for
/// the reason WAKE.
struct IdleVcpu {
    tid: u32,
    end: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl IdleVcpu {
    fn start() -> IdleVcpu {
        let end = Arc::new(AtomicBool::new(false));
        let (tell, told) = std::sync::mpsc::channel();
        let theirs = Arc::clone(&end);
        let thread = std::thread::spawn(move || {
            tell.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
            while !theirs.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        IdleVcpu { tid: told.recv().unwrap(), end, thread: Some(thread) }
    }

    fn is_boosted(&self) -> bool {
        let attr = sched::get(self.tid).unwrap();
        attr.policy == policy::RR && attr.priority == 8
    }

    fn cpus(&self) -> CpuMask {
        proc::allowed_cpus(Path::new("/proc"), self.tid).unwrap()
    }

    fn wait_for_cpus(&self, wanted: CpuMask, patience: Duration) {
        let start = Instant::now();
        while self.cpus() != wanted {
            assert!(start.elapsed() < patience, "not on {wanted} within {patience:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn wait(&self, boosted: bool, patience: Duration) -> Duration {
        let start = Instant::now();
        while self.is_boosted() != boosted {
            assert!(start.elapsed() < patience, "not {boosted} within {patience:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
        start.elapsed()
    }
}

impl Drop for IdleVcpu {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

struct Paracord {
    dir: PathBuf,
    supervisor: Child,
    vcpu: IdleVcpu,
}

impl Paracord {
    /// Starts the supervisor, and waits until the vCPU is boosted.
    fn start(name: &str, restart: &str) -> Paracord {
        Self::start_with(name, restart, &[])
    }

    fn start_with(name: &str, restart: &str, more: &[&str]) -> Paracord {
        let dir = std::env::temp_dir().join(format!("paracord-kill-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let vcpu = IdleVcpu::start();
        // The lab runs this test in its emulated host, where cargo's directories do not exist.
        let program = std::env::var_os("PARACORD_STAND_IN")
            .unwrap_or_else(|| env!("CARGO_BIN_EXE_paracord-stand-in").into());
        let supervisor = Command::new(program)
            .arg(&dir)
            .arg(dir.join("snapshot"))
            .arg(restart)
            .args([std::process::id().to_string(), vcpu.tid.to_string()])
            .args(more)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let paracord = Paracord { dir, supervisor, vcpu };
        paracord.vcpu.wait(true, PATIENCE);
        paracord
    }

    fn supervisor_pid(&self) -> u32 {
        self.supervisor.id()
    }

    /// The supervisor's only child.
    fn daemon_pid(&self) -> u32 {
        let pid = self.supervisor_pid();
        let path = format!("/proc/{pid}/task/{pid}/children");
        let start = Instant::now();
        loop {
            let text = std::fs::read_to_string(&path).unwrap();
            if let Some(child) = text.split_ascii_whitespace().next() {
                return child.parse().unwrap();
            }
            assert!(start.elapsed() < PATIENCE, "no daemon");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn has_journal(&self) -> bool {
        run_dir::journal_path(&self.dir).exists()
    }
}

impl Drop for Paracord {
    fn drop(&mut self) {
        let _ = self.supervisor.kill();
        let _ = self.supervisor.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), signal).unwrap();
}

/// Checks that the vCPU stays unboosted, because no process is left that would boost it.
fn assert_stays_unboosted(vcpu: &IdleVcpu) {
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(300) {
        assert!(!vcpu.is_boosted());
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
#[ignore = "needs root and BTF"]
fn killed_daemon_is_cleaned_up_and_started_again() {
    let paracord = Paracord::start("restart", "restart");
    let first = paracord.daemon_pid();
    signal(first, Signal::KILL);
    let took = paracord.vcpu.wait(false, RESTORED_WITHIN);
    println!("restored {} us after the kill", took.as_micros());
    paracord.vcpu.wait(true, PATIENCE);
    assert_ne!(paracord.daemon_pid(), first);
}

#[test]
#[ignore = "needs root and BTF"]
fn killed_daemon_that_may_not_restart_ends_the_supervisor() {
    let mut paracord = Paracord::start("end", "no-restart");
    signal(paracord.daemon_pid(), Signal::KILL);
    let status = paracord.supervisor.wait().unwrap();
    assert_eq!((status.code(), status.signal()), (Some(1), None));
    assert_stays_unboosted(&paracord.vcpu);
    assert!(!paracord.has_journal());
}

#[test]
#[ignore = "needs root and BTF"]
fn killed_supervisor_takes_the_daemon_along() {
    let mut paracord = Paracord::start("supervisor", "restart");
    let daemon = paracord.daemon_pid();
    signal(paracord.supervisor_pid(), Signal::KILL);
    paracord.supervisor.wait().unwrap();
    paracord.vcpu.wait(false, RESTORED_WITHIN);
    let start = Instant::now();
    // The directory in /proc stays visible while the daemon is a zombie. This process cannot reap
    // the daemon, because it is not its parent.
    while Path::new(&format!("/proc/{daemon}/exe")).exists() {
        assert!(start.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_stays_unboosted(&paracord.vcpu);
    assert!(!paracord.has_journal());
}

#[test]
#[ignore = "needs root and BTF"]
fn both_killed_leaves_the_journal_for_restore() {
    let mut paracord = Paracord::start("both", "restart");
    let daemon = paracord.daemon_pid();
    signal(paracord.supervisor_pid(), Signal::STOP);
    signal(daemon, Signal::STOP);
    paracord.vcpu.wait(true, PATIENCE);
    signal(daemon, Signal::KILL);
    signal(paracord.supervisor_pid(), Signal::KILL);
    paracord.supervisor.wait().unwrap();
    assert!(paracord.vcpu.is_boosted() && paracord.has_journal());
    let report = run_dir::restore(&paracord.dir, Path::new("/proc")).unwrap();
    assert_eq!((report.restored, report.failed.len()), (1, 0));
    assert!(!paracord.vcpu.is_boosted() && !paracord.has_journal());
}

/// The CPUs that the calling thread may run on, and the first of these CPUs.
fn own_cpus() -> (CpuMask, CpuMask) {
    let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    let all = proc::allowed_cpus(Path::new("/proc"), tid).unwrap();
    (all, all.iter().take(1).collect())
}

#[test]
#[ignore = "needs root and BTF"]
fn a_placed_vcpu_has_its_cpus_again_whoever_is_killed() {
    let (all, first) = own_cpus();
    let place = ["--place", &format!("all={first}")];
    let mut paracord = Paracord::start_with("place", "restart", &place);
    paracord.vcpu.wait_for_cpus(first, PATIENCE);
    // Only the daemon is killed: the vCPU gets its CPUs back, and the next daemon places it again.
    let daemon = paracord.daemon_pid();
    signal(daemon, Signal::KILL);
    paracord.vcpu.wait_for_cpus(all, RESTORED_WITHIN);
    paracord.vcpu.wait_for_cpus(first, PATIENCE);
    // Both are killed: the vCPU stays placed until `restore` is called.
    let daemon = paracord.daemon_pid();
    signal(paracord.supervisor_pid(), Signal::STOP);
    signal(daemon, Signal::KILL);
    signal(paracord.supervisor_pid(), Signal::KILL);
    paracord.supervisor.wait().unwrap();
    assert_eq!(paracord.vcpu.cpus(), first);
    let report = run_dir::restore(&paracord.dir, Path::new("/proc")).unwrap();
    assert_eq!((report.placements, report.failed.len()), (1, 0));
    assert_eq!(paracord.vcpu.cpus(), all);
}

#[test]
#[ignore = "needs root and BTF"]
fn asked_to_end_a_placed_vcpu_has_its_cpus_again() {
    let (all, first) = own_cpus();
    let place = ["--place", &format!("0={first} all={first}")];
    let mut paracord = Paracord::start_with("place-term", "restart", &place);
    paracord.vcpu.wait_for_cpus(first, PATIENCE);
    signal(paracord.supervisor_pid(), Signal::TERM);
    assert!(paracord.supervisor.wait().unwrap().success());
    assert_eq!(paracord.vcpu.cpus(), all);
    assert!(!paracord.has_journal() && !PlaceJournal::path(&paracord.dir).exists());
}

#[test]
#[ignore = "needs root and BTF"]
fn asked_to_end_restores_and_leaves_nothing() {
    let mut paracord = Paracord::start("term", "restart");
    signal(paracord.supervisor_pid(), Signal::TERM);
    let status = paracord.supervisor.wait().unwrap();
    assert!(status.success(), "{status}");
    assert_stays_unboosted(&paracord.vcpu);
    assert!(!paracord.has_journal());
}
