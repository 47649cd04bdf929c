// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The events that a guest may count: the events that perf knows by name and that this host can
//! open. This file also describes what a guest wants to count.

use paracord_policy::pc_pmu_key;
use paracord_policy::{
    PC_PMU_EXCLUDE_HOST, PC_PMU_EXCLUDE_KERNEL, PC_PMU_EXCLUDE_USER, PC_PMU_SAMPLES,
};
use paracord_sys::perf::{PerfAttr, PerfEvent, kind};

use super::error::{Error, Refusal};
use super::event_set::{EventSet, KNOWN, Known};

/// An event that is on offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offered {
    /// perf's name for it.
    pub name: &'static str,
    /// perf_event_attr.type.
    pub kind: u32,
    /// perf_event_attr.config.
    pub config: u64,
    /// The event counts only while the guest runs, and not while the host (including the VMM and
    /// KVM) runs. This is always false for the kernel's software events, which also count while the
    /// host runs.
    pub exclude_host: bool,
    /// The shortest period. 0: the event cannot sample, because it causes no interrupt at an
    /// overflow on this host.
    pub min_period: u64,
}

/// An event that is not on offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// perf's name for it.
    pub name: &'static str,
    /// The reason.
    pub reason: NotOffered,
}

/// Why an event is not on offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotOffered {
    /// It is not in the [`EventSet`].
    #[error("it is not among the events that are allowed")]
    NotAllowed,
    /// The host refuses to open the event.
    #[error("{0}")]
    Host(Refusal),
}

/// What a guest wants to count. A guest may give any values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Want {
    /// Index of the event in the offer.
    pub event: u32,
    /// Count in user mode.
    pub user: bool,
    /// Count in kernel mode.
    pub kernel: bool,
    /// The event overflows after every `period` counts; 0: it only counts.
    pub period: u64,
    /// The part of the first period that has already passed, in units of 2^-32.
    pub elapsed: u32,
}

/// The events on offer. A guest names an event by its index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// The events by index; `None`: nothing can be counted with this index.
    events: Vec<Option<Offered>>,
    refused: Vec<Refused>,
}

impl Offer {
    /// Tries to open each event of a set on the calling thread. An event that cannot be opened is
    /// not on offer.
    pub fn probe(allowed: EventSet) -> Offer {
        let mut offer = Offer::default();
        for (number, known) in KNOWN.iter().enumerate() {
            let opened = match allowed.contains(number) {
                true => opens(known).map_err(NotOffered::Host),
                false => Err(NotOffered::NotAllowed),
            };
            match opened {
                Ok((exclude_host, min_period)) => offer.events.push(Some(Offered {
                    name: known.name,
                    kind: known.kind,
                    config: known.config,
                    exclude_host,
                    min_period,
                })),
                Err(reason) => offer.refused.push(Refused { name: known.name, reason }),
            }
        }
        offer
    }

    /// Makes an offer of the events with these names, in this order. Use this to keep the indices
    /// that a guest was told earlier. If a name is not on offer, nothing can be counted with its
    /// index.
    pub fn named<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Offer {
        let of = |name| self.events().find(|event| event.name == name).copied();
        Offer { events: names.into_iter().map(of).collect(), refused: Vec::new() }
    }

    /// Makes an offer of all events that perf knows by name, each with the index that it has on
    /// every host. If an event is not on offer, nothing can be counted with its index. No event can
    /// sample: this offer is for guests without a device, which get no interrupts.
    pub fn known(&self) -> Offer {
        let mut known = self.named(KNOWN.iter().map(|known| known.name));
        for event in known.events.iter_mut().flatten() {
            event.min_period = 0;
        }
        known
    }

    /// Mask of the first 64 indices. A bit is set if an event can be counted with this index.
    pub fn mask(&self) -> u64 {
        let bits = (0..u64::BITS).zip(&self.events).filter(|(_, event)| event.is_some());
        bits.fold(0, |mask, (index, _)| mask | 1 << index)
    }

    /// The events on offer, in the order of their indices.
    pub fn events(&self) -> impl Iterator<Item = &Offered> {
        self.events.iter().flatten()
    }

    /// The events that are not on offer, with the reasons.
    pub fn refused(&self) -> &[Refused] {
        &self.refused
    }

    /// Why nothing is on offer: the first event that the host refused. `None` if an event is on
    /// offer, or if no event was tried.
    pub fn why_empty(&self) -> Option<&Refused> {
        let tried = |refused: &&Refused| refused.reason != NotOffered::NotAllowed;
        self.refused.iter().find(tried).filter(|_| self.events().next().is_none())
    }

    /// The index of the event with this name.
    pub fn find(&self, name: &str) -> Option<u32> {
        let is = |event: &Option<Offered>| event.is_some_and(|event| event.name == name);
        u32::try_from(self.events.iter().position(is)?).ok()
    }

    /// The name of the event that a guest wants, and the key of the host event that can serve it.
    /// All values in `want` come from the guest.
    pub(super) fn key(&self, want: &Want) -> Result<(&'static str, pc_pmu_key), Error> {
        let index = usize::try_from(want.event).unwrap_or(usize::MAX);
        let event = self.events.get(index).copied().flatten();
        let event = event.ok_or(Error::NoSuchEvent(want.event))?;
        let samples = want.period != 0;
        let periods = event.min_period.max(1)..=if event.min_period == 0 { 0 } else { PERIOD_MAX };
        if samples && !periods.contains(&want.period) {
            return Err(Error::Period(want.period));
        }
        let flag = |on: bool, flag: u32| if on { flag } else { 0 };
        // The timer of a clock event always interrupts the host in kernel mode, even if the guest
        // was in user mode.
        let is_clock = (event.kind, event.min_period) == (kind::SOFTWARE, CLOCK_PERIOD_MIN);
        let modes = !(samples && is_clock);
        let flags = flag(modes && !want.user, PC_PMU_EXCLUDE_USER)
            | flag(modes && !want.kernel, PC_PMU_EXCLUDE_KERNEL)
            | flag(event.exclude_host, PC_PMU_EXCLUDE_HOST)
            | flag(samples, PC_PMU_SAMPLES);
        Ok((event.name, pc_pmu_key { config: event.config, type_: event.kind, flags }))
    }
}

/// perf_event_open(2) and PERF_EVENT_IOC_PERIOD refuse longer periods.
const PERIOD_MAX: u64 = u64::MAX >> 1;

/// Shortest periods, in nanoseconds for clock events and in counts for hardware events. Nobody
/// needs a shorter period, and the host's kernel would throttle the event.
const CLOCK_PERIOD_MIN: u64 = 100_000;
const HARDWARE_PERIOD_MIN: u64 = 1000;

/// The shortest period of an event that can sample.
fn min_period(known: &Known) -> u64 {
    match (known.kind, known.config) {
        (kind::SOFTWARE, 0 | 1) => CLOCK_PERIOD_MIN,
        (kind::SOFTWARE, _) => 1,
        _ => HARDWARE_PERIOD_MIN,
    }
}

/// Whether the event can exclude the host, and the event's shortest period. Fails if the event
/// cannot be opened at all.
fn opens(known: &Known) -> Result<(bool, u64), Refusal> {
    let attr = PerfAttr { kind: known.kind, config: known.config, ..PerfAttr::default() };
    // The kernel accepts this flag for software events, but ignores it.
    let hardware = known.kind != kind::SOFTWARE;
    let guest_only = PerfAttr { exclude_host: true, ..attr };
    let exclude_host = hardware && PerfEvent::open(0, &guest_only).is_ok();
    let attr = if exclude_host { guest_only } else { attr };
    PerfEvent::open(0, &attr)?;
    let sampling = PerfAttr { sample_period: PERIOD_MAX, ..attr };
    let samples = PerfEvent::open(0, &sampling).is_ok();
    Ok((exclude_host, if samples { min_period(known) } else { 0 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_event_is_on_offer_or_has_a_reason() {
        let offer = Offer::probe(EventSet::ALL);
        assert_eq!(offer.events().count() + offer.refused().len(), KNOWN.len());
        for (index, event) in offer.events().enumerate() {
            assert_eq!(offer.find(event.name), u32::try_from(index).ok());
            assert!(event.kind != kind::SOFTWARE || !event.exclude_host);
        }
        let clocks = offer.named(["task-clock", "nosuch", "cpu-clock"]);
        let indices = ["task-clock", "cpu-clock", "nosuch"].map(|name| clocks.find(name));
        assert_eq!(indices, [Some(0), Some(2), None]);
        let want = Want { event: 1, user: true, kernel: true, ..Want::default() };
        assert_eq!(clocks.key(&want), Err(Error::NoSuchEvent(1)));
        assert!(offer.refused().iter().all(|refused| !refused.reason.to_string().is_empty()));
    }

    /// A guest without a device names an event by its position in the ABI's list.
    #[test]
    fn known_events_have_the_numbers_of_the_abi() {
        let names: Vec<_> = KNOWN.iter().map(|known| known.name).collect();
        assert_eq!(names, paracord_abi::known_events().collect::<Vec<_>>());
        let clock = Offer::probe("task-clock".parse().unwrap()).known();
        assert_eq!((clock.mask(), clock.find("task-clock")), (1 << 19, Some(19)));
        let sampled = Want { event: 19, user: true, period: CLOCK_PERIOD_MIN, ..Want::default() };
        assert_eq!(clock.key(&sampled), Err(Error::Period(CLOCK_PERIOD_MIN)));
    }

    #[test]
    fn what_is_not_allowed_is_not_tried() {
        let offer = Offer::probe("page-faults".parse().unwrap());
        assert_eq!(offer.events().map(|event| event.name).collect::<Vec<_>>(), ["page-faults"]);
        assert!(offer.refused().iter().all(|refused| refused.reason == NotOffered::NotAllowed));
        assert_eq!(offer.refused().len(), KNOWN.len() - 1);
    }

    fn offered(name: &'static str, kind: u32, exclude_host: bool, min_period: u64) -> Offered {
        Offered { name, kind, config: 0, exclude_host, min_period }
    }

    #[test]
    fn a_guests_wishes_become_keys_or_errors() {
        let offer = Offer {
            events: vec![
                Some(offered("cycles", 0, true, 1000)),
                Some(offered("task-clock", 1, false, CLOCK_PERIOD_MIN)),
                Some(offered("cache-misses", 0, true, 0)),
            ],
            refused: Vec::new(),
        };
        let want = Want { event: 1, user: true, kernel: true, ..Want::default() };
        let flags = |want: Want| offer.key(&want).map(|(_, key)| key.flags);
        assert_eq!(flags(want), Ok(0));
        assert_eq!(flags(Want { event: 0, ..want }), Ok(PC_PMU_EXCLUDE_HOST));
        assert_eq!(flags(Want { user: false, ..want }), Ok(PC_PMU_EXCLUDE_USER));
        assert_eq!(flags(Want { kernel: false, ..want }), Ok(PC_PMU_EXCLUDE_KERNEL));
        assert_eq!(flags(Want { period: 1 << 63, ..want }), Err(Error::Period(1 << 63)));
        let sampled = Want { period: CLOCK_PERIOD_MIN, user: false, ..want };
        assert_eq!(flags(sampled), Ok(PC_PMU_SAMPLES), "whatever the guest was doing");
        let of_guest = PC_PMU_EXCLUDE_HOST | PC_PMU_EXCLUDE_USER | PC_PMU_SAMPLES;
        assert_eq!(flags(Want { event: 0, period: 1000, ..sampled }), Ok(of_guest));
        assert_eq!(flags(Want { event: 0, period: 999, ..want }), Err(Error::Period(999)));
        assert_eq!(flags(Want { event: 2, period: 1, ..want }), Err(Error::Period(1)));
        assert_eq!(flags(Want { event: 3, ..want }), Err(Error::NoSuchEvent(3)));
        assert_eq!(flags(Want { event: u32::MAX, ..want }), Err(Error::NoSuchEvent(u32::MAX)));
    }
}
