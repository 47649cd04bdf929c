// SPDX-License-Identifier: GPL-2.0-only
//! Orders and queries about clamps, and the answers to them.

use std::path::PathBuf;

use paracord_policy::{PC_CAPACITY, pc_clamp};
use serde::{Deserialize, Serialize};

use crate::command_error::CommandError;

/// Bounds of the performance that may be requested, 0..=1024. 1024 is the performance of the
/// largest CPU at its highest frequency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clamp {
    /// Smallest request while the thread is runnable.
    pub min: u32,
    /// Largest request.
    pub max: u32,
}

impl Clamp {
    /// The clamps of a target for which none were set.
    pub const NONE: Clamp = Clamp { min: 0, max: PC_CAPACITY };

    /// Checks the bounds.
    ///
    /// # Errors
    /// One line that names the mistake.
    pub fn check(self) -> Result<Clamp, CommandError> {
        let Clamp { min, max } = self;
        let wrong = match (min, max) {
            (_, max) if max > PC_CAPACITY => {
                format!("max {max} is not allowed: 0 to {PC_CAPACITY}")
            }
            (min, max) if min > max => format!("min {min} is above max {max}"),
            _ => return Ok(self),
        };
        Err(CommandError::Invalid(wrong))
    }
}

impl From<pc_clamp> for Clamp {
    fn from(c: pc_clamp) -> Clamp {
        Clamp { min: c.min, max: c.max }
    }
}

impl From<Clamp> for pc_clamp {
    fn from(c: Clamp) -> pc_clamp {
        pc_clamp { min: c.min, max: c.max }
    }
}

/// The target of clamps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClampTarget {
    /// One thread, by its thread ID.
    Task(u32),
    /// All threads of a process. Threads that the process starts later inherit the clamps of the
    /// thread that starts them.
    Process(u32),
    /// A control group. The clamps bound all requests in it.
    Cgroup(PathBuf),
    /// All vCPUs of a VM, including later ones. The VM is given by name, uuid or process ID.
    Vm(String),
}

/// The answer to an order or a query about clamps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClampReport {
    /// The target.
    pub target: ClampTarget,
    /// The clamps as they were set.
    pub own: Clamp,
    /// The effective clamps, which are limited by the clamps of the groups above. For a thread, the
    /// values are from the last time that the thread was enqueued. If the target has several
    /// threads, the values are those of the first thread.
    pub effective: Clamp,
}

/// An order or a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClampOrder {
    /// Set clamps.
    Set(ClampTarget, Clamp),
    /// Report clamps.
    Get(ClampTarget),
    /// Report all clamps that were set and whose target still exists.
    List,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clamps_are_in_order_and_on_the_scale() {
        let refusal = |min, max| Clamp { min, max }.check().unwrap_err().to_string();
        assert_eq!(refusal(0, 1025), "max 1025 is not allowed: 0 to 1024");
        assert_eq!(refusal(300, 200), "min 300 is above max 200");
        assert!(Clamp { min: 200, max: 200 }.check().is_ok());
        assert!(Clamp::NONE.check().is_ok());
    }
}
