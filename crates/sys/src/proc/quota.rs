// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Limits that control groups set for the CPU time of their threads: quotas (`cpu.max` of version
//! 2, `cpu.cfs_quota_us` of version 1), and `cpu.idle` of both versions, which lets the threads run
//! only when no other thread wants to.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::{CgroupMounts, Membership, ProcError, memberships, read_text};
use crate::clock::NS_PER_US;

/// Longest file that is read, other than `cpu.stat`. Such a file contains one or two numbers.
const FILE_LIMIT_BYTES: u64 = 64;
/// Longest `cpu.stat` that is read. It has about 20 lines.
const STAT_LIMIT_BYTES: u64 = 4096;
/// Maximum depth of a group whose limits are read. A thread in a deeper group counts as a thread
/// with a quota.
///
/// A user who owns a subtree of groups may give each thread its own chain of nested groups, and the
/// daemon reads the files of all these groups each second: 1024 vCPUs (`vcpus_per_user`), with 16
/// groups each, and with up to three files in each group of version 2, make 49152 files. libvirt's
/// vCPUs have depth 4. The vCPUs of a VM that runs in a container of a pod have a depth of about
/// 10.
pub const DEPTH_MAX: usize = 16;

/// A limit of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// A finite quota: in each period, the fair class runs the threads of the group for at most
    /// this time.
    Quota {
        /// Running time per period on all CPUs together.
        quota_us: u64,
        /// Length of the period.
        period_us: u64,
        /// How much unused quota may accumulate.
        burst_us: u64,
    },
    /// The fair class runs the threads of the group like SCHED_IDLE threads, after all others.
    Idle,
}

/// A limit, and the group that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuLimit {
    /// Path of the group, for example `/machine.slice`.
    pub group: String,
    /// The limit.
    pub limit: Limit,
    /// Directory of the group's files.
    pub directory: PathBuf,
    version: Version,
}

impl CpuLimit {
    /// Running time of all threads of the group and of its descendants, in ns. The time never
    /// decreases.
    ///
    /// # Errors
    /// [`ProcError`]: the group is gone, or its files do not show the time (a hierarchy of version
    /// 1 without `cpuacct`).
    pub fn usage_ns(&self) -> Result<u64, ProcError> {
        let file = match self.version {
            Version::V2 => "cpu.stat",
            Version::V1 => "cpuacct.usage",
        };
        let path = self.directory.join(file);
        let text = read_text(&path, STAT_LIMIT_BYTES)?;
        let bad = || ProcError::content(&path, 1, "no usage", &text);
        let number = match self.version {
            Version::V1 => text.trim(),
            Version::V2 => {
                text.lines().find_map(|line| line.strip_prefix("usage_usec ")).ok_or_else(bad)?
            }
        };
        let number: u64 = number.parse().map_err(|_| bad())?;
        Ok(match self.version {
            Version::V1 => number,
            Version::V2 => number.saturating_mul(NS_PER_US),
        })
    }
}

impl fmt::Display for CpuLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let group = &self.group;
        match self.limit {
            Limit::Quota { quota_us, period_us, .. } => {
                write!(f, "CPU quota {quota_us} of {period_us} us in {group}")
            }
            Limit::Idle => write!(f, "cpu.idle in {group}"),
        }
    }
}

/// Reads limits. A reader reads each group only once, and uses the result for all threads, so make
/// a new reader for each round.
#[derive(Debug)]
pub struct QuotaReader<'a> {
    proc_root: &'a Path,
    mounts: &'a CgroupMounts,
    lacks_mount: bool,
    /// The limits that were read, by directory. In each list, a quota comes first.
    read: BTreeMap<PathBuf, Vec<Limit>>,
}

/// The version of control groups, which determines the format of a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

impl<'a> QuotaReader<'a> {
    /// A reader that has not read anything yet.
    pub fn new(proc_root: &'a Path, mounts: &'a CgroupMounts) -> QuotaReader<'a> {
        QuotaReader { proc_root, mounts, lacks_mount: false, read: BTreeMap::new() }
    }

    /// Whether a hierarchy that a thread needs was not mounted, or no hierarchy was mounted at all,
    /// when the mount table was read. The hierarchy may have been mounted since then.
    pub fn lacks_mount(&self) -> bool {
        self.lacks_mount || !self.mounts.any
    }

    /// The limits of thread `tid`: those of its control group and of all ancestors of this group,
    /// the nearest group first.
    ///
    /// There are no limits on a host where no control groups are mounted at all. If a hierarchy of
    /// version 1 has the controller `cpu`, the hierarchy of version 2 has no quotas.
    ///
    /// # Errors
    /// [`ProcError::Gone`]: the thread is gone. All other errors mean that a group cannot be read.
    pub fn limits_of(&mut self, tid: u32) -> Result<Vec<CpuLimit>, ProcError> {
        let all = memberships(self.proc_root, tid)?;
        let of = |is_it: fn(&Membership) -> bool| all.iter().find(|one| is_it(one));
        let mounts = self.mounts;
        let (membership, hierarchy, version) = match of(|one| one.has("cpu")) {
            Some(membership) => (membership, &mounts.cpu, Version::V1),
            None => match of(Membership::is_unified) {
                Some(membership) => (membership, &mounts.unified, Version::V2),
                None => return Ok(Vec::new()),
            },
        };
        let path = self.proc_root.join(tid.to_string()).join("cgroup");
        let bad = |what| Err(ProcError::content(&path, 1, what, &membership.group));
        let Some(hierarchy) = hierarchy else {
            if membership.group == "/" || !mounts.any {
                return Ok(Vec::new());
            }
            self.lacks_mount = true;
            return bad("a control group of a hierarchy that is not mounted");
        };
        let Some(group) = membership.relative() else {
            return bad("a control group outside of this process's namespace");
        };
        if group.components().count() > DEPTH_MAX {
            return bad("a control group deeper than 16");
        }
        let mut limits = Vec::new();
        for group in group.ancestors() {
            let directory = hierarchy.join(group);
            let name = format!("/{}", group.display());
            limits.extend(self.read(&directory, version)?.iter().map(|&limit| CpuLimit {
                group: name.clone(),
                limit,
                directory: directory.clone(),
                version,
            }));
        }
        Ok(limits)
    }

    fn read(&mut self, directory: &Path, version: Version) -> Result<&[Limit], ProcError> {
        if !self.read.contains_key(directory) {
            let found = read_limits(directory, version)?;
            self.read.insert(directory.to_owned(), found);
        }
        Ok(&self.read[directory])
    }
}

fn read_limits(directory: &Path, version: Version) -> Result<Vec<Limit>, ProcError> {
    let (quota, burst) = match version {
        Version::V2 => (read_v2(directory)?, "cpu.max.burst"),
        Version::V1 => (read_v1(directory)?, "cpu.cfs_burst_us"),
    };
    let mut found = Vec::new();
    if let Some((quota_us, period_us)) = quota {
        let burst = number_of(directory, burst)?.and_then(|burst| u64::try_from(burst).ok());
        found.push(Limit::Quota { quota_us, period_us, burst_us: burst.unwrap_or(0) });
    }
    if number_of(directory, "cpu.idle")?.is_some_and(|idle| idle != 0) {
        found.push(Limit::Idle);
    }
    Ok(found)
}

/// Text of a file of a group. `None` if there is no such file, as in the root group and in groups
/// without the controller.
fn text_of(directory: &Path, file: &str) -> Result<Option<String>, ProcError> {
    match read_text(&directory.join(file), FILE_LIMIT_BYTES) {
        Ok(text) => Ok(Some(text)),
        Err(error) if !error.is_gone() => Err(error),
        Err(_) if directory.exists() => Ok(None),
        // The group was removed after the thread's membership was read, so the thread is in another
        // group by now.
        Err(_) => {
            let what = "a control group that is not there any more";
            Err(ProcError::content(&directory.join(file), 1, what, ""))
        }
    }
}

/// Parses `cpu.max`: `max 100000` or `20000 100000`.
fn read_v2(directory: &Path) -> Result<Option<(u64, u64)>, ProcError> {
    let Some(text) = text_of(directory, "cpu.max")? else { return Ok(None) };
    let bad = || ProcError::content(&directory.join("cpu.max"), 1, "no quota and period", &text);
    let (quota, period) = text.trim().split_once(' ').ok_or_else(bad)?;
    if quota == "max" {
        return Ok(None);
    }
    Ok(Some((quota.parse().map_err(|_| bad())?, period.parse().map_err(|_| bad())?)))
}

/// Reads the files of version 1, where -1 means no quota.
fn read_v1(directory: &Path) -> Result<Option<(u64, u64)>, ProcError> {
    let number = |file: &str| {
        let number = number_of(directory, file)?;
        Ok(number.and_then(|number| u64::try_from(number).ok()))
    };
    let Some(quota) = number("cpu.cfs_quota_us")? else { return Ok(None) };
    Ok(Some((quota, number("cpu.cfs_period_us")?.unwrap_or(0))))
}

/// Number in a file of a group. `None` if there is no such file, as for [`text_of`].
fn number_of(directory: &Path, file: &str) -> Result<Option<i64>, ProcError> {
    let Some(text) = text_of(directory, file)? else { return Ok(None) };
    let bad = |_| ProcError::content(&directory.join(file), 1, "no number", &text);
    text.trim().parse().map(Some).map_err(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fixture with a host's /proc (`proc/`) and /sys/fs/cgroup (`cg/`).
    struct Tree(tempfile::TempDir);

    impl Tree {
        fn new() -> Tree {
            let tree = Tree(tempfile::tempdir().unwrap());
            tree.put("cg/cgroup.procs", "").mount("9 1 0:9 / /cg rw - cgroup2 cgroup2 rw\n");
            tree
        }

        fn mount(&self, table: &str) -> &Tree {
            self.put("proc/self/mountinfo", table)
        }

        fn put(&self, path: &str, text: &str) -> &Tree {
            let path = self.0.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
            self
        }

        fn thread(&self, tid: u32, lines: &str) -> &Tree {
            self.put(&format!("proc/{tid}/task/{tid}/cgroup"), lines)
        }

        fn limits(&self, tid: u32) -> Result<Vec<CpuLimit>, ProcError> {
            let proc_root = self.0.path().join("proc");
            let mounts = CgroupMounts::read(&proc_root, self.0.path())?;
            QuotaReader::new(&proc_root, &mounts).limits_of(tid)
        }

        /// The first limit, which is that of the nearest group.
        fn look(&self, tid: u32) -> Result<Option<String>, ProcError> {
            Ok(self.limits(tid)?.first().map(ToString::to_string))
        }

        fn quota(&self, tid: u32) -> Option<String> {
            self.look(tid).unwrap()
        }

        fn error(&self, tid: u32) -> String {
            self.look(tid).unwrap_err().to_string()
        }
    }

    #[test]
    fn a_quota_of_the_group_or_of_any_above_it() {
        let tree = Tree::new();
        tree.thread(7, "0::/machine.slice/web.scope/libvirt/vcpu0\n")
            .thread(8, "0::/machine.slice/db.scope\n")
            .put("cg/machine.slice/cpu.max", "max 100000\n")
            .put("cg/machine.slice/web.scope/cpu.max", "20000 100000\n")
            .put("cg/machine.slice/web.scope/libvirt/cgroup.procs", "")
            .put("cg/machine.slice/web.scope/libvirt/vcpu0/cpu.max", "max 100000\n")
            .put("cg/machine.slice/db.scope/cpu.max", "max 100000\n");
        assert_eq!(
            tree.quota(7).as_deref(),
            Some("CPU quota 20000 of 100000 us in /machine.slice/web.scope")
        );
        assert_eq!(tree.quota(8), None);
        // The quota changes while the thread runs.
        tree.put("cg/machine.slice/cpu.max", "250000 50000\n");
        assert_eq!(
            tree.quota(8).as_deref(),
            Some("CPU quota 250000 of 50000 us in /machine.slice")
        );
        // The thread moves to another group.
        tree.thread(8, "0::/\n");
        assert_eq!(tree.quota(8), None);
    }

    #[test]
    fn quotas_of_version_1_and_of_a_host_with_both() {
        let tree = Tree::new();
        tree.thread(7, "5:cpu,cpuacct:/web/vcpu0\n1:name=systemd:/user\n0::/user\n")
            .mount(
                "8 1 0:8 / /cg/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                 9 1 0:9 / /cg rw - cgroup2 cgroup2 rw\n",
            )
            .put("cg/cpu,cpuacct/cgroup.procs", "")
            .put("cg/user/cgroup.procs", "")
            .put("cg/cpu,cpuacct/cpu.cfs_quota_us", "-1\n")
            .put("cg/cpu,cpuacct/web/vcpu0/cpu.cfs_quota_us", "-1\n")
            .put("cg/cpu,cpuacct/web/cpu.cfs_quota_us", "-1\n");
        assert_eq!(tree.quota(7), None);
        tree.put("cg/cpu,cpuacct/web/cpu.cfs_quota_us", "30000\n")
            .put("cg/cpu,cpuacct/web/cpu.cfs_period_us", "50000\n");
        assert_eq!(tree.quota(7).as_deref(), Some("CPU quota 30000 of 50000 us in /web"));
    }

    /// The group itself or any of its ancestors may have `cpu.idle`, with either version. If a
    /// group has both limits, the quota comes first.
    #[test]
    fn a_group_that_runs_when_nothing_else_wants_to_is_limited_too() {
        let tree = Tree::new();
        tree.thread(7, "0::/low/vm\n")
            .put("cg/low/cpu.max", "max 100000\n")
            .put("cg/low/cpu.idle", "0\n")
            .put("cg/low/vm/cpu.max", "max 100000\n")
            .put("cg/low/vm/cpu.idle", "0\n");
        assert_eq!(tree.quota(7), None);
        tree.put("cg/low/cpu.idle", "1\n");
        assert_eq!(tree.quota(7).as_deref(), Some("cpu.idle in /low"));
        tree.put("cg/low/cpu.max", "1000 100000\n");
        assert_eq!(tree.quota(7).as_deref(), Some("CPU quota 1000 of 100000 us in /low"));
        tree.put("cg/low/vm/cpu.idle", "yes\n");
        assert!(tree.error(7).contains("cpu.idle:1: no number"), "{}", tree.error(7));

        let tree = Tree::new();
        tree.mount("8 1 0:8 / /cg/cpu rw - cgroup cgroup rw,cpu\n")
            .thread(7, "5:cpu:/low\n")
            .put("cg/cpu/cgroup.procs", "")
            .put("cg/cpu/low/cpu.cfs_quota_us", "-1\n")
            .put("cg/cpu/low/cpu.idle", "1\n");
        assert_eq!(tree.quota(7).as_deref(), Some("cpu.idle in /low"));
    }

    /// Version 2 has the controller, but is not mounted where systemd mounts it.
    #[test]
    fn a_hierarchy_is_found_where_it_is_mounted_and_one_that_is_not_mounted_counts_as_a_quota() {
        let tree = Tree::new();
        let hybrid = "8 1 0:8 / /cg/systemd rw - cgroup cgroup rw,name=systemd\n";
        tree.thread(7, "1:name=systemd:/vm\n0::/vm\n").thread(8, "0::/\n").mount(hybrid);
        assert!(tree.error(7).contains("not mounted: \"/vm\""), "{}", tree.error(7));
        assert_eq!(tree.quota(8), None);
        tree.put("cg/unified/vm/cpu.max", "1000 2000\n").put("cg/unified/cgroup.procs", "");
        tree.mount(&format!("{hybrid}9 1 0:9 / /cg/unified rw - cgroup2 cgroup2 rw\n"));
        assert_eq!(tree.quota(7).as_deref(), Some("CPU quota 1000 of 2000 us in /vm"));
    }

    #[test]
    fn one_look_reads_a_group_once() {
        let tree = Tree::new();
        tree.thread(7, "0::/vm\n").thread(8, "0::/vm\n").put("cg/vm/cpu.max", "1000 2000\n");
        let proc_root = tree.0.path().join("proc");
        let mounts = CgroupMounts::read(&proc_root, tree.0.path()).unwrap();
        let mut reader = QuotaReader::new(&proc_root, &mounts);
        let first = reader.limits_of(7).unwrap();
        tree.put("cg/vm/cpu.max", "max 2000\n");
        assert_eq!((reader.limits_of(8).unwrap(), first.len()), (first, 1));
    }

    #[test]
    fn all_limits_above_a_thread_and_what_their_groups_have_used() {
        let tree = Tree::new();
        tree.thread(7, "0::/box/vm\n")
            .put("cg/box/cpu.max", "50000 100000\n")
            .put("cg/box/cpu.idle", "1\n")
            .put("cg/box/cpu.stat", "usage_usec 12\nuser_usec 4\nsystem_usec 8\n")
            .put("cg/box/vm/cpu.max", "20000 100000\n")
            .put("cg/box/vm/cpu.max.burst", "3000\n")
            .put("cg/box/vm/cpu.stat", "user_usec 4\n");
        let limits = tree.limits(7).unwrap();
        let quota = |quota_us, burst_us| Limit::Quota { quota_us, period_us: 100_000, burst_us };
        let found: Vec<_> = limits.iter().map(|one| (one.group.as_str(), one.limit)).collect();
        let want =
            [("/box/vm", quota(20_000, 3000)), ("/box", quota(50_000, 0)), ("/box", Limit::Idle)];
        assert_eq!(found, want);
        assert_eq!(limits[1].usage_ns().unwrap(), 12_000);
        assert!(limits[0].usage_ns().unwrap_err().to_string().contains("vm/cpu.stat:1: no usage"));

        let tree = Tree::new();
        tree.mount("8 1 0:8 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n")
            .thread(7, "5:cpu,cpuacct:/vm\n")
            .put("cg/cpu/cgroup.procs", "")
            .put("cg/cpu/vm/cpu.cfs_quota_us", "1000\n")
            .put("cg/cpu/vm/cpu.cfs_period_us", "2000\n")
            .put("cg/cpu/vm/cpuacct.usage", "4711\n");
        assert_eq!(tree.limits(7).unwrap()[0].usage_ns().unwrap(), 4711);
        std::fs::remove_file(tree.0.path().join("cg/cpu/vm/cpuacct.usage")).unwrap();
        assert!(tree.limits(7).unwrap()[0].usage_ns().is_err());
    }

    /// If the groups of a thread cannot be read, that is an error: the thread must not count as a
    /// thread without a quota.
    #[test]
    fn what_cannot_be_looked_at_is_an_error_that_names_it() {
        let tree = Tree::new();
        tree.thread(7, "0::/../outside\n").thread(8, "0::/removed\n").thread(9, "0::/odd\n");
        tree.put("cg/odd/cpu.max", "20000\n");
        assert!(tree.error(7).contains("namespace: \"/../outside\""), "{}", tree.error(7));
        assert!(tree.error(8).contains("removed/cpu.max:1: a control group that is not there"));
        assert!(tree.error(9).contains("odd/cpu.max:1: no quota and period: \"20000"));
        tree.thread(7, &format!("0::{}\n", "/d".repeat(DEPTH_MAX + 1)));
        assert!(tree.error(7).contains("deeper than 16"), "{}", tree.error(7));
        assert!(tree.look(10).unwrap_err().is_gone());
    }

    #[test]
    fn a_host_without_control_groups_has_no_quotas() {
        let tree = Tree(tempfile::tempdir().unwrap());
        tree.mount("22 1 0:20 / /proc rw - proc proc rw\n");
        tree.thread(7, "0::/vm\n").put("proc/8/task/8/stat", "8 (x) S");
        assert_eq!((tree.quota(7), tree.quota(8)), (None, None));
    }
}
