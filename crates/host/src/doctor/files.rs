// SPDX-License-Identifier: GPL-2.0-only
//! Reads files below a root path.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A file system tree: `/`, or a fixture.
pub struct Tree(PathBuf);

/// Whether a file exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    Present,
    Absent,
    /// The file may exist, but this user cannot see it.
    Hidden,
}

impl Tree {
    pub fn new(root: &Path) -> Tree {
        Tree(root.to_owned())
    }

    /// Converts an absolute path on the examined host to the path of the same file in this tree.
    pub fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Text of a file, without surrounding white space; `None` if it cannot be read.
    pub fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        std::fs::read_to_string(self.at(path)).ok().map(|t| t.trim().to_owned())
    }

    pub fn number(&self, path: &str) -> Option<i64> {
        self.text(path)?.parse().ok()
    }

    pub fn presence(&self, path: impl AsRef<Path>) -> Presence {
        match std::fs::metadata(self.at(path)) {
            Ok(_) => Presence::Present,
            Err(e) if e.kind() == ErrorKind::PermissionDenied => Presence::Hidden,
            Err(_) => Presence::Absent,
        }
    }

    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        self.presence(path) == Presence::Present
    }

    /// Names in a directory, sorted; empty if the directory cannot be read.
    pub fn names(&self, directory: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.at(directory)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|e| e.file_name().into_string().ok()).collect();
        names.sort();
        names
    }
}
