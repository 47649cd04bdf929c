// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Performance domains: the frequency tables that a guest sees. A table is checked when it is made.

use paracord_abi::Domain;
use paracord_abi::layout::PARACORD_SCALE;

use super::registers::TABLE_LEN_MAX;

/// Highest value of the capacity scale.
const SCALE: u16 = PARACORD_SCALE as u16;
/// Highest frequency that is allowed. cpufreq reserves values near the top of 32 bits
/// (CPUFREQ_TABLE_END, CPUFREQ_ENTRY_INVALID), and governors add 25 % to a frequency.
pub const KHZ_MAX: u32 = i32::MAX as u32;

/// Why a performance domain is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DomainError {
    /// The table is empty or too long, so the guest's driver would not bind.
    #[error("{found} frequencies in a performance domain, allowed are 1 to {TABLE_LEN_MAX}")]
    Length {
        /// Number of frequencies.
        found: usize,
    },
    /// A frequency is above [`KHZ_MAX`], or is 0. (The guest divides by the highest frequency.)
    #[error("frequency {index} of a performance domain is {found} kHz, allowed are 1 to {KHZ_MAX}")]
    Frequency {
        /// Index of the frequency.
        index: usize,
        /// The frequency in kHz.
        found: u32,
    },
    /// Two equal entries make a guest's kernel oops, and unsorted entries confuse its governors.
    #[error("frequency {index} of a performance domain is {found} kHz: frequencies must rise")]
    NotRising {
        /// Index of the frequency.
        index: usize,
        /// The frequency in kHz.
        found: u32,
    },
    /// The capacity is outside the scale.
    #[error("a performance domain's capacity of {found} is not in 1..={SCALE}")]
    Capacity {
        /// The given capacity.
        found: u16,
    },
}

/// The request of a policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The frequency in kHz, at most the highest entry of the table. 0: no request.
    pub khz: u32,
    /// The same request on the host's capacity scale, 0..=1024: the capacity that the host CPU must
    /// provide. It is 0 only if `khz` is 0.
    pub util: u16,
}

/// A performance domain: vCPUs that see the same table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PerfDomain {
    khz: Vec<u32>,
    capacity: u16,
    shared: bool,
}

impl PerfDomain {
    /// Makes a domain from frequencies in kHz, which must be in strictly rising order. `capacity`
    /// is the capacity of a CPU at the highest frequency, on the host's scale (1..=1024). `shared`
    /// means that all vCPUs of the domain form one policy and share one requested frequency.
    ///
    /// # Errors
    /// Any [`DomainError`].
    pub fn from_frequencies(
        khz: &[u32],
        capacity: u16,
        shared: bool,
    ) -> Result<PerfDomain, DomainError> {
        if khz.is_empty() || khz.len() > TABLE_LEN_MAX {
            return Err(DomainError::Length { found: khz.len() });
        }
        let mut before = 0;
        for (index, &found) in khz.iter().enumerate() {
            if found == 0 || found > KHZ_MAX {
                return Err(DomainError::Frequency { index, found });
            }
            if found <= before {
                return Err(DomainError::NotRising { index, found });
            }
            before = found;
        }
        if capacity == 0 || capacity > SCALE {
            return Err(DomainError::Capacity { found: capacity });
        }
        Ok(PerfDomain { khz: khz.to_vec(), capacity, shared })
    }

    /// Makes a domain without a table: the guest may request any value from 1 to the maximum.
    ///
    /// # Errors
    /// As [`PerfDomain::from_frequencies`].
    pub fn maximum_only(
        max_khz: u32,
        capacity: u16,
        shared: bool,
    ) -> Result<PerfDomain, DomainError> {
        PerfDomain::from_frequencies(&[max_khz], capacity, shared)
    }

    /// The frequencies of the table, in rising order.
    pub fn khz(&self) -> &[u32] {
        &self.khz
    }

    /// The highest frequency of the table.
    pub fn max_khz(&self) -> u32 {
        // The constructors never make an empty table. The fallback ensures that a guest's access
        // cannot panic.
        self.khz.last().copied().unwrap_or(KHZ_MAX)
    }

    /// Capacity of a CPU at the highest frequency, 1..=1024.
    pub fn capacity(&self) -> u16 {
        self.capacity
    }

    /// Whether all vCPUs of the domain form one policy.
    pub fn is_shared(&self) -> bool {
        self.shared
    }

    /// Converts a frequency to a request, after clamping it to the table. The utilisation is
    /// rounded down, because a governor selects the lowest frequency that suffices. So if the host
    /// has the requested frequency, the request selects exactly this frequency, and not the next
    /// higher one.
    pub fn request(&self, khz: u32) -> Request {
        let max = self.max_khz();
        let khz = khz.min(max);
        let util = u64::from(self.capacity) * u64::from(khz) / u64::from(max);
        let util = u16::try_from(util).unwrap_or(SCALE).max(u16::from(khz != 0));
        Request { khz, util }
    }
}

impl TryFrom<&Domain> for PerfDomain {
    type Error = DomainError;

    /// Converts levels to frequencies. Fails if the [`Domain`] is invalid because it was never
    /// checked, or if its frequencies are so low that two levels are equal in kHz.
    fn try_from(domain: &Domain) -> Result<PerfDomain, DomainError> {
        let khz = |level: u16| {
            let khz = u64::from(domain.max_khz) * u64::from(level) / u64::from(SCALE);
            u32::try_from(khz).unwrap_or(u32::MAX)
        };
        let khz: Vec<u32> = domain.levels.iter().map(|&level| khz(level)).collect();
        PerfDomain::from_frequencies(&khz, domain.capacity, domain.shared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bad_table_has_its_own_error() {
        let table = |khz: &[u32]| PerfDomain::from_frequencies(khz, 1024, true);
        let many: Vec<u32> = (1..=65).collect();
        assert!(table(&many[..64]).is_ok());
        assert_eq!(table(&[]), Err(DomainError::Length { found: 0 }));
        assert_eq!(table(&many), Err(DomainError::Length { found: 65 }));
        assert_eq!(table(&[0, 1]), Err(DomainError::Frequency { index: 0, found: 0 }));
        let end = u32::MAX - 1; // CPUFREQ_TABLE_END
        assert_eq!(table(&[1, end]), Err(DomainError::Frequency { index: 1, found: end }));
        assert_eq!(table(&[1, 2, 2]), Err(DomainError::NotRising { index: 2, found: 2 }));
        assert_eq!(table(&[2, 1]), Err(DomainError::NotRising { index: 1, found: 1 }));
        assert!(table(&[KHZ_MAX]).is_ok());
        for found in [0, 1025] {
            let refused = PerfDomain::maximum_only(1, found, false);
            assert_eq!(refused, Err(DomainError::Capacity { found }));
        }
    }

    #[test]
    fn a_level_of_the_region_is_a_frequency_that_asks_for_no_more() {
        let host = Domain::from_frequencies(&[450_000, 800_000, 950_000], 383, true).unwrap();
        let domain = PerfDomain::try_from(&host).unwrap();
        assert_eq!((domain.khz().len(), domain.max_khz()), (3, 950_000));
        assert_eq!((domain.capacity(), domain.is_shared()), (383, true));
        for (&khz, host_khz) in domain.khz().iter().zip([450_000, 800_000, 950_000]) {
            let util = u32::from(domain.request(khz).util);
            // The governor's formula (map_util_freq) leads to the host's frequency, and to no
            // higher one.
            assert!(util * 950_000 / 383 <= host_khz, "{khz}: {util}");
            assert!((util + 1) * 950_000 / 383 >= host_khz, "{khz}: {util}");
        }
        // At 100 kHz, levels 1 and 2 of 1024 both become 0 kHz.
        let low = Domain { max_khz: 100, levels: vec![1, 2, 1024], ..host };
        let refused = PerfDomain::try_from(&low);
        assert_eq!(refused, Err(DomainError::Frequency { index: 0, found: 0 }));
    }

    #[test]
    fn requests_are_clamped_and_only_zero_asks_for_nothing() {
        let domain = PerfDomain::maximum_only(2_000_000, 512, false).unwrap();
        assert_eq!(domain.request(0), Request::default());
        assert_eq!(domain.request(1), Request { khz: 1, util: 1 });
        assert_eq!(domain.request(1_000_000), Request { khz: 1_000_000, util: 256 });
        assert_eq!(domain.request(u32::MAX), Request { khz: 2_000_000, util: 512 });
    }
}
