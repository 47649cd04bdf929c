// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Why a VM cannot be built, or ended otherwise than by its guest's or its user's will.

use std::io;
use std::path::{Path, PathBuf};

use crate::bus::OverlapError;
use crate::config::ConfigError;
use crate::topology::TopologyError;

/// Any failure; each becomes one line.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command line asks for something that cannot be.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The host's CPUs could not be read.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// There is no KVM for this user.
    #[error(
        "/dev/kvm: {0}; load the module kvm-intel or kvm-amd, and join the group that owns the file"
    )]
    NoKvm(io::Error),
    /// KVM refused something.
    #[error("KVM cannot {what}: {source}")]
    Kvm {
        /// What it was asked for.
        what: &'static str,
        /// Its error.
        source: io::Error,
    },
    /// A file cannot be used.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is not what it should be.
    #[error("{}: {reason}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// Memory for the guest.
    #[error("cannot map {mib} MiB of memory: {reason}")]
    Memory {
        /// How much.
        mib: u64,
        /// Why.
        reason: String,
    },
    /// Kernel, initramfs and tables do not fit.
    #[error("kernel and initramfs do not fit into {mib} MiB: use a larger --memory-mib")]
    TooLittleMemory {
        /// What the guest has.
        mib: u64,
    },
    /// There is nothing to count.
    #[error("--pmu: this host has no perf events for this user: {0}")]
    NoEvents(String),
    /// A table for the guest's kernel could not be made.
    #[error("cannot describe the machine to the guest: {0}")]
    Tables(String),
    /// The machine's map is wrong.
    #[error(transparent)]
    Overlap(#[from] OverlapError),
    /// A thread of a vCPU did not start as asked.
    #[error("vCPU {vcpu}: {what}: {source}")]
    Vcpu {
        /// Which.
        vcpu: u32,
        /// What it could not do.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// Another system call failed.
    #[error("{what}: {source}")]
    System {
        /// What it was for.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The guest's CPU cannot go on.
    #[error("{0}")]
    Guest(String),
}

/// For `map_err`: KVM could not do `what`.
pub fn kvm(what: &'static str) -> impl FnOnce(kvm_ioctls::Error) -> Error {
    move |error| Error::Kvm { what, source: io::Error::from_raw_os_error(error.errno()) }
}

/// For `map_err`: file `path` cannot be used.
pub fn file(path: &Path) -> impl Fn(io::Error) -> Error {
    move |source| Error::File { path: path.to_owned(), source }
}

/// For `map_err`: a system call for `what` failed.
pub fn system<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> Error {
    move |source| Error::System { what, source: source.into() }
}
