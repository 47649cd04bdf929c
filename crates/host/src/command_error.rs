// SPDX-License-Identifier: GPL-2.0-only
//! Why a command failed.

/// Said to whoever gave the command, in one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// No VM has this name (or uuid, or pid).
    #[error("no VM named {0:?}; `paracord vm list` shows those that run")]
    NoSuchVm(String),
    /// A value is out of its range.
    #[error("{0}")]
    Invalid(String),
    /// The daemon is shutting down or does not answer.
    #[error("the daemon does not answer")]
    NoAnswer,
}
