// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! One perf event of the host, and how its counts are divided among the counters that it serves.

use std::ops::{AddAssign, Sub};

use paracord_policy::{
    PC_PMU_EXCLUDE_HOST, PC_PMU_EXCLUDE_KERNEL, PC_PMU_EXCLUDE_USER, PC_PMU_SAMPLES, pc_pmu_key,
};
use paracord_sys::perf::{Listener, Overflows, PerfAttr, PerfEvent, PerfReading};

use super::error::{Call, Error};

/// The counts of a counter, over all events that served it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The count.
    pub count: u64,
    /// Time that the vCPU's thread ran while the counter was on.
    pub enabled_ns: u64,
    /// The part of `enabled_ns` in which the event was counted. It is less than `enabled_ns` if the
    /// host had too few hardware counters and multiplexed them.
    pub running_ns: u64,
}

/// The kernel's counts never decrease. But even a wrong count must not make the VMM panic.
impl Sub for Counts {
    type Output = Counts;

    fn sub(self, before: Counts) -> Counts {
        Counts {
            count: self.count.wrapping_sub(before.count),
            enabled_ns: self.enabled_ns.saturating_sub(before.enabled_ns),
            running_ns: self.running_ns.saturating_sub(before.running_ns),
        }
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, more: Counts) {
        self.count = self.count.wrapping_add(more.count);
        self.enabled_ns = self.enabled_ns.saturating_add(more.enabled_ns);
        self.running_ns = self.running_ns.saturating_add(more.running_ns);
    }
}

impl From<PerfReading> for Counts {
    fn from(read: PerfReading) -> Counts {
        Counts { count: read.count, enabled_ns: read.enabled_ns, running_ns: read.running_ns }
    }
}

/// The perf attributes that a key stands for.
pub(super) fn attr_of(key: &pc_pmu_key, period: u64) -> PerfAttr {
    let has = |flag| key.flags & flag != 0;
    PerfAttr {
        kind: key.type_,
        config: key.config,
        sample_period: if has(PC_PMU_SAMPLES) { period } else { 0 },
        exclude_user: has(PC_PMU_EXCLUDE_USER),
        exclude_kernel: has(PC_PMU_EXCLUDE_KERNEL),
        exclude_host: has(PC_PMU_EXCLUDE_HOST),
    }
}

/// An open event. It is enabled while it serves a counter.
#[derive(Debug)]
pub(super) struct HostEvent {
    event: PerfEvent,
    name: &'static str,
    /// The counts when the event was last paused. They belong to counters that the event served
    /// earlier.
    counted: Counts,
    /// Present if the event samples.
    overflows: Option<Overflows>,
    /// The period to set at the next overflow, if the current period is shortened.
    next_period: Option<u64>,
    /// The next overflow disables the event. Without this, a guest that keeps setting a short first
    /// period could cause so many overflows that a slow host does nothing else.
    once: bool,
}

impl HostEvent {
    /// Opens the event on thread `tid`. The event is paused.
    pub(super) fn open(
        tid: u32,
        name: &'static str,
        key: &pc_pmu_key,
        period: u64,
        listener: &Listener,
    ) -> Result<HostEvent, Error> {
        let event =
            PerfEvent::open(tid, &attr_of(key, period)).map_err(refused(name, Call::Open))?;
        let samples = key.flags & PC_PMU_SAMPLES != 0;
        let watch = || Overflows::watch(&event, listener).map_err(refused(name, Call::Watch));
        let overflows = samples.then(watch).transpose()?;
        let counted = Counts::default();
        Ok(HostEvent { event, name, counted, overflows, next_period: None, once: false })
    }

    /// Starts sampling. `elapsed` / 2^32 of the first period has already passed, so the first
    /// overflow comes after the rest of `period`. Each later overflow comes after `period` more
    /// counts. What was left of an earlier counter's period is dropped.
    pub(super) fn begin_period(&mut self, period: u64, elapsed: u32) -> Result<(), Error> {
        let over = ((u128::from(period) * u128::from(elapsed)) >> u32::BITS) as u64;
        // Overflows up to now belong to no counter.
        if let Some(overflows) = &mut self.overflows {
            overflows.happened();
        }
        self.set_period(period - over)?;
        self.next_period = (over != 0).then_some(period);
        if over == 0 || self.once {
            return self.go_on();
        }
        self.once = true;
        self.event.enable_once().map_err(refused(self.name, Call::Enable))
    }

    /// Whether the event has overflowed since the last call. Makes system calls only if the period
    /// has to be set, or if the overflow has disabled the event.
    pub(super) fn overflowed(&mut self) -> Result<bool, Error> {
        if !self.overflows.as_mut().is_some_and(Overflows::happened) {
            return Ok(false);
        }
        if let Some(period) = self.next_period.take() {
            self.set_period(period)?;
        }
        if std::mem::take(&mut self.once) {
            self.go_on()?;
        }
        Ok(true)
    }

    fn set_period(&self, period: u64) -> Result<(), Error> {
        self.event.set_period(period).map_err(refused(self.name, Call::SetPeriod))
    }

    pub(super) fn go_on(&self) -> Result<(), Error> {
        self.event.enable().map_err(refused(self.name, Call::Enable))
    }

    /// Pauses the event. Returns the counts since it was last paused.
    pub(super) fn pause(&mut self) -> Result<Counts, Error> {
        self.event.disable().map_err(refused(self.name, Call::Disable))?;
        let now = self.read()?;
        let since = now - self.counted;
        self.counted = now;
        Ok(since)
    }

    /// The counts since the event was last paused.
    pub(super) fn since_paused(&self) -> Result<Counts, Error> {
        Ok(self.read()? - self.counted)
    }

    fn read(&self) -> Result<Counts, Error> {
        self.event.read().map(Counts::from).map_err(refused(self.name, Call::Read))
    }
}

fn refused(event: &'static str, call: Call) -> impl Fn(std::io::Error) -> Error {
    move |error| Error::Host { event, call, refusal: error.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flag_of_a_key_asks_for_something_of_its_own() {
        let key = |flags| pc_pmu_key { config: 9, type_: 1, flags };
        let none = PerfAttr { kind: 1, config: 9, ..PerfAttr::default() };
        assert_eq!(attr_of(&key(0), 77), none);
        assert_eq!(attr_of(&key(PC_PMU_SAMPLES), 77), PerfAttr { sample_period: 77, ..none });
        let user = PerfAttr { exclude_user: true, ..none };
        assert_eq!(attr_of(&key(PC_PMU_EXCLUDE_USER), 77), user);
        let kernel = PerfAttr { exclude_kernel: true, ..none };
        assert_eq!(attr_of(&key(PC_PMU_EXCLUDE_KERNEL), 77), kernel);
        let host = PerfAttr { exclude_host: true, ..none };
        assert_eq!(attr_of(&key(PC_PMU_EXCLUDE_HOST), 77), host);
    }

    #[test]
    fn differences_of_wrong_readings_are_not_a_panic() {
        let counts = |count, ns| Counts { count, enabled_ns: ns, running_ns: ns };
        assert_eq!(counts(5, 5) - counts(7, 7), counts(u64::MAX - 1, 0));
        let mut sum = counts(u64::MAX, u64::MAX);
        sum += counts(2, 2);
        assert_eq!(sum, counts(1, u64::MAX));
    }
}
