// SPDX-License-Identifier: GPL-2.0-only
//! The result of one check of the host.

use serde::Serialize;

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Nothing has to be changed.
    Ok,
    /// paracord works, but not as well as it could, or the host lacks a feature that nothing needs
    /// yet.
    Warn,
    /// paracord cannot boost on this host until the remedy is applied.
    Fail,
    /// The information that the check needs could not be read.
    Unknown,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Short fixed name, for programs.
    pub name: &'static str,
    /// Result.
    pub status: Status,
    /// What was found.
    pub found: String,
    /// What to do; empty if there is nothing to do.
    pub remedy: String,
}

impl Check {
    pub(super) fn new(
        name: &'static str,
        status: Status,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Check {
        Check { name, status, found: found.into(), remedy: remedy.into() }
    }

    pub(super) fn ok(name: &'static str, found: impl Into<String>) -> Check {
        Check::new(name, Status::Ok, found, "")
    }
}
