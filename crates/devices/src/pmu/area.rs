// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The PMU area of a vCPU's slot in paracord's region. A [`Pool`] does what the guest requests
//! there.

use std::time::Duration;

use paracord_abi::{
    CounterCounts, CounterWant, PMU_GUEST_BYTES, PMU_HOST_BYTES, PmuAnswer, PmuAsk,
};
use paracord_sys::clock::now_ns;

use super::error::Error;
use super::offer::Want;
use super::pool::{COUNTERS, Pool, Stats};
use super::quota::SLICE;

/// The area of one vCPU. The caller copies the guest's lines and stores the host's lines.
#[derive(Debug)]
pub struct Area {
    pool: Pool,
    /// For each counter, the event that it counts, or the default value if the counter is off.
    wants: [CounterWant; COUNTERS as usize],
    answer: PmuAnswer,
    /// The content of the host's lines when this area was taken over.
    before: PmuAnswer,
    slice_since_ns: u64,
    last_refusal: Option<Error>,
}

impl Area {
    /// Makes an area in which nothing is counted yet. One event is opened and stays open. The first
    /// event on a host may take milliseconds to open, and no guest should wait for that.
    pub fn new(mut pool: Pool) -> Area {
        // If the offer is empty, this is index 0, which the pool refuses.
        let event = pool.offer().mask().trailing_zeros() % u64::BITS;
        let first = Want { event, user: true, kernel: true, ..Want::default() };
        let warmed = pool.start(0, first).and_then(|()| pool.stop(0));
        Area {
            pool,
            wants: Default::default(),
            answer: PmuAnswer::default(),
            before: PmuAnswer::default(),
            slice_since_ns: now_ns(),
            last_refusal: warmed.err(),
        }
    }

    /// Begins an area in the guest's own memory. `service`: a number whose change tells the guest
    /// that the counts have started again. `offered`: mask of the events that can be counted.
    pub fn begin(&mut self, service: u32, offered: u64) {
        (self.answer.service, self.answer.offered) = (service, offered);
    }

    /// Takes over an area that another process served until now. `lines` is a copy of the host's
    /// lines: the counts continue from there. `copy` is a copy of the guest's lines: the counters
    /// in it are started without a new request. If the guest's last batch of requests was not
    /// served yet, this call serves it. Returns the host's lines.
    pub fn resume(
        &mut self,
        lines: &[u8; PMU_HOST_BYTES],
        copy: &[u8; PMU_GUEST_BYTES],
    ) -> [u8; PMU_HOST_BYTES] {
        self.before = PmuAnswer::from_bytes(lines);
        self.answer = PmuAnswer { refused: 0, ..self.before };
        let ask = PmuAsk::from_bytes(copy);
        for (counter, want) in (0..).zip(&ask.wants) {
            if want.event.is_some() {
                self.change(counter, want);
            }
        }
        // This marks the batch as served. Otherwise, the guest would treat the counts from here on
        // as a part of that batch, and drop them.
        self.answer.served = ask.asked;
        self.answer.to_bytes()
    }

    /// Serves a request of the guest, given a copy of the guest's lines. Returns the host's lines.
    /// When the caller stores these lines, it must store the word at
    /// [`PMU_SERVED_OFFSET`](paracord_abi::PMU_SERVED_OFFSET) last. `None`: there is no new
    /// request.
    pub fn serve(&mut self, copy: &[u8; PMU_GUEST_BYTES]) -> Option<[u8; PMU_HOST_BYTES]> {
        let ask = PmuAsk::from_bytes(copy);
        if ask.asked == self.answer.served {
            return None;
        }
        self.answer.refused = 0;
        for (counter, want) in (0..).zip(&ask.wants) {
            if *want != self.wants[counter as usize] {
                self.change(counter, want);
            } else if ask.read & 1 << counter != 0 {
                let is_on = want.event.is_some();
                if is_on && self.pool.is_over_budget() {
                    self.refuse(counter);
                }
                self.note(counter);
            }
        }
        self.answer.served = ask.asked;
        Some(self.answer.to_bytes())
    }

    /// Handles overflows. Call this after the listener was notified of an overflow, while the guest
    /// does not run. Returns the host's lines if counters have overflowed. The caller then stores
    /// the lines and interrupts the guest.
    pub fn overflowed(&mut self) -> Option<[u8; PMU_HOST_BYTES]> {
        let overflowed = self.pool.overflowed();
        if overflowed == 0 {
            return None;
        }
        let stops = self.pool.is_over_budget();
        for counter in (0..COUNTERS).filter(|counter| overflowed & 1 << counter != 0) {
            if stops {
                self.refuse(counter);
            }
            self.note(counter);
            let overflows = &mut self.answer.counters[counter as usize].overflows;
            *overflows = overflows.wrapping_add(1);
        }
        Some(self.answer.to_bytes())
    }

    /// Closes events that have been idle for too long. Call this from time to time, for example
    /// after exits.
    pub fn end_slice(&mut self) {
        // One event always stays open.
        let stats = self.pool.stats();
        if stats.openings - stats.closings <= 1 {
            return;
        }
        let now = now_ns();
        if u128::from(now.saturating_sub(self.slice_since_ns)) >= SLICE.as_nanos() {
            self.slice_since_ns = now;
            self.pool.end_slice();
        }
    }

    /// Counts of what the pool has done so far.
    pub fn stats(&self) -> Stats {
        self.pool.stats()
    }

    /// Time that the pool has spent in system calls so far.
    pub fn spent(&self) -> Duration {
        self.pool.spent()
    }

    /// The reason of the most recent refusal to serve a counter.
    pub fn last_refusal(&self) -> Option<Error> {
        self.last_refusal
    }

    /// Stops a counter. The next batch tries to start it again.
    fn refuse(&mut self, counter: u32) {
        self.change(counter, &CounterWant::default());
        self.answer.refused |= 1 << counter;
    }

    fn change(&mut self, counter: u32, want: &CounterWant) {
        let (index, bit) = (counter as usize, 1 << counter);
        let stopped = self.pool.stop(counter);
        self.note(counter);
        let started = match want.event {
            None => Ok(()),
            Some(event) => self.pool.start(
                counter,
                Want {
                    event: event.into(),
                    user: want.user,
                    kernel: want.kernel,
                    period: want.period,
                    elapsed: want.elapsed,
                },
            ),
        };
        self.answer.refused |= if started.is_err() { bit } else { 0 };
        // A counter that is refused is tried again with the next batch.
        self.wants[index] = if started.is_ok() { *want } else { CounterWant::default() };
        self.last_refusal = stopped.err().or(started.err()).or(self.last_refusal);
    }

    /// Stores the count of a counter in the host's lines. If the count cannot be read, the old
    /// count stays.
    fn note(&mut self, counter: u32) {
        if let Ok(counts) = self.pool.counts(counter) {
            let before = &self.before.counters[counter as usize];
            let told = &mut self.answer.counters[counter as usize];
            *told = CounterCounts {
                count: before.count.wrapping_add(counts.count),
                enabled_ns: before.enabled_ns.wrapping_add(counts.enabled_ns),
                running_ns: before.running_ns.wrapping_add(counts.running_ns),
                overflows: told.overflows,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::pmu::{Budget, EventSet, Offer, Quota, Settings};

    fn area() -> (Area, u16) {
        let offer = Arc::new(Offer::probe(EventSet::ALL));
        let clock = offer.find("task-clock").unwrap();
        let pool = Pool::new(offer, Arc::new(Budget::default()), Settings::default());
        (Area::new(pool), u16::try_from(clock).unwrap())
    }

    /// Makes the guest's lines from the number of the batch, the mask of the counters to read, and
    /// pairs of a counter and an event. The events count in user and kernel mode.
    fn lines(asked: u32, read: u32, wants: &[(usize, u16)]) -> [u8; PMU_GUEST_BYTES] {
        let mut bytes = [0; PMU_GUEST_BYTES];
        bytes[..4].copy_from_slice(&asked.to_le_bytes());
        bytes[4..8].copy_from_slice(&read.to_le_bytes());
        for (counter, event) in wants {
            let at = 64 + 16 * counter + 8;
            bytes[at..at + 2].copy_from_slice(&(event + 1).to_le_bytes());
            bytes[at + 2] = 3;
        }
        bytes
    }

    /// Changes the result of [`lines`] so that a counter samples.
    fn sampled(
        mut bytes: [u8; PMU_GUEST_BYTES],
        counter: usize,
        period: u64,
        elapsed: u32,
    ) -> [u8; PMU_GUEST_BYTES] {
        let want = &mut bytes[64 + 16 * counter..][..16];
        want[..8].copy_from_slice(&period.to_le_bytes());
        want[12..].copy_from_slice(&elapsed.to_le_bytes());
        bytes
    }

    fn overflows(bytes: &[u8; PMU_HOST_BYTES], counter: usize) -> u64 {
        word(bytes, 64 + 32 * counter + 24)
    }

    fn word(bytes: &[u8], at: usize) -> u64 {
        u64::from_le_bytes(*bytes[at..].first_chunk().unwrap())
    }

    fn count(bytes: &[u8; PMU_HOST_BYTES], counter: usize) -> u64 {
        word(bytes, 64 + 32 * counter)
    }

    fn refused(bytes: &[u8; PMU_HOST_BYTES]) -> u64 {
        word(bytes, 0) >> 32
    }

    /// Consumes two milliseconds of the thread's CPU time.
    fn work() {
        let own_ns = || {
            let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
            time.tv_sec * 1_000_000_000 + time.tv_nsec
        };
        let start_ns = own_ns();
        while own_ns() - start_ns < 2_000_000 {}
    }

    #[test]
    fn counters_count_while_they_are_wanted() {
        let (mut area, clock) = area();
        assert_eq!(area.serve(&lines(0, 0, &[(3, clock)])), None, "there is no batch yet");
        let on = area.serve(&lines(1, 0, &[(3, clock)])).unwrap();
        assert_eq!((word(&on, 0), count(&on, 3)), (1, 0));
        work();
        assert_eq!(area.serve(&lines(1, 0, &[])), None, "the same batch");
        let quiet = area.serve(&lines(2, 0, &[(3, clock)])).unwrap();
        assert_eq!(count(&quiet, 3), 0, "the guest did not ask for the count");
        let read = area.serve(&lines(3, 1 << 3, &[(3, clock)])).unwrap();
        assert!(count(&read, 3) > 1_000_000);
        let off = area.serve(&lines(4, 0, &[])).unwrap();
        let stopped = count(&off, 3);
        assert!(stopped > count(&read, 3));
        work();
        let read = area.serve(&lines(5, 0xffff, &[])).unwrap();
        assert_eq!(count(&read, 3), stopped);
    }

    #[test]
    fn overflows_are_told_with_their_counts() {
        let (mut area, clock) = area();
        let wants = lines(1, 0, &[(3, clock), (4, clock)]);
        area.serve(&sampled(wants, 3, 5_000_000, 0)).unwrap();
        assert_eq!(area.overflowed(), None);
        let end_ns = now_ns() + 5_000_000_000;
        let told = loop {
            assert!(now_ns() < end_ns);
            work();
            if let Some(told) = area.overflowed() {
                break told;
            }
        };
        assert_eq!((overflows(&told, 3), overflows(&told, 4)), (1, 0));
        assert!(count(&told, 3) >= 5_000_000);
        assert_eq!(
            (word(&told, 0), count(&told, 4)),
            (1, 0),
            "the batch is served, and the guest has not asked for the other count"
        );
        area.serve(&lines(2, 0, &[])).unwrap();
        work();
        assert_eq!(area.overflowed(), None);
    }

    #[test]
    fn a_period_goes_on_where_it_was() {
        let (mut area, clock) = area();
        let period = 1 << 32;
        area.serve(&sampled(lines(1, 0, &[(0, clock)]), 0, period, 0)).unwrap();
        work();
        assert_eq!(area.overflowed(), None);
        // The whole period except one millisecond has already passed.
        area.serve(&sampled(lines(2, 0, &[(0, clock)]), 0, period, u32::MAX - 1_000_000)).unwrap();
        let end_ns = now_ns() + 5_000_000_000;
        while area.overflowed().is_none() {
            assert!(now_ns() < end_ns);
            work();
        }
        work();
        assert_eq!(area.overflowed(), None, "the next period is a full one");
    }

    #[test]
    fn samples_end_with_the_budget() {
        let offer = Arc::new(Offer::probe(EventSet::ALL));
        let quota = Quota { calls_per_sec: Duration::from_millis(2), ..Quota::default() };
        let clock = u16::try_from(offer.find("task-clock").unwrap()).unwrap();
        let pool = Pool::new(offer, Arc::new(Budget::new(quota)), Settings::default());
        let mut area = Area::new(pool);
        let (mut asked, end_ns) = (0, now_ns() + 5_000_000_000);
        while now_ns() < end_ns {
            asked += 1;
            area.serve(&sampled(lines(asked, 0, &[(0, clock)]), 0, 100_000, 0)).unwrap();
            if area.overflowed().is_some_and(|told| refused(&told) == 1) {
                work();
                assert_eq!(area.overflowed(), None, "the counter is stopped");
                return;
            }
        }
        panic!("the counter was never stopped");
    }

    #[test]
    fn reading_ends_with_the_budget() {
        let offer = Arc::new(Offer::probe(EventSet::ALL));
        let calls_per_sec = Duration::from_millis(2);
        let clock = u16::try_from(offer.find("task-clock").unwrap()).unwrap();
        let budget = Arc::new(Budget::new(Quota { calls_per_sec, ..Quota::default() }));
        let mut area = Area::new(Pool::new(offer, budget.clone(), Settings::default()));
        let (mut asked, end_ns) = (0, now_ns() + 5_000_000_000);
        let refusal = loop {
            asked += 1;
            let answer = area.serve(&lines(asked, 1, &[(0, clock)])).unwrap();
            if refused(&answer) == 1 {
                break answer;
            }
            assert!(now_ns() < end_ns, "the counter was never refused");
        };
        // The counter is stopped and costs nothing. A guest that continues to ask is served when
        // the debt is paid.
        let spent = budget.spent();
        assert!(spent >= calls_per_sec / 10);
        work();
        let again = area.serve(&lines(asked + 1, 1 | 1 << 5, &[(0, clock)])).unwrap();
        if refused(&again) == 1 {
            assert_eq!((count(&again, 0), budget.spent()), (count(&refusal, 0), spent));
        }
        while refused(&area.serve(&lines(asked + 2, 0, &[(0, clock)])).unwrap()) != 0 {
            asked += 1;
            assert!(now_ns() < end_ns, "the counter was never served again");
        }
    }

    #[test]
    fn the_first_event_of_a_guest_is_never_cold() {
        let (mut area, clock) = area();
        assert_eq!(area.stats().openings, 1);
        area.serve(&lines(1, 0, &[(0, clock)])).unwrap();
        area.serve(&lines(2, 0, &[])).unwrap();
        for _ in 0..20 {
            std::thread::sleep(SLICE);
            area.end_slice();
        }
        let stats = area.stats();
        assert_eq!((stats.openings - stats.closings, stats.cold_openings), (1, 0));
    }

    #[test]
    fn counts_go_on_under_another_area() {
        let (mut first, clock) = area();
        first.serve(&lines(1, 0, &[(2, clock)])).unwrap();
        work();
        let wants = lines(2, 1 << 2, &[(2, clock), (3, 999)]);
        let told = first.serve(&wants).unwrap();
        drop(first);
        let (mut second, _) = area();
        let on = second.resume(&told, &wants);
        assert_eq!((word(&on, 0) as u32, refused(&on)), (2, 1 << 3));
        assert_eq!(count(&on, 2), count(&told, 2));
        assert_eq!(second.serve(&wants), None, "this batch was already served");
        work();
        let off = second.serve(&lines(3, 0, &[])).unwrap();
        assert!(count(&off, 2) >= count(&told, 2) + 2_000_000, "it was started without a request");
    }

    #[test]
    fn what_nobody_has_served_is_served_by_another_area() {
        let (mut first, clock) = area();
        let told = first.serve(&lines(1, 0, &[(2, clock)])).unwrap();
        drop(first);
        let unserved = lines(2, 1 << 2, &[(5, clock)]);
        let (mut second, _) = area();
        let on = second.resume(&told, &unserved);
        assert_eq!((word(&on, 0) as u32, refused(&on)), (2, 0));
        assert_eq!(second.serve(&unserved), None);
        work();
        let off = second.serve(&lines(3, 0, &[])).unwrap();
        assert!(count(&off, 5) >= count(&on, 5) + 2_000_000);
        assert_eq!(count(&off, 2), count(&on, 2));
    }

    #[test]
    fn a_counter_that_is_refused_says_so_and_is_tried_again() {
        let (mut area, clock) = area();
        let answer = area.serve(&lines(1, 0, &[(0, 999), (1, clock)])).unwrap();
        assert_eq!(refused(&answer), 1);
        assert_eq!(area.last_refusal(), Some(Error::NoSuchEvent(999)));
        let tried = area.stats().refusals;
        let again = area.serve(&lines(2, 0, &[(0, 999), (1, clock)])).unwrap();
        assert_eq!((refused(&again), area.stats().refusals), (1, tried + 1));
        let well = area.serve(&lines(3, 0, &[(1, clock)])).unwrap();
        assert_eq!(refused(&well), 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn any_lines_are_served(all in proptest::collection::vec(any::<u8>(), PMU_GUEST_BYTES * 3)) {
            let (mut area, _) = area();
            for copy in all.chunks_exact(PMU_GUEST_BYTES) {
                let copy: &[u8; PMU_GUEST_BYTES] = copy.first_chunk().unwrap();
                let answer = area.serve(copy);
                prop_assert!(answer.is_none_or(|bytes| bytes[..4] == copy[..4]));
            }
        }
    }
}
