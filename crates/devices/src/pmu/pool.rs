// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The counters of one vCPU and the host's events that serve them. The policy decides
//! (policy/pmu_pool.h), and the pool carries the decisions out.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use paracord_policy::pmu::{self, Allowed, Give, Mode, Refusal, Take};
use paracord_policy::{PC_PMU_COUNTERS, PC_PMU_EVENTS, PC_PMU_SAMPLES, pc_pmu_key};
use paracord_sys::clock::now_ns;
use paracord_sys::perf::Listener;
use paracord_sys::signal;

use super::error::Error;
use super::event::{Counts, HostEvent};
use super::offer::{Offer, Want};
use super::quota::Budget;

/// Number of counters of a vCPU. The guest's perf can use all of them at the same time.
pub const COUNTERS: u32 = PC_PMU_COUNTERS;
/// Maximum number of host events that a pool keeps open. Each one is a file descriptor of the VMM.
pub const EVENTS: usize = PC_PMU_EVENTS as usize;

/// How a pool works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Which events are reused, and for which counters.
    pub mode: Mode,
    /// An event that was idle for more slices than this is closed; 0: never.
    pub release_slices: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { mode: Mode::Keyed, release_slices: pmu::default_release_slices() }
    }
}

/// Counts of what a pool has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Events opened.
    pub openings: u64,
    /// Openings while the pool had no other open event, not counting the pool's first opening. Such
    /// an opening may cost the host milliseconds.
    pub cold_openings: u64,
    /// Events closed.
    pub closings: u64,
    /// How often a counter was served by an event that was already open.
    pub reuses: u64,
    /// How often a counter was not served.
    pub refusals: u64,
}

/// One counter of the guest.
#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    /// Place of the event that serves the counter; `None`: the counter is off.
    event: Option<usize>,
    /// Counts of the events that served the counter earlier.
    before: Counts,
}

/// The counters of one vCPU. Calls are cheapest on the thread that the pool belongs to. While that
/// thread runs on another CPU, a call from a different thread costs several times as much, because
/// each call then sends an interrupt to that CPU.
#[derive(Debug)]
pub struct Pool {
    tid: u32,
    listener: Listener,
    offer: Arc<Offer>,
    budget: Arc<Budget>,
    policy: pmu::Pool,
    events: [Option<HostEvent>; EVENTS],
    counters: [Counter; PC_PMU_COUNTERS as usize],
    /// Mask of the counters that are on and sample.
    sampling: u32,
    stats: Stats,
    spent_ns: Cell<u64>,
}

impl Pool {
    /// Makes a pool for the calling thread, which is a vCPU's thread. SIGIO is blocked in this
    /// thread from now on. The VMM unblocks SIGIO while the guest runs (KVM_SET_SIGNAL_MASK), and
    /// reads the [overflows](Pool::overflowed) when KVM_RUN returns EINTR.
    pub fn new(offer: Arc<Offer>, budget: Arc<Budget>, settings: Settings) -> Pool {
        signal::block_sigio();
        let tid = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        Pool::of_thread(tid, Listener::Thread(tid), offer, budget, settings)
    }

    /// The offer that the pool serves.
    pub(super) fn offer(&self) -> &Offer {
        &self.offer
    }

    /// Makes a pool for thread `tid`. The `listener` is notified of overflows, and then reads them
    /// with [`overflowed`](Pool::overflowed).
    pub fn of_thread(
        tid: u32,
        listener: Listener,
        offer: Arc<Offer>,
        budget: Arc<Budget>,
        settings: Settings,
    ) -> Pool {
        Pool {
            tid,
            listener,
            offer,
            budget,
            policy: pmu::Pool::new(settings.mode, settings.release_slices),
            events: [const { None }; EVENTS],
            counters: Default::default(),
            sampling: 0,
            stats: Stats::default(),
            spent_ns: Cell::new(0),
        }
    }

    /// Starts a counter for what the guest wants to count. A counter that is already on is stopped
    /// first.
    ///
    /// # Errors
    /// The reason why the counter is off now: the guest's values are invalid, the VM's budget is
    /// used up, or the host refuses.
    pub fn start(&mut self, counter: u32, want: Want) -> Result<(), Error> {
        let started = self.budgeted_start(counter, &want);
        self.stats.refusals += u64::from(started.is_err());
        started
    }

    /// Stops a counter. A counter that is off stays off.
    ///
    /// # Errors
    /// The counter does not exist, or the host refuses a call. The counter is off in any case, and
    /// may have lost what its event counted.
    pub fn stop(&mut self, counter: u32) -> Result<(), Error> {
        if self.counter(counter)?.event.is_none() {
            return Ok(());
        }
        let start_ns = now_ns();
        let stopped = self.give(counter);
        self.charge_since(start_ns);
        stopped
    }

    /// The count of a counter since the pool was made, over all events that served it.
    ///
    /// # Errors
    /// The counter does not exist, or the host refuses a call.
    pub fn counts(&self, counter: u32) -> Result<Counts, Error> {
        let of = self.counter(counter)?;
        let mut counts = of.before;
        if let Some(event) = of.event.and_then(|at| self.events[at].as_ref()) {
            let start_ns = now_ns();
            let since = event.since_paused();
            self.charge_since(start_ns);
            counts += since?;
        }
        Ok(counts)
    }

    /// Mask of the counters that have overflowed since the last call. Consumes the listening
    /// thread's SIGIO.
    pub fn overflowed(&mut self) -> u32 {
        if let Listener::Thread(_) = self.listener {
            signal::take_sigio();
        }
        if self.sampling == 0 {
            return 0;
        }
        let start_ns = now_ns();
        let mut overflowed = 0;
        for counter in (0..COUNTERS).filter(|counter| self.sampling & 1 << counter != 0) {
            let event = self.counters[counter as usize].event;
            let event = event.and_then(|place| self.events[place].as_mut());
            // An error occurs only after an overflow, when the event is prepared for its next
            // period.
            if event.is_some_and(|event| event.overflowed().unwrap_or(true)) {
                overflowed |= 1 << counter;
            }
        }
        self.charge_since(start_ns);
        overflowed
    }

    /// Whether the VM's budget is used up. Nothing is then served for a while.
    pub fn is_over_budget(&self) -> bool {
        self.budget.is_over()
    }

    /// Time that this pool has spent in system calls so far: its part of the [time](Budget::spent)
    /// that is charged to the budget.
    pub fn spent(&self) -> Duration {
        Duration::from_nanos(self.spent_ns.get())
    }

    fn charge_since(&self, start_ns: u64) {
        let used_ns = now_ns().saturating_sub(start_ns);
        self.spent_ns.set(self.spent_ns.get().saturating_add(used_ns));
        self.budget.charge(Duration::from_nanos(used_ns));
    }

    /// Ends a slice. A slice ends when the vCPU's thread was switched out and in again, or when
    /// [`SLICE`](super::SLICE) has passed. Closes events that have been idle for too long.
    pub fn end_slice(&mut self) {
        let (start_ns, closings) = (now_ns(), self.stats.closings);
        for event in self.policy.end_slice() {
            close(&mut self.events[event], &mut self.stats);
        }
        if self.stats.closings != closings {
            self.charge_since(start_ns);
        }
    }

    /// Counts of what the pool has done so far.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    fn counter(&self, counter: u32) -> Result<&Counter, Error> {
        let index = usize::try_from(counter).unwrap_or(usize::MAX);
        self.counters.get(index).ok_or(Error::NoSuchCounter(counter))
    }

    fn budgeted_start(&mut self, counter: u32, want: &Want) -> Result<(), Error> {
        let (name, key) = self.offer.key(want)?;
        self.stop(counter)?;
        let start_ns = now_ns();
        let allowed = self.budget.allowed(start_ns);
        let begun = self.begin(counter, want, (name, &key), allowed);
        // A refusal for lack of budget makes no system call and is not charged, so a guest that
        // continues to ask does not get further into debt.
        if begun != Err(Error::Budget) {
            self.charge_since(start_ns);
        }
        begun
    }

    fn begin(
        &mut self,
        counter: u32,
        want: &Want,
        (name, key): (&'static str, &pc_pmu_key),
        allowed: Allowed,
    ) -> Result<(), Error> {
        let place = self.take(counter, name, key, want.period, allowed)?;
        let samples = key.flags & PC_PMU_SAMPLES != 0;
        let event = self.events[place].as_mut().ok_or(Error::NoPlace)?;
        let on =
            if samples { event.begin_period(want.period, want.elapsed) } else { event.go_on() };
        if on.is_err() {
            self.lose(place);
            return on;
        }
        self.counters[counter as usize].event = Some(place);
        self.sampling |= u32::from(samples) << counter;
        Ok(())
    }

    /// Returns the place of the event for the counter. The event is paused.
    fn take(
        &mut self,
        counter: u32,
        name: &'static str,
        key: &pc_pmu_key,
        period: u64,
        allowed: Allowed,
    ) -> Result<usize, Error> {
        let place = match self.policy.take(counter, key, allowed) {
            Ok(Take::Use(place)) => {
                self.stats.reuses += 1;
                return Ok(place);
            }
            Ok(Take::Open(place)) => place,
            Ok(Take::Replace(place)) => {
                close(&mut self.events[place], &mut self.stats);
                place
            }
            Err(Refusal::NoSuchCounter) => return Err(Error::NoSuchCounter(counter)),
            Err(Refusal::NoBudget) => return Err(Error::Budget),
            Err(Refusal::NoPlace | Refusal::Busy) => return Err(Error::NoPlace),
        };
        let cold = self.stats.openings > 0 && self.events.iter().all(Option::is_none);
        // An opening that fails costs the host as much as one that succeeds.
        self.budget.charge_opening();
        match HostEvent::open(self.tid, name, key, period, &self.listener) {
            Ok(event) => self.events[place] = Some(event),
            Err(error) => {
                self.policy.forget(place);
                return Err(error);
            }
        }
        self.stats.openings += 1;
        self.stats.cold_openings += u64::from(cold);
        Ok(place)
    }

    fn give(&mut self, counter: u32) -> Result<(), Error> {
        self.counter(counter)?;
        self.counters[counter as usize].event = None;
        self.sampling &= !(1 << counter);
        let (place, stays) = match self.policy.give(counter) {
            Give::Pause(place) => (place, true),
            Give::Close(place) => (place, false),
            Give::Nothing => return Ok(()),
        };
        let Some(event) = &mut self.events[place] else { return Ok(()) };
        let since = if stays { event.pause() } else { event.since_paused() };
        if !stays || since.is_err() {
            self.lose(place);
        }
        self.counters[counter as usize].before += since?;
        Ok(())
    }

    /// Closes the event at a place, and frees the place.
    fn lose(&mut self, place: usize) {
        self.policy.forget(place);
        close(&mut self.events[place], &mut self.stats);
    }
}

fn close(event: &mut Option<HostEvent>, stats: &mut Stats) {
    stats.closings += u64::from(event.take().is_some());
}
