// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The CPUs that a thread may run on: sched_setaffinity(2), and sets of CPUs in the kernel's text
//! formats.
//!
//! The affinity of a thread is read from procfs ([`crate::proc::allowed_cpus`]).
//! sched_getaffinity(2) omits CPUs that are currently offline, so its result cannot be used to
//! restore an affinity.

use std::fmt;
use std::io;
use std::str::FromStr;

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

/// Number of words in a [`CpuMask`].
pub const WORDS: usize = CPUS_MAX as usize / 64;
/// Number of CPUs that a [`CpuMask`] can hold: 0 to `CPUS_MAX - 1`.
pub const CPUS_MAX: u32 = 1024;
const _: () = assert!(CpuSet::MAX_CPU == CPUS_MAX as usize);

/// A set of CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CpuMask([u64; WORDS]);

impl CpuMask {
    /// All CPUs. A thread with this mask may run on every CPU of its cpuset.
    pub const ALL: CpuMask = CpuMask([u64::MAX; WORDS]);

    /// Makes a mask from words, with the lowest CPUs in the first word.
    pub fn from_words(words: [u64; WORDS]) -> CpuMask {
        CpuMask(words)
    }

    /// The words, with the lowest CPUs in the first word.
    pub fn words(&self) -> &[u64; WORDS] {
        &self.0
    }

    /// Adds a CPU. Returns false, and adds nothing, if the CPU is not below [`CPUS_MAX`].
    pub fn insert(&mut self, cpu: u32) -> bool {
        let word = self.0.get_mut(cpu as usize / 64);
        word.map(|word| *word |= 1 << (cpu % 64)).is_some()
    }

    /// Whether the set contains this CPU.
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.get(cpu as usize / 64).is_some_and(|word| word >> (cpu % 64) & 1 != 0)
    }

    /// Whether the set contains no CPU.
    pub fn is_empty(&self) -> bool {
        *self == CpuMask::default()
    }

    /// Number of CPUs in the set.
    pub fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// The CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        (0..CPUS_MAX).filter(|cpu| self.contains(*cpu))
    }

    /// Whether `other` contains all CPUs of this set.
    pub fn is_subset(&self, other: &CpuMask) -> bool {
        self.minus(other).is_empty()
    }

    /// The CPUs that are in both sets.
    #[must_use]
    pub fn and(&self, other: &CpuMask) -> CpuMask {
        CpuMask(std::array::from_fn(|n| self.0[n] & other.0[n]))
    }

    /// The CPUs that are in at least one of the sets.
    #[must_use]
    pub fn or(&self, other: &CpuMask) -> CpuMask {
        CpuMask(std::array::from_fn(|n| self.0[n] | other.0[n]))
    }

    /// The CPUs that are in this set and not in `other`.
    #[must_use]
    pub fn minus(&self, other: &CpuMask) -> CpuMask {
        CpuMask(std::array::from_fn(|n| self.0[n] & !other.0[n]))
    }

    /// Parses a list that names at least one CPU.
    ///
    /// # Errors
    /// [`CpuListError`]; for an empty list, [`CpuListError::Syntax`].
    pub fn from_nonempty_list(text: &str) -> Result<CpuMask, CpuListError> {
        let mask: CpuMask = text.parse()?;
        if mask.is_empty() { Err(CpuListError::syntax(text)) } else { Ok(mask) }
    }

    /// Parses the kernel's hexadecimal format, `f,ffffffff`: 32 CPUs per group, the highest group
    /// first.
    pub fn from_hex(text: &str) -> Option<CpuMask> {
        let mut mask = CpuMask::default();
        for (n, group) in text.trim().rsplit(',').enumerate() {
            let bits = u64::from(u32::from_str_radix(group, 16).ok()?);
            match mask.0.get_mut(n / 2) {
                Some(word) => *word |= bits << (n % 2 * 32),
                None if bits == 0 => {}
                None => return None,
            }
        }
        Some(mask)
    }
}

impl FromIterator<u32> for CpuMask {
    /// CPUs that are not below [`CPUS_MAX`] are ignored.
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> CpuMask {
        let mut mask = CpuMask::default();
        for cpu in cpus {
            mask.insert(cpu);
        }
        mask
    }
}

impl fmt::Display for CpuMask {
    /// The kernel's list format: `0-3,8`; an empty set is an empty text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        let mut next = 0;
        while let Some(first) = (next..CPUS_MAX).find(|cpu| self.contains(*cpu)) {
            next = (first..CPUS_MAX).find(|cpu| !self.contains(*cpu)).unwrap_or(CPUS_MAX);
            match next - first {
                1 => write!(f, "{separator}{first}")?,
                _ => write!(f, "{separator}{first}-{}", next - 1)?,
            }
            separator = ",";
        }
        Ok(())
    }
}

/// Why a text is not a list of CPUs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CpuListError {
    /// The text is not in the list format.
    #[error("{0:?} is no list of CPUs: write it as 0-3,5")]
    Syntax(String),
    /// A range ends before it begins.
    #[error("the range {first}-{last} is empty: write the lower CPU first")]
    Backwards {
        /// The CPU before the hyphen.
        first: u32,
        /// The CPU after the hyphen.
        last: u32,
    },
    /// A CPU is not below [`CPUS_MAX`].
    #[error("CPU {0} is above {last}", last = CPUS_MAX - 1)]
    TooLarge(u32),
}

impl CpuListError {
    fn syntax(text: &str) -> CpuListError {
        CpuListError::Syntax(text.chars().take(120).collect())
    }
}

impl FromStr for CpuMask {
    type Err = CpuListError;

    /// Parses a list: `0-3,8`. An empty text is an empty set, as in the kernel's format. White
    /// space around the list and around its numbers is ignored.
    fn from_str(text: &str) -> Result<CpuMask, CpuListError> {
        let wrong = || CpuListError::syntax(text);
        let number = |digits: &str| {
            let digits = digits.trim();
            let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
            plain.then(|| digits.parse::<u32>().ok()).flatten().ok_or_else(wrong)
        };
        let mut mask = CpuMask::default();
        for part in text.split(',').filter(|_| !text.trim().is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if last >= CPUS_MAX {
                return Err(CpuListError::TooLarge(last));
            }
            if first > last {
                return Err(CpuListError::Backwards { first, last });
            }
            for cpu in first..=last {
                mask.insert(cpu);
            }
        }
        Ok(mask)
    }
}

/// Sets the affinity of thread `tid` (0: the calling thread). The thread then runs on those CPUs in
/// `cpus` that its cpuset contains.
///
/// # Errors
/// ESRCH if there is no such thread, EPERM without CAP_SYS_NICE, EINVAL if no CPU in `cpus` is both
/// online and in the thread's cpuset, EBUSY if deadline admission fails.
pub fn set(tid: u32, cpus: &CpuMask) -> io::Result<()> {
    let mut set = CpuSet::new();
    for cpu in cpus.iter() {
        set.set(cpu as usize);
    }
    let pid = Pid::from_raw(i32::try_from(tid).map_err(|_| io::ErrorKind::InvalidInput)?);
    Ok(sched_setaffinity(pid, &set)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc;
    use std::path::Path;

    #[test]
    fn lists_and_hexadecimal_masks_as_the_kernel_writes_them() {
        for (list, hex) in [
            ("", "0"),
            ("0", "1"),
            ("0-3,5", "2f"),
            ("31-32", "1,80000000"),
            ("4,64", "1,00000000,00000010"),
        ] {
            let mask: CpuMask = list.parse().unwrap();
            assert_eq!(mask.to_string(), list);
            assert_eq!(CpuMask::from_hex(hex), Some(mask), "{hex}");
            assert_eq!(mask.iter().collect::<CpuMask>(), mask);
        }
        assert_eq!(CpuMask::ALL.to_string(), "0-1023");
        assert_eq!("0-1023".parse(), Ok(CpuMask::ALL));
        assert_eq!(CpuMask::from_hex("g"), None);
        // A mask of 1056 CPUs in which only CPU 0 is set.
        let wide = format!("{}1", "00000000,".repeat(32));
        assert_eq!(CpuMask::from_hex(&wide), Some("0".parse().unwrap()));
        assert_eq!(CpuMask::from_hex(&format!("1,{wide}")), None);
    }

    #[test]
    fn lists_as_people_write_them() {
        for (list, mask) in [("5,4,4-6", "4-6"), ("0-3,5\n", "0-3,5"), (" 0 - 3, 5", "0-3,5")] {
            assert_eq!(list.parse::<CpuMask>().unwrap().to_string(), mask, "{list:?}");
            assert!(CpuMask::from_nonempty_list(list).is_ok());
        }
    }

    #[test]
    fn each_wrong_list_has_its_error() {
        for wrong in ["x", "1-", "-1", "1,,2", "1:2", "1 2", "+1", "1-2-3", "0-99999999999"] {
            let error = wrong.parse::<CpuMask>().unwrap_err();
            assert_eq!(error, CpuListError::Syntax(wrong.to_owned()));
            assert!(error.to_string().contains("write it as 0-3,5"), "{error}");
        }
        let error = |list: &str| list.parse::<CpuMask>().unwrap_err().to_string();
        assert_eq!(error("3-1"), "the range 3-1 is empty: write the lower CPU first");
        assert_eq!(error("1024"), "CPU 1024 is above 1023");
        assert_eq!(error("0-9999"), "CPU 9999 is above 1023");
        for empty in ["", "\n"] {
            let error = CpuMask::from_nonempty_list(empty).unwrap_err();
            assert_eq!(error, CpuListError::Syntax(empty.to_owned()));
        }
    }

    #[test]
    fn sets() {
        let set = |list: &str| list.parse::<CpuMask>().unwrap();
        assert!(set("1,2").is_subset(&set("0-3")) && !set("3,4").is_subset(&set("0-3")));
        assert_eq!(set("3,4,70").minus(&set("0-3")), set("4,70"));
        assert_eq!(set("3,4").and(&set("4,5")).or(&set("9")), set("4,9"));
        assert_eq!((set("0-3,70").count(), set("").is_empty()), (5, true));
        assert!(!CpuMask::default().insert(CPUS_MAX) && !CpuMask::ALL.contains(CPUS_MAX));
    }

    #[test]
    fn own_thread_is_moved_and_freed_again() {
        std::thread::spawn(|| {
            let tid = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
            let now = || proc::allowed_cpus(Path::new("/proc"), tid).unwrap();
            let before = now();
            let one: CpuMask = rustix::thread::sched_getcpu().try_into().into_iter().collect();
            set(tid, &one).unwrap();
            assert_eq!(now(), one);
            set(0, &before).unwrap();
            assert_eq!(now(), before);
            // An empty mask has no CPU in common with any cpuset.
            let error = set(0, &CpuMask::default()).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
        })
        .join()
        .unwrap();
    }
}
