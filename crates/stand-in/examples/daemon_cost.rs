// SPDX-License-Identifier: GPL-2.0-only
//! Measures what the daemon costs with 1 and with 200 vCPUs, and prints lines of JSON: the share of
//! one CPU, the resident memory, and the time from a decision to the finished system call.
//!
//! Threads stand in for vCPUs. In each period, a thread sleeps, and then runs for a few
//! milliseconds. This is longer than the grant of a wakeup, so there is one boost and one unboost
//! per period. Needs root.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use paracord_host::snapshot::Snapshot;

const MEASURED: Duration = Duration::from_secs(10);
/// Longer than the default grant of a wakeup (1 ms) and the stand-in's housekeeping tick (4 ms).
const BUSY: Duration = Duration::from_millis(6);
const PATIENCE: Duration = Duration::from_secs(20);
/// USER_HZ.
const TICKS_PER_SECOND: f64 = 100.0;

struct Case {
    vcpus: usize,
    period: Duration,
}

/// The guest work takes about 0.3 CPUs in the first case, and 0.6 CPUs in the second.
const CASES: [Case; 2] = [
    Case { vcpus: 1, period: Duration::from_millis(20) },
    Case { vcpus: 200, period: Duration::from_secs(2) },
];

fn main() -> ExitCode {
    for case in &CASES {
        match measure(case) {
            Ok(line) => println!("{line}"),
            Err(reason) => {
                eprintln!("daemon_cost: {reason}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

fn measure(case: &Case) -> Result<serde_json::Value, String> {
    let dir = std::env::temp_dir().join(format!("paracord-cost-{}", std::process::id()));
    std::fs::create_dir_all(&dir).map_err(|e| e.to_string())?;
    let end = Arc::new(AtomicBool::new(false));
    let (tell, told) = std::sync::mpsc::channel();
    let threads: Vec<_> = (0..case.vcpus)
        .map(|n| {
            let (tell, end) = (tell.clone(), Arc::clone(&end));
            let (period, vcpus) = (case.period, case.vcpus as u32);
            std::thread::spawn(move || {
                let tid = rustix::thread::gettid().as_raw_nonzero();
                let _ = tell.send(tid.to_string());
                // The threads start at different times in the period, so that they do not queue up.
                std::thread::sleep(period / vcpus * n as u32);
                while !end.load(Ordering::Relaxed) {
                    std::thread::sleep(period - BUSY);
                    let start = Instant::now();
                    while start.elapsed() < BUSY {
                        std::hint::spin_loop();
                    }
                }
            })
        })
        .collect();
    let tids: Vec<String> = told.iter().take(case.vcpus).collect();
    let result = with_daemon(&dir, &tids, case);
    end.store(true, Ordering::Relaxed);
    for thread in threads {
        let _ = thread.join();
    }
    let _ = std::fs::remove_dir_all(&dir);
    result
}

fn with_daemon(dir: &Path, tids: &[String], case: &Case) -> Result<serde_json::Value, String> {
    let program = std::env::current_exe()
        .ok()
        .and_then(|own| Some(own.parent()?.parent()?.join("paracord-stand-in")))
        .filter(|program| program.exists())
        .ok_or("paracord-stand-in is not built: use bench/daemon")?;
    let file = dir.join("snapshot");
    let mut child = Command::new(program)
        .arg(dir)
        .arg(&file)
        .args(["no-restart", &std::process::id().to_string()])
        .args(tids)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| e.to_string())?;
    let result = observe(&mut child, &file, case);
    let pid = rustix::process::Pid::from_child(&child);
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    let _ = child.wait();
    result
}

fn observe(child: &mut Child, file: &PathBuf, case: &Case) -> Result<serde_json::Value, String> {
    let start = Instant::now();
    let before = loop {
        if let Some(status) = child.try_wait().map_err(|e| e.to_string())? {
            return Err(format!("the daemon ended ({status}); does it run as root?"));
        }
        let all = |s: &Snapshot| s.vms.iter().map(|vm| vm.vcpus.len()).sum::<usize>() == case.vcpus;
        match read(file) {
            Some(snapshot) if all(&snapshot) && snapshot.actuator.boosts > 0 => break snapshot,
            _ if start.elapsed() > PATIENCE => return Err("the daemon does not start".into()),
            _ => std::thread::sleep(Duration::from_millis(100)),
        }
    };
    let (pid, from) = (before.pid, Instant::now());
    let cpu_before = cpu_seconds(pid)?;
    std::thread::sleep(MEASURED);
    let cpu = (cpu_seconds(pid)? - cpu_before) / from.elapsed().as_secs_f64();
    let after = read(file).ok_or("the snapshot is gone")?;
    let seconds = (after.taken_ns - before.taken_ns) as f64 / 1e9;
    let actuations = |s: &Snapshot| s.actuator.boosts + s.actuator.unboosts;
    let latency = after.actuator.actuation_latency.since(&before.actuator.actuation_latency);
    Ok(serde_json::json!({
        "bench": "daemon",
        "case": format!("{} vCPUs", case.vcpus),
        "cpu_percent": (cpu * 1e4).round() / 100.0,
        "daemon_rss_kib": resident_kib(pid)?,
        "supervisor_rss_kib": resident_kib(child.id())?,
        "actuations_per_s": ((actuations(&after) - actuations(&before)) as f64 / seconds).round(),
        "actuation_p50_ns": latency.percentile_ns(500),
        "actuation_p99_ns": latency.percentile_ns(990),
    }))
}

fn read(file: &PathBuf) -> Option<Snapshot> {
    serde_json::from_slice(&std::fs::read(file).ok()?).ok()
}

/// User and system time of a process.
fn cpu_seconds(pid: u32) -> Result<f64, String> {
    let path = format!("/proc/{pid}/stat");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
    let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let field = |n: usize| rest.split_ascii_whitespace().nth(n)?.parse::<f64>().ok();
    // Fields 14 and 15; the first one after the name is field 3.
    field(11).zip(field(12)).map(|(u, s)| (u + s) / TICKS_PER_SECOND).ok_or(path)
}

fn resident_kib(pid: u32) -> Result<u64, String> {
    let path = format!("/proc/{pid}/status");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|rest| rest.split_ascii_whitespace().next()?.parse().ok()).ok_or(path)
}
