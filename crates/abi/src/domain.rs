// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Performance domains: the capacities and frequencies of the host's CPUs, for the guest's cpufreq
//! driver.

use core::mem::{offset_of, size_of};

use crate::layout::{self, paracord_domain};
use crate::{read_field, write_field};

/// Size of a domain.
pub const DOMAIN_BYTES: usize = layout::PARACORD_DOMAIN_STRIDE_BYTES as usize;
/// Highest value on every scale.
const SCALE: u16 = layout::PARACORD_SCALE as u16;
const LEVELS: usize = layout::PARACORD_LEVELS_MAX as usize;

/// Why a domain is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DomainError {
    /// More domains than the table holds.
    #[error("{found} performance domains, at most {} fit", layout::PARACORD_DOMAINS_MAX)]
    Count {
        /// Number of domains.
        found: usize,
    },
    /// The domain has no frequency.
    #[error("a performance domain's highest frequency is 0")]
    Frequency,
    /// The capacity is outside the scale.
    #[error("a performance domain's capacity of {found} is not in 1..={SCALE}")]
    Capacity {
        /// Declared capacity.
        found: u16,
    },
    /// No level, or more levels than a domain holds.
    #[error("{found} levels in a performance domain, allowed are 1 to {LEVELS}")]
    LevelCount {
        /// Number of levels.
        found: usize,
    },
    /// Levels that do not rise strictly. They would make a guest's kernel oops.
    #[error("level {index} of a performance domain is {found}: levels must rise up to {SCALE}")]
    Level {
        /// Index of the level.
        index: usize,
        /// The level.
        found: u16,
    },
}

/// A checked domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    /// Highest frequency in kHz, not 0.
    pub max_khz: u32,
    /// Capacity at the highest frequency, 1..=1024.
    pub capacity: u16,
    /// Whether all CPUs of the domain share one frequency.
    pub shared: bool,
    /// Frequencies relative to the highest, 1..=1024, rising strictly; the last is 1024.
    pub levels: Vec<u16>,
}

impl Domain {
    /// Makes a domain from a list of frequencies in kHz, in any order. Frequencies that are equal
    /// on the scale become one level. If there are more than 64 levels, 64 evenly distributed ones
    /// are kept, including the lowest and the highest.
    ///
    /// # Errors
    /// Any [`DomainError`].
    pub fn from_frequencies(
        khz: &[u32],
        capacity: u16,
        shared: bool,
    ) -> Result<Domain, DomainError> {
        let max_khz = khz.iter().copied().max().unwrap_or(0);
        if max_khz == 0 {
            return Err(DomainError::Frequency);
        }
        let level = |khz: u32| {
            let scaled = (u64::from(khz) * u64::from(SCALE)).div_ceil(u64::from(max_khz));
            u16::try_from(scaled).unwrap_or(SCALE).max(1)
        };
        let mut levels: Vec<u16> = khz.iter().map(|&khz| level(khz)).collect();
        levels.sort_unstable();
        levels.dedup();
        if levels.len() > LEVELS {
            let last = levels.len() - 1;
            levels = (0..LEVELS).map(|i| levels[i * last / (LEVELS - 1)]).collect();
        }
        Domain { max_khz, capacity, shared, levels }.checked()
    }

    fn checked(self) -> Result<Domain, DomainError> {
        if self.max_khz == 0 {
            return Err(DomainError::Frequency);
        }
        if self.capacity == 0 || self.capacity > SCALE {
            return Err(DomainError::Capacity { found: self.capacity });
        }
        if self.levels.is_empty() || self.levels.len() > LEVELS {
            return Err(DomainError::LevelCount { found: self.levels.len() });
        }
        let mut before = 0;
        for (index, &found) in self.levels.iter().enumerate() {
            let last = index + 1 == self.levels.len();
            if found <= before || found > SCALE || (last && found != SCALE) {
                return Err(DomainError::Level { index, found });
            }
            before = found;
        }
        Ok(self)
    }

    /// Checks a copy of a domain.
    ///
    /// # Errors
    /// Any [`DomainError`].
    pub fn from_bytes(copy: &[u8; DOMAIN_BYTES]) -> Result<Domain, DomainError> {
        let count = usize::from(read_field!(copy, u16, paracord_domain, level_count));
        if count == 0 || count > LEVELS {
            return Err(DomainError::LevelCount { found: count });
        }
        let first = offset_of!(paracord_domain, levels);
        let levels = copy[first..]
            .chunks_exact(size_of::<u16>())
            .take(count)
            .map(|level| u16::from_le_bytes([level[0], level[1]]))
            .collect();
        let flags = read_field!(copy, u32, paracord_domain, flags);
        Domain {
            max_khz: read_field!(copy, u32, paracord_domain, max_khz),
            capacity: read_field!(copy, u16, paracord_domain, capacity),
            shared: flags & layout::PARACORD_DOMAIN_SHARED != 0,
            levels,
        }
        .checked()
    }

    /// The bytes of the domain, with table ID 0.
    pub fn to_bytes(&self) -> [u8; DOMAIN_BYTES] {
        self.in_table(0)
    }

    /// The bytes of the domain, as they are in a region. `table`: the ID from [`table_id`].
    pub fn in_table(&self, table: u32) -> [u8; DOMAIN_BYTES] {
        let mut bytes = [0u8; DOMAIN_BYTES];
        let flags = if self.shared { layout::PARACORD_DOMAIN_SHARED } else { 0 };
        write_field!(bytes, self.max_khz, paracord_domain, max_khz);
        write_field!(bytes, self.capacity, paracord_domain, capacity);
        write_field!(bytes, self.levels.len() as u16, paracord_domain, level_count);
        write_field!(bytes, flags, paracord_domain, flags);
        write_field!(bytes, table, paracord_domain, table);
        let first = offset_of!(paracord_domain, levels);
        let places = bytes[first..].chunks_exact_mut(size_of::<u16>());
        for (place, level) in places.zip(&self.levels) {
            place.copy_from_slice(&level.to_le_bytes());
        }
        bytes
    }
}

/// The ID of the table to which a copied domain belongs; 0: the domain was written before ABI 1.5.
pub fn table_of(copy: &[u8; DOMAIN_BYTES]) -> u32 {
    read_field!(copy, u32, paracord_domain, table)
}

/// The ID of a table: a hash (FNV-1a) of its domains, which shows a guest whether the domains have
/// changed. 0: there are no domains.
pub fn table_id(domains: &[Domain]) -> u32 {
    const BASIS: u32 = 0x811c_9dc5;
    const PRIME: u32 = 0x0100_0193;
    if domains.is_empty() {
        return 0;
    }
    let add = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(PRIME);
    domains.iter().flat_map(Domain::to_bytes).fold(BASIS, add).max(1)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_become_levels_that_rise() {
        let domain = Domain::from_frequencies(&[950_000, 450_000, 800_000], 383, true).unwrap();
        assert_eq!((domain.max_khz, domain.levels.as_slice()), (950_000, &[486, 863, 1024][..]));
        assert_eq!(Domain::from_bytes(&domain.to_bytes()), Ok(domain));
        // Two frequencies that are equal on the scale. A table with both would make the guest's
        // kernel oops.
        let close = Domain::from_frequencies(&[4_000_000, 3_999_999, 4_000_000], 1024, false);
        assert_eq!(close.unwrap().levels, [1024]);
        let many: Vec<u32> = (1..=1000).map(|step| step * 1000).collect();
        let domain = Domain::from_frequencies(&many, 1024, false).unwrap();
        assert_eq!((domain.levels.len(), domain.levels[0], domain.levels[63]), (64, 2, 1024));
        assert_eq!(Domain::from_bytes(&domain.to_bytes()), Ok(domain));
    }

    #[test]
    fn each_broken_domain_has_its_own_error() {
        assert_eq!(Domain::from_frequencies(&[], 1024, false), Err(DomainError::Frequency));
        assert_eq!(
            Domain::from_frequencies(&[1], 0, false),
            Err(DomainError::Capacity { found: 0 })
        );
        assert_eq!(
            Domain::from_frequencies(&[1], 1025, false),
            Err(DomainError::Capacity { found: 1025 })
        );
        let good = Domain { max_khz: 1, capacity: 1, shared: false, levels: vec![512, 1024] };
        let levels = |levels: &[u16]| {
            let bytes = Domain { levels: levels.to_vec(), ..good.clone() }.to_bytes();
            Domain::from_bytes(&bytes)
        };
        assert!(levels(&[512, 1024]).is_ok());
        assert_eq!(levels(&[]), Err(DomainError::LevelCount { found: 0 }));
        assert_eq!(levels(&[512, 512, 1024]), Err(DomainError::Level { index: 1, found: 512 }));
        assert_eq!(levels(&[0, 1024]), Err(DomainError::Level { index: 0, found: 0 }));
        assert_eq!(levels(&[512, 1000]), Err(DomainError::Level { index: 1, found: 1000 }));
        assert_eq!(levels(&[1024, 1025]), Err(DomainError::Level { index: 1, found: 1025 }));
        let mut long = good.to_bytes();
        long[offset_of!(paracord_domain, level_count)] = 65;
        assert_eq!(Domain::from_bytes(&long), Err(DomainError::LevelCount { found: 65 }));
    }

    #[test]
    fn other_domains_have_another_table() {
        let one = Domain::from_frequencies(&[1_000_000, 2_000_000], 1024, true).unwrap();
        let other = Domain::from_frequencies(&[1_000_000, 2_000_000], 512, true).unwrap();
        assert_eq!(table_id(&[]), 0);
        let id = table_id(&[one.clone(), other.clone()]);
        assert_eq!(id, table_id(&[one.clone(), other.clone()]));
        assert!(
            id != table_id(&[other.clone(), one.clone()])
                && id != table_id(std::slice::from_ref(&one))
        );
        assert_eq!(Domain::from_bytes(&one.in_table(id)).unwrap(), one);
        assert_eq!((table_of(&one.in_table(id)), table_of(&one.to_bytes())), (id, 0));
    }
}
