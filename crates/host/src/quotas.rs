// SPDX-License-Identifier: GPL-2.0-only
//! CPU quotas above vCPU threads. A real-time thread is outside of the fair class's bandwidth control and its running
//! time is charged to no group, so a boost would get a VM past its quota: who has one is not boosted by actuator rt. So it
//! is with groups that run when nothing else wants to (`cpu.idle`): what is said here of a quota is said of that too.
//! Weights are no limit of that kind. They bind the unboosted time only; the budgets bind the boosted.
//!
//! Quotas change and threads are moved without a word to anybody, so they are looked at again and again. A look reads
//! one small file per vCPU, and each control group above them once ([`QuotaReader`]).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use paracord_sys::proc::{CgroupMounts, ProcError, QuotaReader};

/// The quotas known now.
#[derive(Debug)]
pub struct Quotas {
    proc_root: PathBuf,
    /// `/`.
    root: PathBuf,
    /// Read once; `None` where something was not mounted at the last look.
    mounts: Option<CgroupMounts>,
    /// By vCPU index: the quota, or why it is not known. One line.
    found: BTreeMap<u32, String>,
}

impl Quotas {
    /// None known; `root` is `/`.
    pub fn new(proc_root: &Path, root: &Path) -> Quotas {
        let (proc_root, root) = (proc_root.to_owned(), root.to_owned());
        Quotas { proc_root, root, mounts: None, found: BTreeMap::new() }
    }

    /// Looks at vCPUs, each its index and thread. Those that have a quota since, or have none any more.
    pub fn look(&mut self, threads: impl IntoIterator<Item = (u32, u32)>) -> Vec<u32> {
        let read = || CgroupMounts::read(&self.proc_root, &self.root);
        let mounts = self.mounts.take().map_or_else(read, Ok);
        let mut reader = mounts.as_ref().map(|mounts| QuotaReader::new(&self.proc_root, mounts));
        let mut changed = Vec::new();
        for (index, tid) in threads {
            let quota = match reader.as_mut().map(|reader| reader.quota_of(tid)) {
                Ok(Ok(quota)) => quota.map(|quota| quota.to_string()),
                // The sensor tells of its end.
                Ok(Err(error)) if error.is_gone() => continue,
                Ok(Err(error)) => Some(unknown(&error)),
                Err(error) => Some(unknown(error)),
            };
            let had = match quota {
                Some(quota) => self.found.insert(index, quota).is_some(),
                None => self.found.remove(&index).is_none(),
            };
            if !had {
                changed.push(index);
            }
        }
        let is_complete = reader.is_ok_and(|reader| !reader.lacks_mount());
        self.mounts = mounts.ok().filter(|_| is_complete);
        changed
    }

    /// The quota of vCPU `index`, if it has one.
    pub fn of(&self, index: u32) -> Option<&str> {
        self.found.get(&index).map(String::as_str)
    }

    /// The thread of vCPU `index` has ended.
    pub fn forget(&mut self, index: u32) {
        self.found.remove(&index);
    }
}

/// Whoever cannot be looked at is not without a quota.
pub(crate) fn unknown(error: &ProcError) -> String {
    format!("CPU quota not known ({error})")
}

/// A VM's vCPUs that are not boosted, each its id and quota, as one line; `None` without any.
pub fn line<'q>(quotas: impl IntoIterator<Item = (u32, &'q str)>) -> Option<String> {
    let mut by_quota: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (vcpu_id, quota) in quotas {
        by_quota.entry(quota).or_default().push(vcpu_id.to_string());
    }
    let one = |(quota, vcpus): (&str, Vec<String>)| {
        let word = if vcpus.len() == 1 { "vCPU" } else { "vCPUs" };
        format!("{word} {}: {quota}", vcpus.join(","))
    };
    let parts: Vec<String> = by_quota.into_iter().map(one).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_that_comes_and_goes_is_told_once_each() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let proc_root = root.path().join("proc");
        let mut quotas = Quotas::new(&proc_root, root.path());
        put("proc/70/task/70/cgroup", "0::/vms/web\n");
        put("proc/71/task/71/cgroup", "0::/\n");
        put("sys/fs/cgroup/cgroup.procs", "");
        put("proc/self/mountinfo", "9 1 0:9 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        put("sys/fs/cgroup/vms/cpu.max", "max 100000\n");
        put("sys/fs/cgroup/vms/web/cpu.max", "max 100000\n");
        // 72 is gone.
        let threads = [(7, 70), (8, 71), (9, 72)];
        assert_eq!((quotas.look(threads), quotas.of(7)), (vec![], None));
        put("sys/fs/cgroup/vms/cpu.max", "20000 100000\n");
        assert_eq!(quotas.look(threads), [7]);
        assert_eq!(quotas.of(7), Some("CPU quota 20000 of 100000 us in /vms"));
        // Another number is no change of what is boosted.
        put("sys/fs/cgroup/vms/cpu.max", "30000 100000\n");
        assert_eq!((quotas.look(threads), quotas.of(8)), (vec![], None));
        assert_eq!(quotas.of(7), Some("CPU quota 30000 of 100000 us in /vms"));
        put("proc/70/task/70/cgroup", "0::/\n");
        assert_eq!((quotas.look(threads), quotas.of(7)), (vec![7], None));
        put("proc/71/task/71/cgroup", "0::/../elsewhere\n");
        assert_eq!(quotas.look(threads), [8]);
        assert!(quotas.of(8).unwrap().starts_with("CPU quota not known ("), "{:?}", quotas.of(8));
        quotas.forget(8);
        assert_eq!(quotas.of(8), None);
    }

    #[test]
    fn vcpus_with_one_quota_share_a_part_of_the_line() {
        let quotas = [(0, "CPU quota of /a"), (3, "CPU quota of /a"), (2, "cpu.idle in /b")];
        let want = "vCPUs 0,3: CPU quota of /a; vCPU 2: cpu.idle in /b";
        assert_eq!(line(quotas).as_deref(), Some(want));
        assert_eq!(line([]), None);
    }
}
