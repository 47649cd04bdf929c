// SPDX-License-Identifier: GPL-2.0-only
//! File systems on which regions may lie.

use rustix::fs::{FsWord, StatFs};

/// The kind of a file system. Regions may lie only on tmpfs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    /// tmpfs. Regions may lie on it, because no access waits for a disk or a server, and pread(2)
    /// takes no lock on the file.
    Tmpfs,
    /// hugetlbfs. Its files cannot be written with write(2).
    HugePages,
    /// Any other file system. An access can wait for a disk or a server.
    Other,
}

impl FileSystem {
    /// Returns the kind of the file system, from the result of statfs(2).
    pub fn of(found: &StatFs) -> FileSystem {
        FileSystem::of_type(found.f_type)
    }

    fn of_type(f_type: FsWord) -> FileSystem {
        if f_type == libc::TMPFS_MAGIC {
            FileSystem::Tmpfs
        } else if f_type == libc::HUGETLBFS_MAGIC {
            FileSystem::HugePages
        } else {
            FileSystem::Other
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tmpfs_is_told_from_all_others() {
        let here = |path: &str| FileSystem::of(&rustix::fs::statfs(path).unwrap());
        assert_eq!((here("/dev/shm"), here("/proc")), (FileSystem::Tmpfs, FileSystem::Other));
        // HUGETLBFS_MAGIC and EXT4_SUPER_MAGIC from include/uapi/linux/magic.h.
        assert_eq!(FileSystem::of_type(0x9584_58f6), FileSystem::HugePages);
        assert_eq!(FileSystem::of_type(0xef53), FileSystem::Other);
    }
}
