// SPDX-License-Identifier: GPL-2.0-only
//! The features that a region offers, kept where only the creator of the region can change them.
//!
//! The header of a region tells the guest what the host offers. The guest and the VM's user may
//! change that header, so the host reads its own copy: a file beside the region, which is written
//! when the region is created.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use paracord_abi::layout;
use rustix::fs::{FlockOperation, flock};

/// Name of the file that serializes changes of a directory of regions. The name begins with ".", so
/// no region can have it.
const LOCK: &str = ".lock";
/// What a region without such a copy offers at most. An earlier version of paracord has created
/// this region. These features tell the guest nothing about the host.
const WITHOUT_COPY: u32 =
    layout::PARACORD_F_BOOST | layout::PARACORD_F_PREEMPT_COUNT | layout::PARACORD_F_KICK;

/// Longer than any content that [`write`] writes.
const CONTENT_MAX_BYTES: u64 = 32;

/// A locked directory of regions. As long as this value exists, no other process creates or removes
/// regions in the directory.
#[derive(Debug)]
pub struct Held {
    _lock: File,
}

/// Locks `directory`. Waits until no other process is creating or removing regions in it. Only the
/// owner of the directory can open the lock file, so no other user can make this function wait.
///
/// # Errors
/// The error of open(2) or flock(2).
pub fn hold(directory: &Path) -> io::Result<Held> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let lock = options.open(directory.join(LOCK))?;
    flock(&lock, FlockOperation::LockExclusive)?;
    Ok(Held { _lock: lock })
}

/// Path of the copy of what the region at `region` offers. The name of the copy begins with ".", so
/// no region can have this name.
fn copy_of(region: &Path) -> PathBuf {
    let name = region.file_name().unwrap_or_default().to_string_lossy();
    region.with_file_name(format!(".{name}.offered"))
}

/// Stores `features` (mask of `PARACORD_F_*`) for the region at `region`.
///
/// # Errors
/// The error of open(2) or write(2).
pub fn write(_held: &Held, region: &Path, features: u32) -> io::Result<()> {
    let path = copy_of(region);
    remove_if_there(&path)?;
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    file.and_then(|mut file| writeln!(file, "{features:#x}"))
}

/// What a region offers at most, whatever its header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offered {
    features: u32,
    /// Whether there is no copy of what the region offers.
    pub is_unknown: bool,
}

impl Offered {
    /// Reads the copy of what the region at `region` offers.
    ///
    /// # Errors
    /// The error of open(2) or read(2), except `NotFound`.
    pub fn read(region: &Path) -> io::Result<Offered> {
        let features = read(region)?;
        Ok(Offered { features: features.unwrap_or(WITHOUT_COPY), is_unknown: features.is_none() })
    }

    /// The features of the header that count. PARACORD_F_PMU_DOORBELL always counts: it says that
    /// the VMM serves the counters, so the daemon must not serve them.
    pub fn of_header(self, features: u32) -> u32 {
        features & (self.features | layout::PARACORD_F_PMU_DOORBELL)
    }
}

/// Reads the stored features of the region at `region`. `None`: there is no valid copy, or the copy
/// belongs to another user, who may have created the directory.
fn read(region: &Path) -> io::Result<Option<u32>> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(copy_of(region));
    let file = match file {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    if file.metadata()?.uid() != rustix::process::geteuid().as_raw() {
        return Ok(None);
    }
    let mut content = String::new();
    file.take(CONTENT_MAX_BYTES).read_to_string(&mut content)?;
    let digits = content.strip_prefix("0x").and_then(|rest| rest.strip_suffix('\n'));
    Ok(digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()))
}

/// Removes the copy of what the region at `region` offers, if there is a copy.
///
/// # Errors
/// The error of unlink(2), except `NotFound`.
pub fn remove(_held: &Held, region: &Path) -> io::Result<()> {
    remove_if_there(&copy_of(region))
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_nothing_else() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let region = directory.path().join("web");
        assert_eq!(read(&region).unwrap(), None);
        let held = hold(directory.path()).unwrap();
        for features in [0, 1, 0x7f, u32::MAX] {
            write(&held, &region, features).unwrap();
            assert_eq!(read(&region).unwrap(), Some(features));
        }
        for bad in ["", "0x", "0x1", "1\n", "0xg\n", "0x123456789\n"] {
            fs::write(copy_of(&region), bad).unwrap();
            assert_eq!(read(&region).unwrap(), None, "{bad:?}");
        }
        remove(&held, &region).unwrap();
        remove(&held, &region).unwrap();
        let left = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(left.collect::<Vec<_>>(), [LOCK]);
    }
}
