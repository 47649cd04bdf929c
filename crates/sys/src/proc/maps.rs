// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! /proc/PID/maps.

use std::path::Path;

use super::{ProcError, read_text};

/// Longest maps file that is read: 65530 mappings (vm.max_map_count) of 128 bytes each.
const MAPS_LIMIT_BYTES: u64 = 8 * 1024 * 1024;

/// One file-backed mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// First address after the mapping.
    pub end: u64,
    /// The mapping is readable, writable and shared.
    pub shared_writable: bool,
    /// The file offset that is mapped at `start`.
    pub offset_bytes: u64,
    /// Device of the file.
    pub device: (u32, u32),
    /// Inode of the file.
    pub inode: u64,
    /// Path of the file in the mount namespace of the process.
    pub path: String,
}

/// The file-backed mappings of a process, in order of their addresses.
///
/// # Errors
/// [`ProcError`].
pub fn mappings(root: &Path, pid: u32) -> Result<Vec<Mapping>, ProcError> {
    let path = root.join(pid.to_string()).join("maps");
    let text = read_text(&path, MAPS_LIMIT_BYTES)?;
    let mut found = Vec::new();
    for (n, line) in text.lines().enumerate() {
        match parse(line) {
            Some(mapping) if mapping.inode != 0 => found.push(mapping),
            Some(_) => {}
            // The last line may be incomplete because the file was longer than the limit.
            None if text.len() as u64 == MAPS_LIMIT_BYTES => break,
            None => return Err(ProcError::content(&path, n + 1, "not a mapping", line)),
        }
    }
    Ok(found)
}

/// Parses a line, for example `7f00-7f40 rw-s 00000000 00:19 1234    /dev/shm/paracord/web`.
fn parse(line: &str) -> Option<Mapping> {
    let (range, rest) = line.split_once(' ')?;
    let (permissions, rest) = rest.split_once(' ')?;
    let (offset, rest) = rest.split_once(' ')?;
    let (device, rest) = rest.split_once(' ')?;
    let (inode, path) = rest.split_once(' ').unwrap_or((rest, ""));
    let (start, end) = range.split_once('-')?;
    let (major, minor) = device.split_once(':')?;
    let hex = |digits| u64::from_str_radix(digits, 16).ok();
    Some(Mapping {
        start: hex(start)?,
        end: hex(end)?,
        shared_writable: permissions.starts_with("rw") && permissions.ends_with('s'),
        offset_bytes: hex(offset)?,
        device: (u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?),
        inode: inode.parse().ok()?,
        path: path.trim_start().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_lines() {
        let line = "7f12c0000000-7f12c0010000 rw-s 00001000 00:19 1234                       /dev/shm/paracord/a b";
        assert_eq!(
            parse(line),
            Some(Mapping {
                start: 0x7f12_c000_0000,
                end: 0x7f12_c001_0000,
                shared_writable: true,
                offset_bytes: 0x1000,
                device: (0, 0x19),
                inode: 1234,
                path: "/dev/shm/paracord/a b".into(),
            })
        );
        let anonymous = parse("7ffd0-7ffe0 rw-p 00000000 00:00 0 ").unwrap();
        assert_eq!((anonymous.inode, anonymous.shared_writable), (0, false));
        assert_eq!(parse("garbage"), None);
        assert_eq!(parse("1-2 rw-s 0 zz:00 1 /x"), None);
    }

    #[test]
    fn own_mappings() {
        let found = mappings(Path::new("/proc"), std::process::id()).unwrap();
        assert!(found.iter().any(|mapping| mapping.path.contains("/deps/")));
    }
}
