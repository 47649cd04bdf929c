// SPDX-License-Identifier: GPL-2.0-only
//! Why a command failed.

/// Why a command failed. The text is one line for the client that sent the command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// No VM has this name, uuid or pid.
    #[error("no VM named {0:?}; `paracord vm list` shows those that run")]
    NoSuchVm(String),
    /// The command is not valid: for example, a value is out of range.
    #[error("{0}")]
    Invalid(String),
    /// The daemon is shutting down or does not answer.
    #[error("the daemon does not answer")]
    NoAnswer,
}
