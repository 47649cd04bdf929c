// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! procfs, read below a root path (`/proc`, or a fixture tree).
//!
//! Everything in procfs can vanish at any moment ([`ProcError::Gone`]). The process that is read
//! chooses much of the content, so all sizes are bounded.

mod cgroup_mounts;
mod cgroups;
mod cpus;
mod maps;
mod process;
mod quota;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

pub use cgroup_mounts::CgroupMounts;
pub use cgroups::{Membership, memberships};
pub use cpus::{Cpuset, allowed_cpus, cpuset};
pub use maps::{Mapping, mappings};
pub use process::{
    boot_id, comm, command_line, effective_uid, has_kvm_vm, start_ticks, thread_start_ticks,
    threads,
};
pub use quota::{CpuLimit, Limit, QuotaReader};

/// Why a procfs file could not be used.
#[derive(Debug, thiserror::Error)]
pub enum ProcError {
    /// The process or thread is gone.
    #[error("{}: gone", path.display())]
    Gone {
        /// Path of the file.
        path: PathBuf,
    },
    /// Reading failed for another reason.
    #[error("{}: {source}", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The content of the file is not what the kernel writes into it.
    #[error("{}:{line}: {what}: {value:?}", path.display())]
    Content {
        /// Path of the file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What is wrong with the content.
        what: &'static str,
        /// The actual content.
        value: String,
    },
}

impl ProcError {
    /// Whether the process or thread no longer exists.
    pub fn is_gone(&self) -> bool {
        matches!(self, ProcError::Gone { .. })
    }

    fn io(path: &Path, source: io::Error) -> ProcError {
        let path = path.to_owned();
        // procfs returns ESRCH if the process has exited between open and read.
        match source.raw_os_error() {
            Some(libc::ENOENT | libc::ESRCH) => ProcError::Gone { path },
            _ => ProcError::Io { path, source },
        }
    }

    fn content(path: &Path, line: usize, what: &'static str, value: &str) -> ProcError {
        let value = value.chars().take(120).collect();
        ProcError::Content { path: path.to_owned(), line, what, value }
    }
}

/// Reads at most `limit_bytes` of a file.
fn read_bounded(path: &Path, limit_bytes: u64) -> Result<Vec<u8>, ProcError> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(limit_bytes).read_to_end(&mut bytes))
        .map_err(|source| ProcError::io(path, source))?;
    Ok(bytes)
}

fn read_text(path: &Path, limit_bytes: u64) -> Result<String, ProcError> {
    Ok(String::from_utf8_lossy(&read_bounded(path, limit_bytes)?).into_owned())
}
