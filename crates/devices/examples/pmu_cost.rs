// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Measures the cost of giving a guest's counter its next event: give the old one back, take a new
//! one, set its period, start it (`bench/pmu`). Each mode of the pool is measured with counters on
//! four threads: the calling thread, a thread that runs on another CPU, a thread that sleeps and
//! last ran on this CPU, and a thread that sleeps and last ran on the CPU of the running thread.
//! The events are perf's software clocks (task-clock and cpu-clock). Prints medians of interleaved
//! rounds and their quartiles, as lines of JSON.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use paracord_devices::pmu::{Error, EventSet, Mode, Offer, Pool, Stats, Want};
use paracord_sys::affinity::{self, CPUS_MAX, CpuMask};

mod pmu;
use pmu::{MODES, ROTATED_COUNTERS, ten, unlimited_pool};

const ROUNDS: usize = 21;
/// Maximum number of attempts at a round. An attempt counts only if the running thread ran
/// throughout.
const ATTEMPTS: usize = 20;
/// Numbers of reprogrammings. Both are whole numbers of rotations.
const WARM_UP: usize = 40;
const REPROGRAMS: usize = 200;
/// This corresponds to a slice of 10 ms and one rotation per millisecond, so that lazy release is
/// part of the measurement.
const REPROGRAMS_PER_SLICE: usize = 10;
/// One second after the last event of the host is closed, the kernel switches its perf hooks off
/// (perf_sched_delayed).
const WITHOUT_EVENTS: Duration = Duration::from_millis(1500);
const COLD_ROUNDS: usize = 5;

type Failure = Box<dyn std::error::Error>;

/// The events that are given to the counters, one after the other.
struct Pattern {
    name: &'static str,
    wants: Vec<Want>,
    counters: usize,
}

/// A thread whose counters are reprogrammed.
struct Target<'a> {
    name: &'static str,
    tid: u32,
    /// A round counts only if this thread ran without a break.
    runner: Option<&'a Runner>,
}

/// A thread that runs all the time, unless it is preempted.
struct Runner {
    start: Instant,
    seen_us: AtomicU64,
    breaks: AtomicU64,
    done: AtomicBool,
}

impl Runner {
    /// A longer gap is a break. An interrupt takes less time.
    const BREAK_US: u64 = 300;

    fn run(&self) {
        let mut before = self.now_us();
        while !self.done.load(Relaxed) {
            let now = self.now_us();
            if now - before > Runner::BREAK_US {
                self.breaks.fetch_add(1, Relaxed);
            }
            self.seen_us.store(now, Relaxed);
            before = now;
        }
    }

    fn now_us(&self) -> u64 {
        self.start.elapsed().as_micros() as u64
    }

    /// Number of breaks so far; `None` if the thread does not run now. If two calls return the same
    /// number, the thread ran without a break between the calls.
    fn breaks(&self) -> Option<u64> {
        let breaks = self.breaks.load(Relaxed);
        let ago_us = self.now_us().saturating_sub(self.seen_us.load(Relaxed));
        (ago_us <= Runner::BREAK_US).then_some(breaks)
    }
}

#[derive(Default)]
struct Case {
    rounds_ns: Vec<f64>,
    openings: u64,
    cold_openings: u64,
}

fn main() -> Result<(), Failure> {
    let offer = Arc::new(Offer::probe(EventSet::ALL));
    for refused in offer.refused() {
        eprintln!("not on offer: {}: {}", refused.name, refused.reason);
    }
    let wants = ten(&offer).ok_or("clock events are not on offer: see above")?;
    cold(&offer, wants[0])?;

    let patterns = [
        Pattern { name: "one", wants: wants[..1].to_vec(), counters: 1 },
        Pattern { name: "rotate10", wants, counters: ROTATED_COUNTERS },
    ];
    let runner = Runner {
        start: Instant::now(),
        seen_us: AtomicU64::new(0),
        breaks: AtomicU64::new(0),
        done: AtomicBool::new(false),
    };
    let (here, there) = two_cpus()?;
    affinity::set(0, &here)?;
    std::thread::scope(|scope| {
        let (tell, told) = mpsc::channel();
        // The sleepers end when their channels are dropped, which happens before the scope waits
        // for them.
        let (_until, wait) = mpsc::channel::<()>();
        let (_until_too, wait_too) = mpsc::channel::<()>();
        let start = |cpu: CpuMask, work: Box<dyn FnOnce() + Send>| {
            let tell = tell.clone();
            scope.spawn(move || {
                let _ = tell.send(affinity::set(0, &cpu).map(|()| thread_id()));
                work();
            });
            told.recv()
        };
        let runner = &runner;
        let all = move || -> Result<(), Failure> {
            let targets = [
                Target { name: "own", tid: thread_id(), runner: None },
                Target {
                    name: "running",
                    tid: start(there, Box::new(|| runner.run()))??,
                    runner: Some(runner),
                },
                Target { name: "slept here", tid: start(here, until(wait))??, runner: None },
                Target { name: "slept there", tid: start(there, until(wait_too))??, runner: None },
            ];
            // Wait until the sleepers sleep.
            sleep(Duration::from_millis(50));
            measure(&offer, &targets, &patterns)
        };
        let measured = all();
        runner.done.store(true, Relaxed);
        measured
    })
}

/// Sleeps until the other end of the channel is dropped.
fn until(wait: mpsc::Receiver<()>) -> Box<dyn FnOnce() + Send> {
    Box::new(move || {
        let _ = wait.recv();
    })
}

/// The first and the last CPU that this thread may use. On hosts with several cores, these CPUs are
/// usually on different cores.
fn two_cpus() -> Result<(CpuMask, CpuMask), Failure> {
    let allowed = rustix::thread::sched_getaffinity(None)?;
    let cpus: Vec<u32> = (0..CPUS_MAX).filter(|cpu| allowed.is_set(*cpu as usize)).collect();
    let one = |cpu: Option<&u32>| {
        let mut mask = CpuMask::default();
        cpu.is_some_and(|cpu| mask.insert(*cpu)).then_some(mask).ok_or("this thread may use no CPU")
    };
    Ok((one(cpus.first())?, one(cpus.last())?))
}

fn thread_id() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()
}

/// Measures how long it takes to open the first event after a time without events on the whole
/// host.
fn cold(offer: &Arc<Offer>, want: Want) -> Result<(), Failure> {
    let mut rounds_ns = Vec::new();
    for _ in 0..COLD_ROUNDS {
        sleep(WITHOUT_EVENTS);
        let mut pool = unlimited_pool(offer, thread_id(), Mode::Keyed);
        let start = Instant::now();
        pool.start(0, want)?;
        rounds_ns.push(start.elapsed().as_nanos() as f64);
    }
    println!("{{\"bench\": \"pmu_first_open\", \"target\": \"own\", {}}}", spread(rounds_ns));
    Ok(())
}

fn measure(
    offer: &Arc<Offer>,
    targets: &[Target<'_>],
    patterns: &[Pattern],
) -> Result<(), Failure> {
    let mut cases: Vec<Case> = Vec::new();
    cases.resize_with(targets.len() * patterns.len() * MODES.len(), Case::default);
    for _ in 0..ROUNDS {
        let mut cases = cases.iter_mut();
        for target in targets {
            for pattern in patterns {
                for ((_, mode), case) in MODES.iter().zip(&mut cases) {
                    for _ in 0..ATTEMPTS {
                        let mut pool = unlimited_pool(offer, target.tid, *mode);
                        if case.round(&mut pool, pattern, target.runner)? {
                            break;
                        }
                    }
                }
            }
        }
    }
    let mut cases = cases.into_iter();
    for target in targets {
        for pattern in patterns {
            for ((mode, _), case) in MODES.iter().zip(&mut cases) {
                let reprograms = (case.rounds_ns.len() * REPROGRAMS) as f64;
                if case.rounds_ns.is_empty() {
                    println!(
                        "{{\"bench\": \"pmu_reprogram\", \"target\": \"{}\", \"pattern\": \"{}\", \"mode\": \"{mode}\", \
                         \"skipped\": \"no CPU was free for the running thread\"}}",
                        target.name, pattern.name
                    );
                    continue;
                }
                println!(
                    "{{\"bench\": \"pmu_reprogram\", \"target\": \"{}\", \"pattern\": \"{}\", \"mode\": \"{mode}\", \
                     \"openings\": {:.3}, \"cold_opens\": {:.3}, {}}}",
                    target.name,
                    pattern.name,
                    case.openings as f64 / reprograms,
                    case.cold_openings as f64 / reprograms,
                    spread(case.rounds_ns),
                );
            }
        }
    }
    Ok(())
}

impl Case {
    /// Returns false if the running thread had a break, so the round does not count.
    fn round(
        &mut self,
        pool: &mut Pool,
        pattern: &Pattern,
        runner: Option<&Runner>,
    ) -> Result<bool, Error> {
        reprogram(pool, pattern, WARM_UP)?;
        let before: Stats = pool.stats();
        let breaks = runner.map(Runner::breaks);
        let start = Instant::now();
        reprogram(pool, pattern, REPROGRAMS)?;
        let ns = start.elapsed().as_nanos() as f64 / REPROGRAMS as f64;
        if breaks == Some(None) || breaks != runner.map(Runner::breaks) {
            return Ok(false);
        }
        self.rounds_ns.push(ns);
        let stats = pool.stats();
        self.openings += stats.openings - before.openings;
        self.cold_openings += stats.cold_openings - before.cold_openings;
        Ok(true)
    }
}

/// Calling `start` gives back the counter's old event.
fn reprogram(pool: &mut Pool, pattern: &Pattern, times: usize) -> Result<(), Error> {
    for turn in 0..times {
        let counter = (turn % pattern.counters) as u32;
        pool.start(counter, pattern.wants[turn % pattern.wants.len()])?;
        if turn % REPROGRAMS_PER_SLICE == 0 {
            pool.end_slice();
        }
    }
    Ok(())
}

fn spread(ns: Vec<f64>) -> String {
    let rounds = ns.len();
    let [low, median, high] = pmu::quartiles(ns);
    format!("\"ns\": {median:.0}, \"quartiles_ns\": [{low:.0}, {high:.0}], \"rounds\": {rounds}")
}
