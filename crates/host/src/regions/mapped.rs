// SPDX-License-Identifier: GPL-2.0-only
//! Finds the region file that a VM maps.

use std::path::{Path, PathBuf};

use paracord_sys::proc;

use crate::regions::file_identity::FileIdentity;
use crate::regions::region_file::check_name;

/// A region file, and where a process maps it. The content of the file is not checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedRegion {
    /// File name.
    pub name: String,
    /// Region file.
    pub path: PathBuf,
    /// Identity of the file.
    pub identity: FileIdentity,
    /// Address of the region's first byte in the VMM.
    pub start_hva: u64,
    /// Number of bytes that are mapped from `start_hva` on.
    pub bytes: u64,
}

impl MappedRegion {
    /// Finds the file in `dir` that process `pid` maps shared and writable, from the first byte of
    /// the file on. Returns `None` if the process maps no such file, or is gone. The function reads
    /// the list of the process's mappings, and the process can make that list long.
    pub fn find(dir: &Path, proc_root: &Path, pid: u32) -> Option<MappedRegion> {
        let mut mappings = None;
        for entry in std::fs::read_dir(dir).ok()?.flatten() {
            let Some(name) = entry.file_name().to_str().map(str::to_owned) else { continue };
            if check_name(&name).is_err() {
                continue;
            }
            let path = entry.path();
            let Ok(meta) = std::fs::symlink_metadata(&path) else { continue };
            let identity = FileIdentity::of(&meta);
            let mappings = match &mut mappings {
                Some(mappings) => mappings,
                // If the mappings cannot be read, the process counts as one without a region.
                // Usually the process is gone, and the next scan will find that its threads are
                // gone too.
                None => mappings.insert(proc::mappings(proc_root, pid).unwrap_or_default()),
            };
            let whole = mappings.iter().find(|mapping| {
                identity.is_mapped_by(mapping)
                    && mapping.shared_writable
                    && mapping.offset_bytes == 0
            });
            if let Some(mapping) = whole {
                let (start_hva, bytes) = (mapping.start, mapping.end.saturating_sub(mapping.start));
                return Some(MappedRegion { name, path, identity, start_hva, bytes });
            }
        }
        None
    }
}
