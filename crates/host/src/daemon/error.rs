// SPDX-License-Identifier: GPL-2.0-only
//! Errors that make the daemon end.

use std::io;
use std::path::PathBuf;

use paracord_sensor::Error as SensorError;

use crate::boosts::journal::JournalError;

/// Why the daemon could not start or continue.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The sensor failed.
    #[error(transparent)]
    Sensor(#[from] SensorError),
    /// A journal cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// There is no journal, which means that no supervisor has started the daemon.
    #[error("no journal in {}: start paracord with `paracord run`", .0.display())]
    NoJournal(PathBuf),
    /// The control socket or metrics cannot be served.
    #[error("{0}")]
    Serve(String),
    /// A system call failed.
    #[error("{what}: {source}")]
    System {
        /// The operation that failed.
        what: &'static str,
        /// Error of the call.
        source: io::Error,
    },
}

/// Converts the error of operation `what` to a [`DaemonError::System`].
pub(super) fn system(what: &'static str) -> impl FnOnce(io::Error) -> DaemonError {
    move |source| DaemonError::System { what, source }
}
