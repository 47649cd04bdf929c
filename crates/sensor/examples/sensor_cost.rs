// SPDX-License-Identifier: GPL-2.0-only
//! Measures what the sensor's programs cost on this machine, with the kernel's BPF statistics, and
//! prints lines of JSON. Needs root. VM exits are simulated by test runs of the exit program, in a
//! thread that stands in for a vCPU. Context switches are real.
//!
//! The results include the two clock reads of the statistics. In the case `switch_no_vcpu` the
//! program only makes two loads and a branch, so its result is almost the cost of the statistics
//! alone.

use std::{
    fs,
    sync::{
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use libbpf_rs::{
    ProgramInput,
    query::{ProgInfoIter, ProgInfoQueryOptions, ProgramInfo},
};
use paracord_sensor::{
    Bell, Options, Sensor,
    policy::{defaults, pc_boost_config, pc_vcpu_setup},
};

use paracord_sys::affinity::{self, CpuMask};

const STATISTICS: &str = "/proc/sys/kernel/bpf_stats_enabled";
const RUNS: u32 = 200_000;
/// PARACORD_REASON_WAKE.
const WAKE: usize = 0;
const SWITCHES: u32 = 100_000;
/// The performance that the guest's governor requests.
const REQUEST: u16 = 512;

type Failure = Box<dyn std::error::Error>;

/// Switches the kernel's BPF statistics on, and restores the previous setting when it is dropped.
struct Statistics {
    before: String,
}

impl Statistics {
    fn on() -> std::io::Result<Self> {
        let before = fs::read_to_string(STATISTICS)?;
        fs::write(STATISTICS, "1")?;
        Ok(Self { before })
    }
}

impl Drop for Statistics {
    fn drop(&mut self) {
        let _ = fs::write(STATISTICS, self.before.trim());
    }
}

/// The kernel's information about one of the sensor's programs.
fn info(name: &str) -> Result<ProgramInfo, Failure> {
    let options = ProgInfoQueryOptions::default()
        .include_xlated_prog_insns(true)
        .include_jited_prog_insns(true);
    // The kernel keeps 15 characters of a name. IDs grow, so the last program with the name is the
    // sensor's.
    let kept = &name[..name.len().min(15)];
    let newest =
        ProgInfoIter::with_query_opts(options).filter(|program| program.name == kept).last();
    newest.ok_or_else(|| format!("no program {name}").into())
}

/// Prints what the runs of a program cost during `work`.
fn measure(
    case: &str,
    name: &str,
    work: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let before = info(name)?;
    let start = Instant::now();
    work()?;
    let seconds = start.elapsed().as_secs_f64();
    let after = info(name)?;
    let runs = after.run_cnt - before.run_cnt;
    println!(
        r#"{{"bench": "sensor", "case": "{case}", "program": "{name}", "runs": {runs}, "ns": {:.1}, "seconds": {seconds:.2}}}"#,
        (after.run_time_ns - before.run_time_ns) as f64 / runs.max(1) as f64,
    );
    Ok(())
}

/// Two threads pass a token to each other: two context switches per round on one CPU.
fn ping_pong(adopt: Option<&Sensor>) -> Result<(), Failure> {
    let (to_other, from_main) = mpsc::sync_channel::<()>(0);
    let (to_main, from_other) = mpsc::sync_channel::<()>(0);
    // SAFETY: the system call takes no arguments.
    let tid = || unsafe { libc::syscall(libc::SYS_gettid) };
    let other = thread::spawn(move || {
        while from_main.recv().is_ok() {
            if to_main.send(()).is_err() {
                break;
            }
        }
    });
    if let Some(sensor) = adopt {
        let vcpu = sensor.adopt_stand_in(u32::try_from(tid())?, std::process::id())?;
        vcpu.set_setup(pc_vcpu_setup::default());
        vcpu.set_ready();
    }
    for _ in 0..SWITCHES / 2 {
        to_other.send(())?;
        from_other.recv()?;
    }
    drop(to_other);
    other.join().map_err(|_| "the other thread failed")?;
    Ok(())
}

/// Simulates VM exits of this thread by test runs of the exit program.
fn exits(sensor: &Sensor) -> Result<(), Failure> {
    let program = sensor.program("sensor_exit")?;
    for _ in 0..RUNS {
        program.test_run(ProgramInput::default())?;
    }
    Ok(())
}

/// Like [`exits`], but with a new batch of counter requests at each exit.
fn asking_exits(sensor: &Sensor, asked: &AtomicU32, bell: &Bell<'_>) -> Result<(), Failure> {
    let program = sensor.program("sensor_exit")?;
    for _ in 0..RUNS {
        asked.fetch_add(1, Ordering::Relaxed);
        program.test_run(ProgramInput::default())?;
        bell.consume()?;
    }
    Ok(())
}

fn pin_to_first_cpu() -> Result<(), Failure> {
    let mut first = CpuMask::default();
    first.insert(0);
    Ok(affinity::set(0, &first)?)
}

fn main() -> Result<(), Failure> {
    let _statistics = Statistics::on()?;
    let sensor = Sensor::load(&Options { without_kvm: true, ..Options::default() })?;
    for program in sensor.programs() {
        let name = program.name().to_string_lossy().into_owned();
        let info = info(&name)?;
        println!(
            r#"{{"bench": "sensor_size", "program": "{name}", "xlated_insns": {}, "jited_bytes": {}, "verified_insns": {}}}"#,
            info.xlated_prog_insns.len() / 8,
            info.jited_prog_insns.len(),
            info.verified_insns,
        );
    }
    measure("switch_no_vcpu", "sensor_switch", || ping_pong(None))?;

    // The vCPU is boosted all the time, asleep and running: nothing ends the grant.
    let mut config: pc_boost_config = defaults();
    (config.vcpu_budget_ns, config.cpu_kept_ns) = (config.period_ns, 0);
    for reason in &mut config.reason {
        (reason.grant_max_ns, reason.budget_ns) = (u64::MAX, config.period_ns);
    }
    let vm = sensor.vms().get(0).ok_or("no VM entry")?;
    vm.set_config(config, config);
    let line = Box::new([3_u64, 0, u64::from(REQUEST) << 32, 0, 0, 0, 0, 0]);
    let setup = pc_vcpu_setup {
        slot_hva: line.as_ptr() as u64,
        guest_line_bytes: 64,
        ..pc_vcpu_setup::default()
    };

    // SAFETY: the system call takes no arguments.
    let tid = u32::try_from(unsafe { libc::syscall(libc::SYS_gettid) })?;
    let vcpu = sensor.adopt_stand_in(tid, std::process::id())?;
    // From the next context switch on, the sensor knows that the thread runs.
    thread::sleep(Duration::from_millis(1));
    measure("exit_unboosted", "sensor_exit", || exits(&sensor))?;
    // The guest requests performance, so each exit reads four bytes of its line.
    vcpu.set_setup(pc_vcpu_setup { guest_requests: 1, ..setup });
    measure("exit_unboosted_with_request", "sensor_exit", || exits(&sensor))?;
    if vcpu.guest_request() != Some((REQUEST, 0)) {
        return Err(format!("the request was not read: {:?}", vcpu.guest_request()).into());
    }
    // The daemon serves the guest's counters, but the guest requests nothing: each exit reads four
    // bytes.
    let asked = Box::new(AtomicU32::new(0));
    let counts = pc_vcpu_setup { asked_hva: asked.as_ptr() as u64, ..pc_vcpu_setup::default() };
    vcpu.set_setup(counts);
    measure("exit_unboosted_with_counters", "sensor_exit", || exits(&sensor))?;
    // The guest makes a request at each exit, and no thread waits for the bell.
    let rings = AtomicU32::new(0);
    let bell = sensor.bell(0, |_| {
        rings.fetch_add(1, Ordering::Relaxed);
    })?;
    pin_to_first_cpu()?;
    measure("exit_with_a_batch_for_counters", "sensor_exit", || {
        asking_exits(&sensor, &asked, &bell)
    })?;
    if rings.load(Ordering::Relaxed) != RUNS {
        return Err(format!("{rings:?} rings of {RUNS}").into());
    }
    vcpu.set_setup(setup);
    vcpu.set_ready();
    thread::sleep(Duration::from_millis(1));
    // The vCPU is boosted by its wakeup. Exits do not evaluate the policy while the grant lasts.
    let steps = || vcpu.counters().evaluations;
    let before = steps();
    measure("exit_serving_a_wakeup", "sensor_exit", || exits(&sensor))?;
    if !vcpu.boosted() || steps() - before > u64::from(RUNS) / 2 {
        return Err(format!("the exits were not quiet: {:?}", vcpu.state()).into());
    }
    // The vCPU is boosted by the guest's hint, which each exit has to read.
    config.reason[WAKE].enabled = 0;
    config.hints_at_exit = 1;
    vm.set_config(config, config);
    vcpu.set_setup(pc_vcpu_setup { hints_at_exit: 1, ..setup });
    thread::sleep(Duration::from_millis(1));
    let before = steps();
    measure("exit_boosted_with_guest_line", "sensor_exit", || exits(&sensor))?;
    if steps() - before < u64::from(RUNS) / 2 {
        return Err(format!("the thread was not boosted: {:?}", vcpu.state()).into());
    }
    measure("switch_vcpu", "sensor_switch", || {
        let result = thread::scope(|scope| {
            scope.spawn(|| ping_pong(Some(&sensor)).map_err(|error| error.to_string())).join()
        });
        result.map_err(|_| "the stand-in failed")??;
        Ok(())
    })?;
    Ok(())
}
