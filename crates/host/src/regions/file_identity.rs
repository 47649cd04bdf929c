// SPDX-License-Identifier: GPL-2.0-only
//! Identity of a file, independent of its path.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use paracord_sys::proc;

/// Identity of a file, independent of its path: the file may have another path in the mount
/// namespace of a VMM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    pub(crate) device: (u32, u32),
    inode: u64,
}

impl FileIdentity {
    /// The identity from the metadata of a file.
    pub fn of(meta: &Metadata) -> FileIdentity {
        let device = (rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
        FileIdentity { device, inode: meta.ino() }
    }

    /// Whether `mapping` maps this file.
    pub fn is_mapped_by(&self, mapping: &proc::Mapping) -> bool {
        mapping.device == self.device && mapping.inode == self.inode
    }
}
