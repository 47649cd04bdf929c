// SPDX-License-Identifier: GPL-2.0-only
//! Sets of CPUs, like the kernel's `struct cpumask`.

use std::{fmt, str::FromStr};

use paracord_sys::affinity::{self, CpuListError, CpuMask};

/// Maximum number of CPUs of a machine.
pub const CPUS_MAX: usize = affinity::CPUS_MAX as usize;

/// A set of CPUs. It has the layout of the kernel's bitmap, because C code may get a pointer to it.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct CpuSet([u64; affinity::WORDS]);

impl CpuSet {
    /// The empty set.
    pub const EMPTY: Self = Self([0; affinity::WORDS]);

    /// The CPUs from 0 to `count - 1`.
    #[must_use]
    pub fn first(count: usize) -> Self {
        (0..count).collect()
    }

    /// A set of one CPU.
    #[must_use]
    pub fn of(cpu: usize) -> Self {
        std::iter::once(cpu).collect()
    }

    /// Whether the set contains a CPU.
    #[must_use]
    pub fn has(&self, cpu: usize) -> bool {
        cpu < CPUS_MAX && self.0[cpu / 64] >> (cpu % 64) & 1 != 0
    }

    /// Adds a CPU. Does nothing if the number is too large.
    pub fn insert(&mut self, cpu: usize) {
        if cpu < CPUS_MAX {
            self.0[cpu / 64] |= 1 << (cpu % 64);
        }
    }

    /// Removes a CPU.
    pub fn remove(&mut self, cpu: usize) {
        if cpu < CPUS_MAX {
            self.0[cpu / 64] &= !(1 << (cpu % 64));
        }
    }

    /// Number of CPUs in the set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// The CPUs that are in both sets.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let mut both = *self;
        for (word, others) in both.0.iter_mut().zip(other.0) {
            *word &= others;
        }
        both
    }

    /// The CPUs that are in at least one of the sets.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        let mut either = *self;
        either.0.iter_mut().zip(&other.0).for_each(|(word, more)| *word |= more);
        either
    }

    /// The first CPU of the set with at least this number.
    #[must_use]
    pub fn next(&self, from: usize) -> Option<usize> {
        let mut index = from / 64;
        let mut word = *self.0.get(index)? & (u64::MAX << (from % 64));
        loop {
            if word != 0 {
                return Some(index * 64 + word.trailing_zeros() as usize);
            }
            index += 1;
            word = *self.0.get(index)?;
        }
    }

    /// The CPUs of the set, in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let mut from = 0;
        std::iter::from_fn(move || {
            let cpu = self.next(from)?;
            from = cpu + 1;
            Some(cpu)
        })
    }
}

impl FromIterator<usize> for CpuSet {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> Self {
        let mut set = Self::EMPTY;
        cpus.into_iter().for_each(|cpu| set.insert(cpu));
        set
    }
}

/// Writes the set as in `/sys`: `0-3,8`.
impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        CpuMask::from_words(self.0).fmt(f)
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuSet({self})")
    }
}

impl FromStr for CpuSet {
    type Err = CpuListError;

    /// Parses a list that names at least one CPU: `0-3,8`.
    fn from_str(text: &str) -> Result<Self, CpuListError> {
        Ok(Self(*CpuMask::from_nonempty_list(text)?.words()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written() {
        for text in ["0", "0-3", "0-3,8", "63-64,1023"] {
            assert_eq!(text.parse::<CpuSet>().expect(text).to_string(), text);
        }
        for text in ["", "3-1", "1024", "a", "1,,2", "-1"] {
            assert!(text.parse::<CpuSet>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_next_cpu_is_found_across_words() {
        let set: CpuSet = "1,64,200".parse().expect("a list");
        assert_eq!(set.iter().collect::<Vec<_>>(), [1, 64, 200]);
        assert_eq!(set.next(201), None);
        assert_eq!(set.len(), 3);
    }
}
