// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Measures the share of a CPU that each mode of the pool takes while a guest's perf rotates ten
//! events over four counters (`bench/pmu`). At each turn, one counter changes and the others are
//! read. The result is the CPU time of a thread that wakes up for each turn, including its context
//! switches with open events, minus the CPU time of such a thread without counters. Prints medians
//! of interleaved rounds and their quartiles, as lines of JSON.

use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use paracord_devices::pmu::{Error, EventSet, Offer, Pool, SLICE, Want};
use rustix::thread::gettid;
use rustix::time::{ClockId, clock_gettime};

mod pmu;
use pmu::{MODES, ROTATED_COUNTERS, quartiles, ten, unlimited_pool};

const ROUNDS: usize = 15;
const ROUND: Duration = Duration::from_millis(600);
/// perf's own interval for software PMUs and most hardware PMUs, and perf's shortest interval.
const INTERVALS: [Duration; 2] = [Duration::from_millis(4), Duration::from_millis(1)];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let offer = Arc::new(Offer::probe(EventSet::ALL));
    let wants = ten(&offer).ok_or("clock events are not on offer")?;
    let tid = gettid().as_raw_nonzero().get().unsigned_abs();
    for interval in INTERVALS {
        let mut cases = MODES.map(|_| Vec::new());
        for _ in 0..ROUNDS {
            let nothing = share_pct(interval, |_| Ok(()))?;
            for ((_, mode), case) in MODES.iter().zip(&mut cases) {
                let mut pool = unlimited_pool(&offer, tid, *mode);
                let mut slice = Instant::now();
                let share = share_pct(interval, |turn| {
                    rotate(&mut pool, &wants, turn)?;
                    if slice.elapsed() >= SLICE {
                        slice = Instant::now();
                        pool.end_slice();
                    }
                    Ok(())
                })?;
                case.push(share - nothing);
            }
        }
        for ((mode, _), case) in MODES.iter().zip(cases) {
            let rounds = case.len();
            let [low, median, high] = quartiles(case);
            println!(
                "{{\"bench\": \"pmu_share\", \"interval_us\": {}, \"mode\": \"{mode}\", \"cpu_pct\": {median:.2}, \
                 \"quartiles_pct\": [{low:.2}, {high:.2}], \"rounds\": {rounds}}}",
                interval.as_micros()
            );
        }
    }
    Ok(())
}

fn rotate(pool: &mut Pool, wants: &[Want], turn: usize) -> Result<(), Error> {
    let changed = turn % ROTATED_COUNTERS;
    for counter in (0..ROTATED_COUNTERS).filter(|counter| *counter != changed) {
        pool.counts(counter as u32)?;
    }
    pool.start(changed as u32, wants[turn % wants.len()])
}

/// The share of one CPU that the calling thread takes for one turn per interval.
fn share_pct(
    interval: Duration,
    mut at_turn: impl FnMut(usize) -> Result<(), Error>,
) -> Result<f64, Error> {
    let (start, start_cpu) = (Instant::now(), cpu_time());
    let mut due = start;
    for turn in 0.. {
        due += interval;
        sleep(due.saturating_duration_since(Instant::now()));
        at_turn(turn)?;
        if start.elapsed() >= ROUND {
            break;
        }
    }
    Ok(100.0 * (cpu_time() - start_cpu).as_secs_f64() / start.elapsed().as_secs_f64())
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}
