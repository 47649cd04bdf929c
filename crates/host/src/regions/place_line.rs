// SPDX-License-Identifier: GPL-2.0-only
//! Computes the place that the host line of a vCPU reports, and decides which changes of the place
//! are worth a write.

use std::sync::Arc;

use paracord_abi::HostPlace;
use paracord_sensor::Whereabouts;

use crate::machine::domains::HostCpus;
use crate::regions::line_target::Target;

/// Highest value on the scales of frequencies and pressures.
const SCALE: u64 = 1024;
/// A change of the speed by 1/32 or more is worth a write. A smaller change that is not written
/// causes an error of less than 1/32 in the guest's load tracking.
const WORTH_SHIFT: u32 = 5;
/// Smallest change of the pressure, on a scale of 0 to 1024, that is worth a write by itself.
const PRESSURE_WORTH: u16 = 64;

/// Location of a vCPU's line, and the data from which the place in the line is computed.
#[derive(Clone, Debug)]
pub struct Line {
    /// Where the line lies.
    pub target: Target,
    /// Thread of the vCPU. If the vCPU has ended, the sensor may already use its index for another
    /// vCPU while the line still exists.
    pub tid: u32,
    /// Whether the guest reads where its vCPUs run (`PARACORD_F_CAPACITY`).
    pub follows: bool,
    /// Performance domain of the vCPU, if the guest was told of any domains.
    pub domain: Option<u16>,
    /// ID of the table to which the domain belongs; 0: not known.
    pub domain_table: u32,
    /// Whether the guest is told on which CPU the vCPU runs, and how much other tasks use that CPU.
    /// A guest without a device is not told this, because nobody on the host has made a region for
    /// that guest.
    pub tells_cpu: bool,
    /// The host's CPUs.
    pub cpus: Arc<HostCpus>,
}

/// State of a vCPU at the last check, and the place in its line.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// The place in the line.
    pub told: HostPlace,
    /// Total waiting time of the vCPU at the last check.
    pub waited_ns: u64,
    /// Time of the last check, CLOCK_MONOTONIC; 0 before the first one.
    pub at_ns: u64,
}

impl Line {
    /// The place part of the line for a place that is not known.
    pub fn unknown(&self) -> HostPlace {
        HostPlace { domain: self.domain, domain_table: self.domain_table, ..HostPlace::UNKNOWN }
    }

    /// The place part of the line for the place `at`.
    pub fn place(&self, at: &Whereabouts, pressure: u16) -> HostPlace {
        let unknown = self.unknown();
        let told = if self.tells_cpu { at.cpu } else { unknown.physical_cpu };
        let Some(cluster) = self.cpus.cluster_of(at.cpu) else {
            return HostPlace { physical_cpu: told, ..unknown };
        };
        // On a CPU without frequency control, the kernel always reports the highest frequency. That
        // value is meaningless.
        let frequency = if cluster.max_khz() > 0 { at.frequency } else { 0 };
        HostPlace {
            capacity: cluster.capacity,
            frequency: frequency.min(SCALE as u32) as u16,
            physical_cpu: told,
            cluster: if self.tells_cpu { cluster.id() } else { unknown.cluster },
            pressure: if self.tells_cpu { pressure } else { 0 },
            ..unknown
        }
    }
}

/// Returns the share of `elapsed_ns`, 0..=1024, during which the vCPU waited while other tasks used
/// the CPU.
pub fn pressure(waited_ns: u64, elapsed_ns: u64) -> u16 {
    let share = u128::from(waited_ns) * u128::from(SCALE) / u128::from(elapsed_ns.max(1));
    share.min(u128::from(SCALE)) as u16
}

/// Whether the guest would misjudge its CPU if its line still contained `told` instead of `now`.
pub fn is_worth_telling(told: &HostPlace, now: &HostPlace) -> bool {
    let speed = |place: &HostPlace| u64::from(place.capacity) * u64::from(place.frequency);
    let (before, after) = (speed(told), speed(now));
    (told.physical_cpu, told.cluster, told.domain) != (now.physical_cpu, now.cluster, now.domain)
        || (before == 0) != (after == 0)
        || told.capacity != now.capacity && after == 0
        || before.abs_diff(after) << WORTH_SHIFT >= before.max(1) && before != after
        || told.pressure.abs_diff(now.pressure) >= PRESSURE_WORTH
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: HostPlace = HostPlace {
        capacity: 383,
        frequency: 1024,
        physical_cpu: 2,
        cluster: 0,
        pressure: 0,
        domain: Some(0),
        domain_table: 0,
    };

    #[test]
    fn small_changes_of_speed_are_not_worth_a_write() {
        let with = |frequency| HostPlace { frequency, ..PLACE };
        assert!(!is_worth_telling(&PLACE, &PLACE));
        assert!(!is_worth_telling(&PLACE, &with(993)) && is_worth_telling(&PLACE, &with(992)));
        assert!(is_worth_telling(&PLACE, &with(0)) && is_worth_telling(&with(0), &PLACE));
        assert!(!is_worth_telling(&with(0), &with(0)));
        assert!(is_worth_telling(&with(0), &HostPlace { capacity: 1024, ..with(0) }));
    }

    #[test]
    fn another_cpu_or_domain_and_much_pressure_are() {
        assert!(is_worth_telling(&PLACE, &HostPlace { physical_cpu: 3, ..PLACE }));
        assert!(is_worth_telling(&PLACE, &HostPlace { cluster: 4, ..PLACE }));
        assert!(is_worth_telling(&PLACE, &HostPlace { domain: None, ..PLACE }));
        assert!(!is_worth_telling(&PLACE, &HostPlace { pressure: 63, ..PLACE }));
        assert!(is_worth_telling(&PLACE, &HostPlace { pressure: 64, ..PLACE }));
    }

    #[test]
    fn pressure_is_a_share() {
        assert_eq!((pressure(0, 8), pressure(4, 8), pressure(9, 8)), (0, 512, 1024));
        assert_eq!((pressure(u64::MAX, u64::MAX), pressure(1, 0)), (1024, 1024));
    }
}
