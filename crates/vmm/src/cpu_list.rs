// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Lists of CPUs as /sys writes them: `0-3,5`.

/// Highest CPU number that a list may name: the size of the C library's and rustix' set of CPUs.
const CPU_MAX: u32 = 1023;

/// Why a list is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CpuListError {
    /// Not a number.
    #[error("{0:?} is no list of CPUs: write it as 0-3,5")]
    Syntax(String),
    /// The range ends before it begins.
    #[error("the range {first}-{last} is empty: write the lower CPU first")]
    Backwards {
        /// Where it begins.
        first: u32,
        /// Where it ends.
        last: u32,
    },
    /// Too large a number.
    #[error("CPU {0} is above {CPU_MAX}")]
    TooLarge(u32),
}

/// The CPUs of a list, ascending, each once. A list names at least one.
///
/// # Errors
/// [`CpuListError`].
pub fn parse(list: &str) -> Result<Vec<u32>, CpuListError> {
    let syntax = || CpuListError::Syntax(list.to_owned());
    let number = |word: &str| word.trim().parse::<u32>().map_err(|_| syntax());
    let mut cpus = Vec::new();
    for part in list.trim().split(',') {
        let (first, last) = match part.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(part)?, number(part)?),
        };
        if last > CPU_MAX {
            return Err(CpuListError::TooLarge(last));
        }
        if first > last {
            return Err(CpuListError::Backwards { first, last });
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_as_the_kernel_writes_them() {
        assert_eq!(parse("0"), Ok(vec![0]));
        assert_eq!(parse("0-3,5\n"), Ok(vec![0, 1, 2, 3, 5]));
        assert_eq!(parse("5,4,4-6"), Ok(vec![4, 5, 6]));
    }

    #[test]
    fn what_is_no_list() {
        for bad in ["", "a", "1-", "-1", "1,,2", "1:2", "99999999999"] {
            assert_eq!(parse(bad), Err(CpuListError::Syntax(bad.to_owned())), "{bad:?}");
        }
        assert_eq!(parse("3-1"), Err(CpuListError::Backwards { first: 3, last: 1 }));
        assert_eq!(parse("0-9999"), Err(CpuListError::TooLarge(9999)));
    }
}
