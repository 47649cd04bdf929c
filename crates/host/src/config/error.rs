// SPDX-License-Identifier: GPL-2.0-only
//! Errors in a configuration. The text of an error is one line, with the file, the line number, the
//! key and the remedy.

use std::fmt;
use std::path::{Path, PathBuf};

/// Why a configuration is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    file: Option<PathBuf>,
    line: Option<usize>,
    key: String,
    reason: String,
}

impl ConfigError {
    /// An error about `key`; an empty key stands for the whole file.
    pub fn new(key: impl Into<String>, reason: impl Into<String>) -> Self {
        ConfigError { file: None, line: None, key: key.into(), reason: reason.into() }
    }

    pub(super) fn in_file(mut self, file: &Path, text: &str, offset_bytes: Option<usize>) -> Self {
        self.file = Some(file.to_owned());
        self.line = offset_bytes.map(|o| 1 + text[..o.min(text.len())].matches('\n').count());
        self
    }

    /// The key with its section, for example `boost.wake.grant_us`.
    pub fn key(&self) -> &str {
        &self.key
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}", file.display())?;
            if let Some(line) = self.line {
                write!(f, ":{line}")?;
            }
            write!(f, ": ")?;
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        write!(f, "{}", self.reason)
    }
}

impl std::error::Error for ConfigError {}
