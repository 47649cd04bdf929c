// SPDX-License-Identifier: GPL-2.0-only
//! Pauses accesses to a region for some time after an access has taken too long. Each further pause
//! in a row is longer than the one before, up to a maximum.
//!
//! All state is in atomics, so a thread that accesses the region never waits for another thread.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use paracord_sys::clock::{NS_PER_MS, NS_PER_S};

/// An access that takes longer than this is too slow. Normally an access takes 2 us, or 1 ms if the
/// page was swapped out to a disk without seeks. The limit is higher in unit tests, because these
/// run in parallel, and on a busy machine their threads wait for each other's mmap(2).
pub(super) const SLOW_NS: u64 = if cfg!(test) { 10 * NS_PER_S } else { 10 * NS_PER_MS };
/// Length of the first pause. Each later pause in a row is twice as long as the one before.
const PAUSE_FIRST_NS: u64 = NS_PER_S;
/// Maximum length of a pause.
const PAUSE_MAX_NS: u64 = 64 * PAUSE_FIRST_NS;
/// If no access is slow for this long after the end of a pause, the next pause is as short as the
/// first one.
const FORGET_NS: u64 = 10 * PAUSE_MAX_NS;

/// Accesses to one region: a watched access that is in progress, and the slow accesses so far.
#[derive(Debug, Default)]
pub struct Pauses {
    /// Start of a watched access that is in progress; 0: there is none.
    busy_since_ns: AtomicU64,
    /// End of the last pause.
    until_ns: AtomicU64,
    /// Number of pauses in a row.
    pauses: AtomicU32,
    slow: AtomicU64,
}

/// An access that has begun. It must be passed to [`Pauses::end`].
#[must_use]
#[derive(Debug)]
pub struct Access {
    start_ns: u64,
    /// Whether `busy_since_ns` is the start of this access.
    is_watched: bool,
}

impl Pauses {
    /// Begins an access. `watched`: whether other accesses are refused while this access hangs. An
    /// access of the main thread is not watched, because any task of the host may preempt that
    /// thread for a long time.
    ///
    /// # Errors
    /// `WouldBlock` during a pause, or while a watched access hangs. In the second case, only the
    /// thread that made the watched access waits.
    pub fn begin(&self, now_ns: u64, watched: bool) -> io::Result<Access> {
        if self.left_ns(now_ns) > 0 {
            return Err(io::Error::new(
                io::ErrorKind::WouldBlock,
                format!(
                    "left out for a while: an access took more than {} ms",
                    SLOW_NS / NS_PER_MS
                ),
            ));
        }
        let mine = if watched { now_ns } else { 0 };
        let claim =
            self.busy_since_ns.compare_exchange(0, mine, Ordering::Relaxed, Ordering::Relaxed);
        if claim.is_err_and(|since_ns| now_ns.saturating_sub(since_ns) > SLOW_NS) {
            return Err(io::Error::new(
                io::ErrorKind::WouldBlock,
                "left out: another access hangs",
            ));
        }
        Ok(Access { start_ns: now_ns, is_watched: watched && claim.is_ok() })
    }

    /// Ends an access. `waited`: whether the thread has waited for anything other than a CPU.
    pub fn end(&self, access: Access, now_ns: u64, waited: bool) {
        if access.is_watched {
            self.busy_since_ns.store(0, Ordering::Relaxed);
        }
        if !waited || now_ns.saturating_sub(access.start_ns) <= SLOW_NS {
            return;
        }
        self.slow.fetch_add(1, Ordering::Relaxed);
        let until_ns = self.until_ns.load(Ordering::Relaxed);
        // Accesses that hung at the same time cause only one pause.
        if until_ns > access.start_ns {
            return;
        }
        if now_ns.saturating_sub(until_ns) > FORGET_NS {
            self.pauses.store(0, Ordering::Relaxed);
        }
        let before = self.pauses.fetch_add(1, Ordering::Relaxed);
        let pause_ns = PAUSE_FIRST_NS.saturating_mul(1 << before.min(32)).min(PAUSE_MAX_NS);
        self.until_ns.store(now_ns.saturating_add(pause_ns), Ordering::Relaxed);
    }

    /// Remaining time of the pause; 0: there is no pause.
    pub fn left_ns(&self, now_ns: u64) -> u64 {
        self.until_ns.load(Ordering::Relaxed).saturating_sub(now_ns)
    }

    /// Number of slow accesses.
    pub fn slow(&self) -> u64 {
        self.slow.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START_NS: u64 = 1 << 50;

    /// Makes an access that takes `took_ns`, and returns the length of the pause that follows.
    fn access(pauses: &Pauses, at_ns: u64, took_ns: u64, waited: bool) -> u64 {
        let access = pauses.begin(at_ns, true).unwrap();
        pauses.end(access, at_ns + took_ns, waited);
        pauses.left_ns(at_ns + took_ns)
    }

    #[test]
    fn pauses_grow_and_are_forgotten() {
        let pauses = Pauses::default();
        let mut now_ns = START_NS;
        assert_eq!(access(&pauses, now_ns, SLOW_NS, true), 0);
        assert_eq!(access(&pauses, now_ns, 2 * SLOW_NS, false), 0, "it was only preempted");
        let mut seen = Vec::new();
        for _ in 0..8 {
            let pause_ns = access(&pauses, now_ns, 2 * SLOW_NS, true);
            seen.push(pause_ns / PAUSE_FIRST_NS);
            now_ns += 2 * SLOW_NS;
            let refused = pauses.begin(now_ns + pause_ns - 1, true).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
            now_ns += pause_ns;
        }
        assert_eq!(seen, [1, 2, 4, 8, 16, 32, 64, 64]);
        assert_eq!(pauses.slow(), 8);
        now_ns += FORGET_NS + 1;
        assert_eq!(access(&pauses, now_ns, 2 * SLOW_NS, true), PAUSE_FIRST_NS);
    }

    #[test]
    fn others_stay_away_from_an_access_that_hangs() {
        let pauses = Pauses::default();
        let hangs = pauses.begin(START_NS, true).unwrap();
        let early = pauses.begin(START_NS + SLOW_NS, true).unwrap();
        let refused = pauses.begin(START_NS + SLOW_NS + 1, false).unwrap_err();
        assert_eq!(refused.to_string(), "left out: another access hangs");
        // Both accesses end late, and together cause one pause.
        pauses.end(early, START_NS + 3 * SLOW_NS, true);
        pauses.end(hangs, START_NS + 3 * SLOW_NS, true);
        assert_eq!(pauses.left_ns(START_NS + 3 * SLOW_NS), PAUSE_FIRST_NS);
        assert_eq!(pauses.slow(), 2);
        let after_ns = START_NS + 3 * SLOW_NS + PAUSE_FIRST_NS;
        assert!(pauses.begin(after_ns, true).is_ok());
    }

    #[test]
    fn an_access_of_the_main_thread_keeps_nobody_away() {
        let pauses = Pauses::default();
        let suspended = pauses.begin(START_NS, false).unwrap();
        let other = pauses.begin(START_NS + 9 * SLOW_NS, true).unwrap();
        pauses.end(suspended, START_NS + 10 * SLOW_NS, false);
        // The end of the first access does not end the watch over the second one.
        assert!(pauses.begin(START_NS + 11 * SLOW_NS, true).is_err());
        pauses.end(other, START_NS + 11 * SLOW_NS, false);
        assert!(pauses.begin(START_NS + 11 * SLOW_NS, true).is_ok());
    }
}
