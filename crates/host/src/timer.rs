// SPDX-License-Identifier: GPL-2.0-only
//! What a thread that sleeps in between does again and again.
//!
//! Several of them share one sleep. It lasts as long as the shortest [`rest`](Timer::rest): a sleep of a whole interval
//! that others interrupt would begin anew each time, and what is due would be late by up to an interval.

use std::time::{Duration, Instant};

/// One of them. How often may change from one time to the next.
#[derive(Clone, Copy, Debug)]
pub struct Timer {
    last: Instant,
}

impl Timer {
    /// Due for the first time an interval after `now`.
    pub fn new(now: Instant) -> Timer {
        Timer { last: now }
    }

    /// How long it is until it is due, if it is so each `interval`.
    pub fn rest(&self, interval: Duration, now: Instant) -> Duration {
        interval.saturating_sub(now.saturating_duration_since(self.last))
    }

    /// Whether it is due; then the next interval begins.
    pub fn is_due(&mut self, interval: Duration, now: Instant) -> bool {
        let is_due = self.rest(interval, now).is_zero();
        if is_due {
            self.last = now;
        }
        is_due
    }

    /// Done now, due or not.
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

    /// Woken at 0.9 s for something else, it does not sleep for another whole second.
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
        // Shorter intervals than before: due at once.
        assert_eq!(timer.rest(ms(500), woken + ms(700)), Duration::ZERO);
        timer.restart(woken + ms(700));
        assert_eq!(timer.rest(ms(500), woken + ms(800)), ms(400));
    }
}
