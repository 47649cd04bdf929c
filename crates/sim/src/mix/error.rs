// SPDX-License-Identifier: GPL-2.0-only
//! One line that names the file, the line, the mistake and the remedy.

use std::fmt;

/// Why a file is no mix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MixError {
    file: String,
    line: usize,
    reason: String,
}

impl MixError {
    pub(super) fn new(file: &str, line: usize, reason: String) -> Self {
        // A file's name may hold line ends too.
        Self { file: file.escape_debug().to_string(), line, reason }
    }

    /// The line, from 1.
    #[must_use]
    pub fn line(&self) -> usize {
        self.line
    }

    /// What is wrong; what to write instead.
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

/// What part of a mix is wrong: an index into the list of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// [`super::Mix::machine`].
    Machine,
    /// [`super::Mix::run_ns`] and the warm-up.
    Run,
    /// Of [`super::Mix::groups`].
    Group(usize),
    /// Of [`super::Mix::queues`].
    Queue(usize),
    /// Of [`super::Mix::locks`].
    Lock(usize),
    /// Of [`super::Mix::tasks`].
    Task(usize),
    /// Of [`super::Mix::vms`].
    Vm(usize),
    /// Of [`super::Mix::irqs`].
    Irq(usize),
    /// Of [`super::Mix::changes`].
    Change(usize),
}

/// Why a [`super::Mix`] cannot run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// Where.
    pub part: Part,
    /// What is wrong; what to write instead.
    pub reason: String,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.part, self.reason)
    }
}

impl std::error::Error for Flaw {}

/// Names the part that a reason is about.
pub(super) fn at(part: Part) -> impl Fn(String) -> Flaw {
    move |reason| Flaw { part, reason }
}
