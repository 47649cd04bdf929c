// SPDX-License-Identifier: GPL-2.0-only
//! Why the daemon ends without being asked to.

use std::io;
use std::path::PathBuf;

use paracord_sensor::Error as SensorError;

use crate::boosts::journal::JournalError;

/// Why the daemon could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The sensor.
    #[error(transparent)]
    Sensor(#[from] SensorError),
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// There is no journal: not started by a supervisor.
    #[error("no journal in {}: start paracord with `paracord run`", .0.display())]
    NoJournal(PathBuf),
    /// The control socket or metrics.
    #[error("{0}")]
    Serve(String),
    /// A system call.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

/// What failed, for [`DaemonError::System`].
pub(super) fn system(what: &'static str) -> impl FnOnce(io::Error) -> DaemonError {
    move |source| DaemonError::System { what, source }
}
