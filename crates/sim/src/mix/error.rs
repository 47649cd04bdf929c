// SPDX-License-Identifier: GPL-2.0-only
//! Errors as one line, which names the file, the line, the mistake, and what to write instead.

use std::fmt;

/// Why a file is not a mix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MixError {
    file: String,
    line: usize,
    reason: String,
}

impl MixError {
    pub(super) fn new(file: &str, line: usize, reason: String) -> Self {
        // The file name may contain line ends, too.
        Self { file: file.escape_debug().to_string(), line, reason }
    }

    /// Number of the line, from 1.
    #[must_use]
    pub fn line(&self) -> usize {
        self.line
    }

    /// What is wrong, and what to write instead.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Display for MixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.reason)
    }
}

impl std::error::Error for MixError {}

/// The part of a mix that is wrong: an index into the list of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// [`super::Mix::machine`].
    Machine,
    /// [`super::Mix::run_ns`] and the warm-up.
    Run,
    /// An entry of [`super::Mix::groups`].
    Group(usize),
    /// An entry of [`super::Mix::queues`].
    Queue(usize),
    /// An entry of [`super::Mix::locks`].
    Lock(usize),
    /// An entry of [`super::Mix::tasks`].
    Task(usize),
    /// An entry of [`super::Mix::vms`].
    Vm(usize),
    /// An entry of [`super::Mix::irqs`].
    Irq(usize),
    /// An entry of [`super::Mix::changes`].
    Change(usize),
}

/// Why a [`super::Mix`] cannot run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// The part that is wrong.
    pub part: Part,
    /// What is wrong, and what to write instead.
    pub reason: String,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.part, self.reason)
    }
}

impl std::error::Error for Flaw {}

/// Adds to a reason the part that the reason is about.
pub(super) fn at(part: Part) -> impl Fn(String) -> Flaw {
    move |reason| Flaw { part, reason }
}
