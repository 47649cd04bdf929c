// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Why a VM cannot be built, or why it ended without a request by its guest or its user.

use std::io;
use std::path::{Path, PathBuf};

use crate::bus::OverlapError;
use crate::config::ConfigError;
use crate::topology::TopologyError;

/// All failures. Each is printed as one line.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command line is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The host's CPUs could not be read.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// This user cannot use KVM.
    #[error(
        "/dev/kvm: {0}; load the module kvm-intel or kvm-amd, and join the group that owns the file"
    )]
    NoKvm(io::Error),
    /// KVM refused something.
    #[error("KVM cannot {what}: {source}")]
    Kvm {
        /// The operation.
        what: &'static str,
        /// The error of KVM.
        source: io::Error,
    },
    /// A file cannot be used.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error.
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
    /// Memory for the guest could not be mapped.
    #[error("cannot map {mib} MiB of memory: {reason}")]
    Memory {
        /// The size.
        mib: u64,
        /// The error.
        reason: String,
    },
    /// Kernel, initramfs and tables do not fit.
    #[error("kernel and initramfs do not fit into {mib} MiB: use a larger --memory-mib")]
    TooLittleMemory {
        /// Memory of the guest.
        mib: u64,
    },
    /// The host has no events that the guest could count.
    #[error("--pmu: this host has no perf events for this user: {0}")]
    NoEvents(String),
    /// A table for the guest's kernel could not be made.
    #[error("cannot describe the machine to the guest: {0}")]
    Tables(String),
    /// Two devices of the machine have overlapping addresses.
    #[error(transparent)]
    Overlap(#[from] OverlapError),
    /// The thread of a vCPU could not be started as requested.
    #[error("vCPU {vcpu}: {what}: {source}")]
    Vcpu {
        /// The vCPU.
        vcpu: u32,
        /// The operation that failed.
        what: &'static str,
        /// The error.
        source: io::Error,
    },
    /// Another system call failed.
    #[error("{what}: {source}")]
    System {
        /// The operation that failed.
        what: &'static str,
        /// The error.
        source: io::Error,
    },
    /// A vCPU cannot continue to run.
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

/// For `map_err`: the operation `what` failed.
pub fn system<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> Error {
    move |source| Error::System { what, source: source.into() }
}
