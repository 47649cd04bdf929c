// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The CPUs that a thread and its control group may use.

use std::path::Path;

use super::process::STATUS_LIMIT_BYTES;
use super::{ProcError, memberships, read_text};
use crate::affinity::CpuMask;

/// CPUs that a thread may run on, including CPUs that are offline now.
///
/// # Errors
/// [`ProcError`].
pub fn allowed_cpus(root: &Path, tid: u32) -> Result<CpuMask, ProcError> {
    let tid = tid.to_string();
    let path = root.join(&tid).join("task").join(&tid).join("status");
    let text = read_text(&path, STATUS_LIMIT_BYTES)?;
    for (n, line) in text.lines().enumerate() {
        if let Some(mask) = line.strip_prefix("Cpus_allowed:") {
            let bad = || ProcError::content(&path, n + 1, "no mask of CPUs below 1024", mask);
            return CpuMask::from_hex(mask).ok_or_else(bad);
        }
    }
    Err(ProcError::content(&path, text.lines().count(), "no line Cpus_allowed:", ""))
}

/// The CPUs that a control group lets its threads use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpuset {
    /// The group whose file was read, for example `/machine.slice`.
    pub group: String,
    /// The CPUs of the group; in the root group, all CPUs that are online.
    pub cpus: CpuMask,
}

/// The cpuset of a thread.
///
/// `None` if the kernel or the mounts of this process show no cpuset below `cgroups`
/// (`/sys/fs/cgroup`). In this case, only the affinity of the thread limits its CPUs.
///
/// # Errors
/// [`ProcError`] about the thread.
pub fn cpuset(root: &Path, cgroups: &Path, tid: u32) -> Result<Option<Cpuset>, ProcError> {
    let mut found = None;
    for membership in memberships(root, tid)? {
        let in_v1 = membership.has("cpuset");
        let (directory, file) = match in_v1 {
            true => (cgroups.join("cpuset"), "cpuset.effective_cpus"),
            false if membership.is_unified() => (cgroups.to_owned(), "cpuset.cpus.effective"),
            false => continue,
        };
        let here = membership.relative().and_then(|group| nearest(&directory, &group, file));
        if in_v1 {
            return Ok(here);
        }
        found = here;
    }
    Ok(found)
}

/// The cpuset of the group, or of its nearest ancestor that has the controller.
fn nearest(directory: &Path, group: &Path, file: &str) -> Option<Cpuset> {
    group.ancestors().find_map(|group| {
        let text = read_text(&directory.join(group).join(file), STATUS_LIMIT_BYTES).ok()?;
        let cpus = CpuMask::from_nonempty_list(&text).ok()?;
        Some(Cpuset { group: format!("/{}", group.display()), cpus })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn fixture(name: &str, files: &[(&str, &str)]) -> PathBuf {
        let root =
            std::env::temp_dir().join(format!("paracord-cpus-{name}-{}", std::process::id()));
        for (path, content) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        root
    }

    #[test]
    fn a_threads_mask() {
        let root = fixture(
            "mask",
            &[
                (
                    "7/task/7/status",
                    "Name:\tCPU 0/KVM\nCpus_allowed:\t3f\nCpus_allowed_list:\t0-5\n",
                ),
                ("8/task/8/status", "Name:\tx\n"),
                ("9/task/9/status", "Cpus_allowed:\tzz\n"),
            ],
        );
        assert_eq!(allowed_cpus(&root, 7).unwrap().to_string(), "0-5");
        let error = allowed_cpus(&root, 9).unwrap_err().to_string();
        assert!(error.contains("status:1: no mask"), "{error}");
        assert!(allowed_cpus(&root, 8).is_err() && allowed_cpus(&root, 6).unwrap_err().is_gone());
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn cpusets_of_either_version() {
        let root = fixture(
            "sets",
            &[
                ("proc/7/task/7/cgroup", "0::/machine.slice/web.scope/vcpu0\n"),
                ("proc/8/task/8/cgroup", "0::/\n"),
                ("proc/9/task/9/cgroup", "12:cpuset:/web\n4:cpu,cpuacct:/\n0::/init\n"),
                ("proc/10/task/10/cgroup", "0::/../elsewhere\n"),
                ("proc/11/task/11/cgroup", "0::/machine.slice/db.scope\n"),
                ("cg/cpuset.cpus.effective", "0-7\n"),
                ("cg/machine.slice/cpuset.cpus.effective", "0-3\n"),
                ("cg/machine.slice/web.scope/vcpu0/cpuset.cpus.effective", "1\n"),
                ("cg/cpuset/web/cpuset.effective_cpus", "2-3\n"),
            ],
        );
        let found = |tid| {
            let found = cpuset(&root.join("proc"), &root.join("cg"), tid).unwrap();
            found.map(|set| (set.group, set.cpus.to_string()))
        };
        let set = |group: &str, cpus: &str| Some((group.to_owned(), cpus.to_owned()));
        assert_eq!(found(7), set("/machine.slice/web.scope/vcpu0", "1"));
        assert_eq!(found(11), set("/machine.slice", "0-3"));
        assert_eq!(found(8), set("/", "0-7"));
        assert_eq!(found(9), set("/web", "2-3"));
        assert_eq!(found(10), None);
        assert!(cpuset(&root, &root, 7).unwrap_err().is_gone());
        std::fs::remove_dir_all(root).unwrap();
    }
}
