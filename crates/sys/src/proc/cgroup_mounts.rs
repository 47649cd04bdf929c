// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Mount points of the control group hierarchies that can have the controller `cpu`.
//!
//! | host | version 2 | `cpu` of version 1 |
//! |---|---|---|
//! | unified | `/sys/fs/cgroup` | |
//! | hybrid | `/sys/fs/cgroup/unified` | `/sys/fs/cgroup/cpu,cpuacct`; not every host has the link `cpu` |
//! | by hand | anywhere | anywhere |

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::{ProcError, read_bounded};

/// Longest mount table that is read. A host with many containers has thousands of mounts.
const TABLE_LIMIT_BYTES: u64 = 16 * 1024 * 1024;

/// Mount points, as this process sees them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CgroupMounts {
    /// Whether any control group hierarchy is mounted, with or without the controller.
    pub any: bool,
    /// The hierarchy of version 2.
    pub unified: Option<PathBuf>,
    /// The hierarchy of version 1 that has the controller `cpu`.
    pub cpu: Option<PathBuf>,
}

impl CgroupMounts {
    /// Reads the mount table of this process. The mount points in the table are interpreted
    /// relative to `root` (`/`).
    ///
    /// # Errors
    /// [`ProcError`].
    pub fn read(proc_root: &Path, root: &Path) -> Result<CgroupMounts, ProcError> {
        let table = read_bounded(&proc_root.join("self/mountinfo"), TABLE_LIMIT_BYTES)?;
        let mut found = CgroupMounts::default();
        for mount in table.split(|&byte| byte == b'\n').filter_map(Mount::parse) {
            found.any = true;
            let slot = match mount.kind {
                Kind::Unified => &mut found.unified,
                Kind::Cpu => &mut found.cpu,
                Kind::Other => continue,
            };
            let point = root.join(mount.point.strip_prefix("/").unwrap_or(&mount.point));
            // Skips a mount of only a part of a hierarchy, because groups have other paths in it.
            // Also skips a mount that another mount hides.
            if slot.is_none() && mount.is_whole && point.join("cgroup.procs").exists() {
                *slot = Some(point);
            }
        }
        Ok(found)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Unified,
    Cpu,
    Other,
}

/// One mount of a control group hierarchy.
struct Mount {
    kind: Kind,
    is_whole: bool,
    point: PathBuf,
}

impl Mount {
    /// Parses a line of mountinfo; `None` for other file systems. Example:
    /// `32 23 0:28 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate`.
    fn parse(line: &[u8]) -> Option<Mount> {
        let at = line.windows(3).position(|part| part == b" - ")?;
        let fields = |bytes: &[u8]| -> Vec<Vec<u8>> {
            bytes.split(|&byte| byte == b' ').map(<[u8]>::to_vec).collect()
        };
        let (mount, file_system) = (fields(&line[..at]), fields(&line[at + 3..]));
        let kind = match file_system.first()?.as_slice() {
            b"cgroup2" => Kind::Unified,
            b"cgroup" => {
                let mut options = file_system.get(2)?.split(|&byte| byte == b',');
                if options.any(|option| option == b"cpu") { Kind::Cpu } else { Kind::Other }
            }
            _ => return None,
        };
        let point = OsString::from_vec(unescape(mount.get(4)?));
        Some(Mount { kind, is_whole: mount.get(3)?.as_slice() == b"/", point: point.into() })
    }
}

/// In mountinfo, spaces and similar characters are octal escapes such as `\040`.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, tail)) = rest.split_first() {
        let digits = tail.get(..3).filter(|_| first == b'\\');
        let code = digits.and_then(|digits| {
            digits
                .iter()
                .try_fold(0u32, |sum, &digit| Some(sum * 8 + char::from(digit).to_digit(8)?))
        });
        let code = code.and_then(|code| u8::try_from(code).ok());
        plain.push(code.unwrap_or(first));
        rest = if code.is_some() { &tail[3..] } else { tail };
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(table: &str, hierarchies: &[&str]) -> (CgroupMounts, PathBuf) {
        let tree = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = tree.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put("proc/self/mountinfo", table);
        for directory in hierarchies {
            put(&format!("{directory}/cgroup.procs"), "");
        }
        let found = CgroupMounts::read(&tree.path().join("proc"), tree.path()).unwrap();
        (found, tree.path().to_owned())
    }

    #[test]
    fn hosts_of_either_version_and_of_both() {
        let unified = "22 1 0:20 / /proc rw - proc proc rw\n\
            32 23 0:28 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
        let (found, root) = read(unified, &["sys/fs/cgroup"]);
        assert!(found.any && found.cpu.is_none());
        assert_eq!(found.unified, Some(root.join("sys/fs/cgroup")));

        let hybrid = "31 23 0:27 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755\n\
            32 31 0:28 / /sys/fs/cgroup/unified rw shared:10 - cgroup2 cgroup2 rw\n\
            33 31 0:29 / /sys/fs/cgroup/systemd rw shared:11 - cgroup cgroup rw,xattr,name=systemd\n\
            34 31 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
            35 31 0:31 / /sys/fs/cgroup/cpu\\040and,cpuacct rw shared:12 - cgroup cgroup rw,cpu,cpuacct\n";
        let directories = ["sys/fs/cgroup/unified", "sys/fs/cgroup/cpu and,cpuacct"];
        let (found, root) = read(hybrid, &directories);
        assert_eq!(found.unified, Some(root.join(directories[0])));
        assert_eq!(found.cpu, Some(root.join(directories[1])));
    }

    /// A mount of a part of a hierarchy, as in a container, is not used, because groups have other
    /// paths in it. A mount that another mount hides is not used either.
    #[test]
    fn a_part_of_a_hierarchy_and_one_that_is_hidden_are_none() {
        let table = "32 23 0:28 /docker/1 /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n\
            33 23 0:28 / /hidden rw - cgroup2 cgroup2 rw\n";
        let (found, _) = read(table, &["sys/fs/cgroup"]);
        assert_eq!(found, CgroupMounts { any: true, ..CgroupMounts::default() });
        let (found, _) = read("22 1 0:20 / /proc rw - proc proc rw\n", &[]);
        assert_eq!(found, CgroupMounts::default());
        assert!(CgroupMounts::read(Path::new("/proc"), Path::new("/")).is_ok());
    }
}
