// SPDX-License-Identifier: GPL-2.0-only
//! Per-entity load tracking (kernel/sched/pelt.c): geometric series over periods of 1024 us. After
//! 32 periods, a contribution has decayed to half.

use paracord_policy::pelt;

use crate::{kernel::fair_state::SchedAvg, time::Ns};

/// `LOAD_AVG_MAX`: the sum of the series.
const LOAD_AVG_MAX: u64 = 47_742;
/// `PELT_MIN_DIVIDER`: the largest sum at the beginning of a period.
pub const MIN_DIVIDER: u64 = LOAD_AVG_MAX - 1024;

/// `decay_load()`. The function of the policy has 32 bits, which is enough for single tasks. Sums
/// over many tasks are therefore split.
fn decay(sum: u64, periods: u64) -> u64 {
    const BITS: u32 = 31;
    let (high, low) = (sum >> BITS, sum & ((1 << BITS) - 1));
    let whole = if high == 0 { 0 } else { high * pelt::decay(1 << BITS, periods) };
    whole + pelt::decay(low, periods)
}

/// The state of an entity or queue since the last update.
#[derive(Clone, Copy, Debug, Default)]
pub struct Was {
    /// Weight, scaled down. For an entity, 0 or 1.
    pub load: u64,
    /// Number of runnable tasks.
    pub runnable: u64,
    /// Whether the entity ran.
    pub running: bool,
}

impl SchedAvg {
    /// `get_pelt_divider()`.
    #[must_use]
    pub fn divider(&self) -> u64 {
        MIN_DIVIDER + self.period_contrib
    }

    /// `___update_load_sum()`. Returns whether a period has ended.
    fn accumulate(&mut self, now: Ns, mut was: Was) -> bool {
        if now < self.updated {
            self.updated = now;
            return false;
        }
        let us = (now - self.updated) >> 10;
        if us == 0 {
            return false;
        }
        self.updated += us << 10;
        if was.load == 0 {
            was.runnable = 0;
            was.running = false;
        }
        let mut contrib = us;
        let total = us + self.period_contrib;
        let periods = total / 1024;
        if periods > 0 {
            self.load_sum = decay(self.load_sum, periods);
            self.runnable_sum = decay(self.runnable_sum, periods);
            self.util_sum = decay(self.util_sum, periods);
            let rest = total % 1024;
            let full = LOAD_AVG_MAX - decay(LOAD_AVG_MAX, periods) - 1024;
            contrib = decay(1024 - self.period_contrib, periods) + full + rest;
            self.period_contrib = rest;
        } else {
            self.period_contrib = total;
        }
        self.load_sum += was.load * contrib;
        self.runnable_sum += (was.runnable * contrib) << 10;
        if was.running {
            self.util_sum += contrib << 10;
        }
        periods > 0
    }

    /// `___update_load_avg()`.
    pub fn average(&mut self, weight: u64) {
        let divider = self.divider();
        self.load_avg = weight * self.load_sum / divider;
        self.runnable_avg = self.runnable_sum / divider;
        self.util_avg = self.util_sum / divider;
    }

    /// `__update_load_avg_se()`, `__update_load_avg_cfs_rq()`. Returns whether the averages are
    /// new. `weight` is the weight of an entity, scaled down; for a queue it is 1.
    pub fn update(&mut self, now: Ns, was: Was, weight: u64) -> bool {
        let crossed = self.accumulate(now, was);
        if crossed {
            self.average(weight);
        }
        crossed
    }

    /// Whether all sums are 0.
    #[must_use]
    pub fn is_decayed(&self) -> bool {
        self.load_sum == 0 && self.util_sum == 0 && self.runnable_sum == 0
    }
}

/// `add_positive()`: adds a signed number to an unsigned value, with 0 as the minimum.
pub fn add_positive(value: &mut u64, by: i64) {
    *value = value.saturating_add_signed(by);
}

/// The difference between two averages.
#[must_use]
pub fn change(from: u64, to: u64) -> i64 {
    i64::try_from(i128::from(to) - i128::from(from)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNS: Was = Was { load: 1, runnable: 1, running: true };

    #[test]
    fn who_always_runs_has_all_of_a_cpu() {
        let mut avg = SchedAvg { updated: 1, ..SchedAvg::default() };
        for at in 1..=1000u64 {
            avg.update(at * 1_000_000, RUNS, 1024);
        }
        assert!((1000..=1024).contains(&avg.util_avg), "{avg:?}");
        assert!((1000..=1024).contains(&avg.load_avg), "{avg:?}");
    }

    #[test]
    fn what_it_was_is_halved_after_32_periods() {
        let mut avg = SchedAvg { updated: 1, ..SchedAvg::default() };
        avg.update(1_000_000_000, RUNS, 1024);
        let before = avg.util_avg;
        let updated = avg.updated;
        avg.update(updated + 32 * 1024 * 1024, Was::default(), 1024);
        assert!(avg.util_avg.abs_diff(before / 2) <= 2, "{before} {avg:?}");
    }

    #[test]
    fn sums_of_many_heavy_tasks_are_not_cut_off() {
        let loops = Was { load: 1_000 * 88_761, runnable: 1_000, running: true };
        let mut avg = SchedAvg { updated: 1, ..SchedAvg::default() };
        for at in 1..=1000u64 {
            avg.update(at * 1_000_000, loops, 1);
        }
        assert!(avg.load_avg.abs_diff(loops.load) < loops.load / 100, "{avg:?}");
        assert!((990_000..=1_026_000).contains(&avg.runnable_avg), "{avg:?}");
        assert!(decay(1 << 40, 32).abs_diff(1 << 39) < 1 << 12);
    }
}
