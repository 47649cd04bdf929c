// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! What it costs to give a counter of a guest its next event (give back, take, set the period, go on) in each mode of
//! the pool, on the own thread, on one that runs on another CPU, and on one that sleeps: `bench/pmu`. Clock events of
//! the kernel's own. Medians of interleaved rounds and their quartiles, as lines of JSON.

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use paracord_devices::pmu::{Budget, Error, Mode, Offer, Pool, Quota, Settings, Stats, Want};

const ROUNDS: usize = 21;
/// Each a whole number of rotations.
const WARM_UP: usize = 40;
const REPROGRAMS: usize = 200;
/// What perf rotates over.
const ROTATED_COUNTERS: usize = 4;
/// Lazy release takes part, as in a slice of 10 ms with a rotation each millisecond.
const REPROGRAMS_PER_SLICE: usize = 10;
/// The kernel is done with the last event of the host after a second (perf_sched_delayed).
const WITHOUT_EVENTS: Duration = Duration::from_millis(1500);
const COLD_ROUNDS: usize = 5;

const MODES: [(&str, Mode); 3] =
    [("recreate", Mode::Recreate), ("last", Mode::Last), ("keyed", Mode::Keyed)];

type Failure = Box<dyn std::error::Error>;

/// What counters are given, one after the other.
struct Pattern {
    name: &'static str,
    wants: Vec<Want>,
    counters: usize,
}

/// A thread whose counters are reprogrammed.
struct Target {
    name: &'static str,
    tid: u32,
}

#[derive(Default)]
struct Case {
    rounds_ns: Vec<f64>,
    openings: u64,
    cold_openings: u64,
}

fn main() -> Result<(), Failure> {
    let offer = Arc::new(Offer::probe());
    for refused in offer.refused() {
        eprintln!("not on offer: {}: {}", refused.name, refused.reason);
    }
    let wants = ten(&offer).ok_or("clock events are not on offer: see above")?;
    cold(&offer, wants[0])?;

    let patterns = [
        Pattern { name: "one", wants: wants[..1].to_vec(), counters: 1 },
        Pattern { name: "rotate10", wants, counters: ROTATED_COUNTERS },
    ];
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (tell, told) = mpsc::channel();
        // The sleeper ends with its channel, before the scope waits for it.
        let (_until, wait) = mpsc::channel::<()>();
        let (tell_too, done) = (tell.clone(), &done);
        scope.spawn(move || {
            let _ = tell.send(("running", thread_id()));
            while !done.load(Relaxed) {
                spin_loop();
            }
        });
        scope.spawn(move || {
            let _ = tell_too.send(("sleeping", thread_id()));
            let _ = wait.recv();
        });
        let mut targets = vec![Target { name: "own", tid: thread_id() }];
        targets.extend(told.iter().take(2).map(|(name, tid)| Target { name, tid }));
        let measured = measure(&offer, &targets, &patterns);
        done.store(true, Relaxed);
        measured
    })
}

fn thread_id() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()
}

/// Ten configurations without costs of their own: others of the kernel's events patch code when they are opened.
fn ten(offer: &Offer) -> Option<Vec<Want>> {
    let mut wants = Vec::new();
    for (user, kernel) in [(true, true), (true, false), (false, true), (false, false)] {
        for name in ["task-clock", "cpu-clock"] {
            wants.push(Want { event: offer.find(name)?, user, kernel, period: 1 << 40 });
        }
    }
    let counting: Vec<Want> = wants[..2].iter().map(|want| Want { period: 0, ..*want }).collect();
    wants.extend(counting);
    Some(wants)
}

/// No limits: this is to see what there is to limit.
fn pool(offer: &Arc<Offer>, tid: u32, mode: Mode) -> Pool {
    let quota = Quota { opens_per_sec: u32::MAX, calls_per_sec: Duration::from_secs(10_000) };
    let settings = Settings { mode, ..Settings::default() };
    Pool::of_thread(tid, Arc::clone(offer), Arc::new(Budget::new(quota)), settings)
}

/// The first event after a while without any on the whole host.
fn cold(offer: &Arc<Offer>, want: Want) -> Result<(), Failure> {
    let mut rounds_ns = Vec::new();
    for _ in 0..COLD_ROUNDS {
        sleep(WITHOUT_EVENTS);
        let mut pool = pool(offer, thread_id(), Mode::Keyed);
        let start = Instant::now();
        pool.start(0, want)?;
        rounds_ns.push(start.elapsed().as_nanos() as f64);
    }
    println!("{{\"bench\": \"pmu_first_open\", \"target\": \"own\", {}}}", spread(rounds_ns));
    Ok(())
}

fn measure(offer: &Arc<Offer>, targets: &[Target], patterns: &[Pattern]) -> Result<(), Failure> {
    let mut cases: Vec<Case> = Vec::new();
    cases.resize_with(targets.len() * patterns.len() * MODES.len(), Case::default);
    for _ in 0..ROUNDS {
        let mut cases = cases.iter_mut();
        for target in targets {
            for pattern in patterns {
                for ((_, mode), case) in MODES.iter().zip(&mut cases) {
                    case.round(&mut pool(offer, target.tid, *mode), pattern)?;
                }
            }
        }
    }
    let mut cases = cases.into_iter();
    for target in targets {
        for pattern in patterns {
            for ((mode, _), case) in MODES.iter().zip(&mut cases) {
                let reprograms = (ROUNDS * REPROGRAMS) as f64;
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
    fn round(&mut self, pool: &mut Pool, pattern: &Pattern) -> Result<(), Error> {
        reprogram(pool, pattern, WARM_UP)?;
        let before: Stats = pool.stats();
        let start = Instant::now();
        reprogram(pool, pattern, REPROGRAMS)?;
        self.rounds_ns.push(start.elapsed().as_nanos() as f64 / REPROGRAMS as f64);
        let stats = pool.stats();
        self.openings += stats.openings - before.openings;
        self.cold_openings += stats.cold_openings - before.cold_openings;
        Ok(())
    }
}

/// `start` gives back what the counter had.
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

fn spread(mut ns: Vec<f64>) -> String {
    ns.sort_by(f64::total_cmp);
    let (low, median, high) = (ns[ns.len() / 4], ns[ns.len() / 2], ns[3 * ns.len() / 4]);
    format!("\"ns\": {median:.0}, \"quartiles_ns\": [{low:.0}, {high:.0}]")
}
