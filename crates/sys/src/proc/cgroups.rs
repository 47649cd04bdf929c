// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The control groups of a thread (version 1 and version 2).

use std::path::{Component, Path, PathBuf};

use super::{ProcError, read_text};

/// Longest list of memberships that is read: one line per hierarchy, each with a path of at most
/// 4096 bytes.
const LIST_LIMIT_BYTES: u64 = 64 * 1024;

/// A thread's membership in one hierarchy of control groups: a line of `/proc/TID/cgroup`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// Controllers of a hierarchy of version 1 (`cpu`, `cpuacct`); empty for version 2.
    pub controllers: Vec<String>,
    /// Path of the group, for example `/machine.slice/web.scope`.
    pub group: String,
}

impl Membership {
    /// Whether this is the hierarchy of version 2.
    pub fn is_unified(&self) -> bool {
        self.controllers.is_empty()
    }

    /// Whether the hierarchy is of version 1 and has this controller.
    pub fn has(&self, controller: &str) -> bool {
        self.controllers.iter().any(|name| name == controller)
    }

    /// Path of the group below the root of its hierarchy, without the leading `/`. `None` if the
    /// group is outside this process's cgroup namespace: its path then begins with `..`.
    pub fn relative(&self) -> Option<PathBuf> {
        let group = Path::new(self.group.strip_prefix('/')?);
        let plain = group.components().all(|part| matches!(part, Component::Normal(_)));
        plain.then(|| group.to_owned())
    }
}

/// The control groups of thread `tid`; empty if the kernel has no control groups.
///
/// # Errors
/// [`ProcError`] about the thread.
pub fn memberships(root: &Path, tid: u32) -> Result<Vec<Membership>, ProcError> {
    let tid = tid.to_string();
    let thread = root.join(&tid).join("task").join(&tid);
    let text = match read_text(&thread.join("cgroup"), LIST_LIMIT_BYTES) {
        // The thread exists, so the file is missing because the kernel has no control groups.
        Err(error) if error.is_gone() && thread.join("stat").exists() => return Ok(Vec::new()),
        text => text?,
    };
    let line = |line: &str| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, group) = (fields.next()?, fields.next()?);
        let controllers = controllers.split(',').filter(|name| !name.is_empty());
        Some(Membership {
            controllers: controllers.map(str::to_owned).collect(),
            group: group.to_owned(),
        })
    };
    Ok(text.lines().filter_map(line).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hierarchies_of_either_version() {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put("7/task/7/cgroup", "4:cpu,cpuacct:/web:1\n1:name=systemd:/x\n0::/a/b\n");
        put("8/task/8/stat", "8 (x) S");
        put("9/task/9/cgroup", "0::/../outside\n");
        let found = memberships(dir.path(), 7).unwrap();
        assert_eq!((found[0].group.as_str(), found[0].has("cpu")), ("/web:1", true));
        assert!(!found[0].is_unified() && !found[1].has("cpu") && found[2].is_unified());
        assert_eq!(found[2].relative(), Some("a/b".into()));
        assert_eq!(memberships(dir.path(), 8).unwrap(), []);
        assert_eq!(memberships(dir.path(), 9).unwrap()[0].relative(), None);
        assert!(memberships(dir.path(), 10).unwrap_err().is_gone());
    }
}
