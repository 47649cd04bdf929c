// SPDX-License-Identifier: GPL-2.0-only
//! Timers for the periodic work of a thread that sleeps in between.
//!
//! Several timers share one sleep, which lasts as long as the shortest [`rest`](Timer::rest). If
//! the thread slept for a whole interval instead, each wakeup for another reason would start that
//! interval anew, and the work would be late by up to an interval.

use std::time::{Duration, Instant};

/// A timer. Its interval may change from one period to the next.
#[derive(Clone, Copy, Debug)]
pub struct Timer {
    last: Instant,
}

impl Timer {
    /// Creates a timer that is due for the first time one interval after `now`.
    pub fn new(now: Instant) -> Timer {
        Timer { last: now }
    }

    /// Time until the timer is due, if it is due every `interval`.
    pub fn rest(&self, interval: Duration, now: Instant) -> Duration {
        interval.saturating_sub(now.saturating_duration_since(self.last))
    }

    /// Returns whether the timer is due. If it is, the next interval begins at `now`.
    pub fn is_due(&mut self, interval: Duration, now: Instant) -> bool {
        let is_due = self.rest(interval, now).is_zero();
        if is_due {
            self.last = now;
        }
        is_due
    }

    /// Starts the next interval at `now`, whether the timer is due or not.
    pub fn restart(&mut self, now: Instant) {
        self.last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A thread that could not run for a while does its work once, and not once per missed
    /// interval.
    #[test]
    fn a_timer_that_is_late_is_due_once() {
        let start = Instant::now();
        let mut timer = Timer::new(start);
        let late = start + SECOND * 10 + ms(300);
        assert!(timer.is_due(SECOND, late));
        assert!(!timer.is_due(SECOND, late));
        assert_eq!(timer.rest(SECOND, late), SECOND);
    }

    /// A thread that is woken after 0.9 s for another reason does not sleep for another whole
    /// second.
    #[test]
    fn a_sleep_that_is_interrupted_goes_on_for_the_rest() {
        let start = Instant::now();
        let mut timer = Timer::new(start);
        assert_eq!(timer.rest(SECOND, start), SECOND);
        let woken = start + ms(900);
        assert!(!timer.is_due(SECOND, woken));
        assert_eq!(timer.rest(SECOND, woken), ms(100));
        assert!(timer.is_due(SECOND, woken + ms(100)));
        assert_eq!(timer.rest(SECOND, woken + ms(100)), SECOND);
        // The interval is shorter now, so the timer is already due.
        assert_eq!(timer.rest(ms(500), woken + ms(700)), Duration::ZERO);
        timer.restart(woken + ms(700));
        assert_eq!(timer.rest(ms(500), woken + ms(800)), ms(400));
    }
}
