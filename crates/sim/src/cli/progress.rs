// SPDX-License-Identifier: GPL-2.0-only
//! Shows the progress of a run in one line on standard error, which is rewritten repeatedly, if
//! standard error is a terminal.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::report::units;

/// Time between two refreshes.
const EVERY: Duration = Duration::from_millis(200);
/// Returns to the first column and clears the line.
const CLEAR: &str = "\r\x1b[K";

/// The progress line.
pub struct Progress {
    /// `None`: standard error is not a terminal.
    last: Option<Instant>,
    /// Text at the beginning of the line.
    label: String,
    shown: bool,
    /// When the run began.
    begun: Instant,
}

impl Progress {
    /// Makes a line with a label. Nothing is shown during the first moments.
    pub fn new(label: impl Into<String>) -> Self {
        let now = Instant::now();
        let last = std::io::stderr().is_terminal().then_some(now);
        Self { last, label: label.into(), shown: false, begun: now }
    }

    /// Shows the progress of the run. `events` is called only if something is shown.
    pub fn show(&mut self, at_ns: u64, of_ns: u64, events: impl FnOnce() -> u64) {
        let now = Instant::now();
        if self.last.is_none_or(|last| now - last < EVERY) {
            return;
        }
        let millis = u64::try_from((now - self.begun).as_millis()).unwrap_or(u64::MAX).max(1);
        let per_s = units::count(events().saturating_mul(1000) / millis);
        let line = format!(
            "{}{} of {} simulated, {per_s} events/s",
            self.label,
            units::seconds(at_ns),
            units::seconds(of_ns)
        );
        self.line(&line);
        self.last = Some(now);
    }

    /// Shows a text, if the last refresh was long enough ago.
    pub fn note(&mut self, text: impl FnOnce() -> String) {
        let now = Instant::now();
        if self.last.is_some_and(|last| now - last >= EVERY) {
            let line = format!("{}{}", self.label, text());
            self.line(&line);
            self.last = Some(now);
        }
    }

    fn line(&mut self, text: &str) {
        let mut out = std::io::stderr().lock();
        let _ = write!(out, "{CLEAR}{text}").and_then(|()| out.flush());
        self.shown = true;
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            let mut out = std::io::stderr().lock();
            let _ = write!(out, "{CLEAR}").and_then(|()| out.flush());
        }
    }
}
