// SPDX-License-Identifier: GPL-2.0-only
//! A limit on log lines that a guest can cause.

use std::time::{Duration, Instant};

/// Lines of one VM per [`WINDOW`].
const LINES_MAX: u32 = 10;
const WINDOW: Duration = Duration::from_secs(60);

/// At most ten lines a minute.
#[derive(Debug, Default)]
pub struct LogLimit {
    since: Option<Instant>,
    lines: u32,
}

impl LogLimit {
    /// Whether one more line may be written.
    pub fn allow(&mut self) -> bool {
        self.allow_at(Instant::now())
    }

    fn allow_at(&mut self, now: Instant) -> bool {
        if self.since.is_none_or(|since| now.duration_since(since) >= WINDOW) {
            self.since = Some(now);
            self.lines = 0;
        }
        self.lines = self.lines.saturating_add(1);
        self.lines <= LINES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_leaves_ten_lines_a_minute() {
        let (mut limit, start) = (LogLimit::default(), Instant::now());
        let passed =
            (0..60_000).filter(|ms| limit.allow_at(start + Duration::from_millis(*ms))).count();
        assert_eq!(passed, 10);
        assert!(limit.allow_at(start + WINDOW));
    }
}
