// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Shared by the benchmarks of `bench/pmu`: the events that they count, and the pools.

use std::sync::Arc;
use std::time::Duration;

use paracord_devices::pmu::{Budget, Listener, Mode, Offer, Pool, Quota, Settings, Want};

/// Number of counters over which perf rotates the events.
pub const ROTATED_COUNTERS: usize = 4;

pub const MODES: [(&str, Mode); 3] =
    [("recreate", Mode::Recreate), ("last", Mode::Last), ("keyed", Mode::Keyed)];

/// Ten configurations of events without hidden costs. (Opening any other software event makes the
/// kernel patch code.) A clock event that samples always counts in all modes, so only two of the
/// ten sample.
pub fn ten(offer: &Offer) -> Option<Vec<Want>> {
    let clocks = [offer.find("task-clock")?, offer.find("cpu-clock")?];
    let mut wants = Vec::new();
    for event in clocks {
        wants.push(Want { event, user: true, kernel: true, period: 1 << 40, ..Want::default() });
    }
    for (user, kernel) in [(true, true), (true, false), (false, true), (false, false)] {
        for event in clocks {
            wants.push(Want { event, user, kernel, ..Want::default() });
        }
    }
    Some(wants)
}

/// A pool without limits, because the benchmark measures what a limit would have to cover.
pub fn unlimited_pool(offer: &Arc<Offer>, tid: u32, mode: Mode) -> Pool {
    let quota = Quota { opens_per_sec: u32::MAX, calls_per_sec: Duration::from_secs(10_000) };
    let settings = Settings { mode, ..Settings::default() };
    let (listener, budget) = (Listener::Thread(tid), Arc::new(Budget::new(quota)));
    Pool::of_thread(tid, listener, Arc::clone(offer), budget, settings)
}

/// The first quartile, the median and the third quartile.
pub fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| values[quarter * values.len() / 4])
}
