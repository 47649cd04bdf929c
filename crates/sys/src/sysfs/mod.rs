// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! sysfs, read below a path (`/sys`, or a fixture tree).
//!
//! [`CpuFiles`] and [`Policy`] are the only readers of the host's CPUs, capacities and frequencies.
//! A file that does not exist is not an error, because kernels and machines differ in what they
//! show.

mod cpus;
mod policy;

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::str::FromStr;

pub use cpus::{CAPACITY_MAX, CpuFiles};
pub use policy::{CurrentFrequency, Policy};

use crate::affinity::{CpuListError, CpuMask};

/// Why a file could not be used.
#[derive(Debug, thiserror::Error)]
pub enum SysfsError {
    /// The file exists and cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Why it cannot be read.
        source: io::Error,
    },
    /// The file contains something other than numbers.
    #[error("{}: {value:?} is no number", path.display())]
    Number {
        /// Path of the file.
        path: PathBuf,
        /// The word that is not a number.
        value: String,
    },
    /// The file contains something other than a list of CPUs.
    #[error("{}: {source}", path.display())]
    CpuList {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong with the list.
        source: CpuListError,
    },
}

/// Text of a file, without surrounding white space. `None` if the file does not exist or is empty.
///
/// # Errors
/// [`SysfsError::Io`].
pub fn text(path: &Path) -> Result<Option<String>, SysfsError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(SysfsError::Io { path: path.to_owned(), source }),
    }
}

/// The number in a file. `None` if the file does not exist or is empty.
///
/// # Errors
/// [`SysfsError::Io`], [`SysfsError::Number`].
pub fn number<T: FromStr>(path: &Path) -> Result<Option<T>, SysfsError> {
    text(path)?.map(|text| parse(path, &text)).transpose()
}

/// The numbers in a file, which are separated by white space. Empty if the file does not exist or
/// is empty.
///
/// # Errors
/// [`SysfsError::Io`], [`SysfsError::Number`].
pub fn numbers<T: FromStr>(path: &Path) -> Result<Vec<T>, SysfsError> {
    let text = text(path)?.unwrap_or_default();
    text.split_whitespace().map(|word| parse(path, word)).collect()
}

/// The list of CPUs in a file, such as `0-3,8`. `None` if the file does not exist or is empty.
///
/// # Errors
/// [`SysfsError::Io`], [`SysfsError::CpuList`].
pub fn cpu_list(path: &Path) -> Result<Option<CpuMask>, SysfsError> {
    let fail = |source| SysfsError::CpuList { path: path.to_owned(), source };
    text(path)?.map(|text| text.parse().map_err(fail)).transpose()
}

fn parse<T: FromStr>(path: &Path, word: &str) -> Result<T, SysfsError> {
    let value = || word.chars().take(120).collect();
    word.parse().map_err(|_| SysfsError::Number { path: path.to_owned(), value: value() })
}

/// The numbers N of the entries `<prefix>N` of a directory, in ascending order. Empty if the
/// directory cannot be read.
fn numbered(directory: &Path, prefix: &str) -> Vec<u32> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut numbers: Vec<u32> = entries
        .filter_map(|entry| entry.file_name().to_str()?.strip_prefix(prefix)?.parse().ok())
        .collect();
    numbers.sort_unstable();
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_the_errors_that_name_their_file() {
        let tree = tempfile::tempdir().unwrap();
        let file = |text: &str| {
            let path = tree.path().join("value");
            fs::write(&path, text).unwrap();
            path
        };
        assert_eq!(text(&file("schedutil\n")).unwrap().as_deref(), Some("schedutil"));
        assert_eq!(number::<u32>(&file("383\n")).unwrap(), Some(383));
        assert_eq!(numbers::<u32>(&file("950000 450000 \n")).unwrap(), [950_000, 450_000]);
        assert_eq!(cpu_list(&file("0-2,5\n")).unwrap().unwrap().to_string(), "0-2,5");
        let empty = file("\n");
        assert_eq!((text(&empty).unwrap(), number::<u32>(&empty).unwrap()), (None, None));
        assert_eq!((numbers::<u32>(&empty).unwrap(), cpu_list(&empty).unwrap()), (vec![], None));
        let absent = tree.path().join("absent");
        assert_eq!((text(&absent).unwrap(), number::<u32>(&absent).unwrap()), (None, None));
        let error = number::<u32>(&file("large\n")).unwrap_err().to_string();
        assert!(error.ends_with("/value: \"large\" is no number"), "{error}");
        let error = numbers::<u32>(&file("1 two\n")).unwrap_err().to_string();
        assert!(error.ends_with("/value: \"two\" is no number"), "{error}");
        let error = cpu_list(&file("3-1\n")).unwrap_err().to_string();
        assert!(error.contains("/value: the range 3-1 is empty"), "{error}");
        // Reading a directory fails, although it exists.
        assert!(matches!(text(tree.path()), Err(SysfsError::Io { .. })));
    }
}
