// SPDX-License-Identifier: GPL-2.0-only
//! Which file it is, whatever it is called.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use paracord_sys::proc;

/// A file whatever its name: mount namespaces of a VMM may show it elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    pub(crate) device: (u32, u32),
    inode: u64,
}

impl FileIdentity {
    /// Of a file's metadata.
    pub fn of(meta: &Metadata) -> FileIdentity {
        let device = (rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
        FileIdentity { device, inode: meta.ino() }
    }

    /// Whether the mapping is one of this file.
    pub fn is_mapped_by(&self, mapping: &proc::Mapping) -> bool {
        mapping.device == self.device && mapping.inode == self.inode
    }
}
