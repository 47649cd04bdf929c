// SPDX-License-Identifier: GPL-2.0-only
//! CPU limits of the control groups that contain vCPU threads, directly or in descendant groups.
//!
//! The bandwidth control of the fair class does not limit a real-time thread. So if a group has a
//! quota, actuator rt boosts a vCPU in or below this group only within the part of the quota that
//! the group has not used ([`Groups`]). If this part is not known, actuator rt does not boost the
//! vCPU. Neither actuator boosts a vCPU in a group with `cpu.idle`, because such a vCPU runs only
//! when no other thread wants to run. Weights do not limit boosts: they affect only unboosted time,
//! and budgets limit boosted time.
//!
//! The kernel notifies nobody when limits change or threads are moved, so the daemon reads the
//! limits periodically. In each round, it reads one small file per vCPU, and reads the limits of
//! each control group that contains vCPUs only once ([`QuotaReader`]).

pub mod reserves;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use paracord_policy::{PC_REFUSED_ALL, PC_REFUSED_RT};
use paracord_sensor::Reserves;
use paracord_sys::proc::{CgroupMounts, CpuLimit, Limit, ProcError, QuotaReader};

use crate::boosts::actuator::Effect;
use crate::quotas::reserves::Groups;

/// The limit of a vCPU.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    /// The limit, or the reason why it is not known, as one line of text.
    line: String,
    refused: Refused,
    /// Index of the record of the vCPU's reserve (see [`reserves`]); 0: there is none.
    reserve: u32,
}

/// The actuators that must not boost a vCPU, because of the CPU limits of its control groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Refused {
    /// None: both actuators boost the vCPU.
    #[default]
    No,
    /// Actuator rt, whose boosts would bypass the limits.
    ByRt,
    /// Both actuators: the vCPU runs only when no other thread wants to run.
    ByAll,
}

impl Refused {
    /// Returns whether the limits prevent boosts with this [`Effect`].
    pub fn binds(self, effect: Effect) -> bool {
        match self {
            Refused::No => false,
            Refused::ByRt => effect == Effect::Realtime,
            Refused::ByAll => true,
        }
    }

    /// The `PC_REFUSED_*` bits for the sensor.
    pub fn bits(self) -> u32 {
        match self {
            Refused::No => 0,
            Refused::ByRt => PC_REFUSED_RT,
            Refused::ByAll => PC_REFUSED_ALL,
        }
    }
}

/// A thread whose limits are read.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// Index of the thread's record in the sensor.
    pub index: u32,
    /// Thread ID.
    pub tid: u32,
    /// User of the process.
    pub uid: u32,
}

/// A vCPU whose limits have changed since the last round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Index of the vCPU.
    pub index: u32,
    /// The actuators that were not allowed to boost the vCPU before the change.
    pub was: Refused,
    /// The actuators that are not allowed to boost the vCPU now.
    pub is: Refused,
}

impl Changed {
    /// Whether the change makes a difference for boosts with this [`Effect`].
    pub fn refusal(self, effect: Effect) -> bool {
        self.was.binds(effect) != self.is.binds(effect)
    }
}

/// The limits that are known now.
#[derive(Debug)]
pub struct Quotas {
    proc_root: PathBuf,
    /// Root of the file system: `/`.
    root: PathBuf,
    /// The mounts of cgroup file systems. They are read only once, unless a mount is missing.
    /// `None`: the next round reads the mounts.
    mounts: Option<CgroupMounts>,
    /// The limits, by vCPU index.
    found: BTreeMap<u32, Found>,
    groups: Groups,
}

impl Quotas {
    /// Creates a state in which no limits are known yet. `root`: `/`.
    pub fn new(proc_root: &Path, root: &Path) -> Quotas {
        let (proc_root, root) = (proc_root.to_owned(), root.to_owned());
        Quotas { proc_root, root, mounts: None, found: BTreeMap::new(), groups: Groups::default() }
    }

    /// Reads the limits of threads. Returns the threads whose limits have changed. A change of only
    /// the size of a quota does not count.
    pub fn look(
        &mut self,
        table: &impl Reserves,
        threads: impl IntoIterator<Item = Subject>,
        now: Instant,
    ) -> Vec<Changed> {
        let read = || CgroupMounts::read(&self.proc_root, &self.root);
        let mounts = self.mounts.take().map_or_else(read, Ok);
        let mut reader = mounts.as_ref().map(|mounts| QuotaReader::new(&self.proc_root, mounts));
        let mut changed = Vec::new();
        for Subject { index, tid, uid } in threads {
            let found = match reader.as_mut().map(|reader| reader.limits_of(tid)) {
                Ok(Ok(limits)) => found(&mut self.groups, table, &limits, uid, now),
                // The sensor reports that the thread has ended.
                Ok(Err(error)) if error.is_gone() => continue,
                Ok(Err(error)) => Some(refused(Refused::ByRt, unknown(&error))),
                Err(error) => Some(refused(Refused::ByRt, unknown(error))),
            };
            let state = |found: Option<&Found>| {
                found.map_or((Refused::No, 0), |found| (found.refused, found.reserve))
            };
            let (was, is) = (state(self.found.get(&index)), state(found.as_ref()));
            if was != is {
                changed.push(Changed { index, was: was.0, is: is.0 });
            }
            match found {
                Some(found) => self.found.insert(index, found),
                None => self.found.remove(&index),
            };
        }
        let is_complete = reader.is_ok_and(|reader| !reader.lacks_mount());
        self.mounts = mounts.ok().filter(|_| is_complete);
        changed
    }

    /// The limit of vCPU `index`, if it has one.
    pub fn of(&self, index: u32) -> Option<&str> {
        self.found.get(&index).map(|found| found.line.as_str())
    }

    /// Returns the actuators that must not boost vCPU `index`, because of the CPU limits of its
    /// control groups.
    pub fn refused(&self, index: u32) -> Refused {
        self.found.get(&index).map_or(Refused::No, |found| found.refused)
    }

    /// The limit of vCPU `index`, if the limit prevents boosts with this [`Effect`].
    pub fn refusal_of(&self, index: u32, effect: Effect) -> Option<&str> {
        self.of(index).filter(|_| self.refused(index).binds(effect))
    }

    /// Index of the record of the reserve for vCPU `index`; 0: there is none.
    pub fn reserve_of(&self, index: u32) -> u32 {
        self.found.get(&index).map_or(0, |found| found.reserve)
    }

    /// Forgets vCPU `index`, whose thread has ended.
    pub fn forget(&mut self, index: u32) {
        self.found.remove(&index);
    }

    /// Gives back the records of groups that no longer have a vCPU. Call this function after a
    /// round over all vCPUs, once the sensor knows which record each vCPU has.
    pub fn give_back(&mut self) {
        self.groups.keep(self.found.values().map(|found| found.reserve));
    }

    /// Interval at which [`refill`](Quotas::refill) is due; `None`: no vCPU has a quota.
    pub fn refill_interval(&self) -> Option<Duration> {
        self.groups.interval()
    }

    /// Updates the records of the reserves.
    pub fn refill(&mut self, table: &impl Reserves, now: Instant) {
        self.groups.refill(table, now);
    }
}

fn found(
    groups: &mut Groups,
    table: &impl Reserves,
    limits: &[CpuLimit],
    uid: u32,
    now: Instant,
) -> Option<Found> {
    let binds = binding(limits)?;
    if binds.limit == Limit::Idle {
        return Some(refused(Refused::ByAll, binds.to_string()));
    }
    Some(match groups.record_of(table, limits, uid, now) {
        Ok(reserve) => Found { line: binds.to_string(), refused: Refused::No, reserve },
        Err(why) => refused(Refused::ByRt, format!("{binds} ({why})")),
    })
}

/// Returns the limit that is reported for a thread. `limits` contains the limit of the nearest
/// group first. If one of the limits is `cpu.idle`, this function returns that limit, because the
/// thread is then never boosted. Otherwise, the function returns the nearest quota.
pub(crate) fn binding(limits: &[CpuLimit]) -> Option<&CpuLimit> {
    limits.iter().find(|limit| limit.limit == Limit::Idle).or(limits.first())
}

fn refused(refused: Refused, line: String) -> Found {
    Found { line, refused, reserve: 0 }
}

/// Describes the limit of a thread whose limits cannot be read. Such a thread counts as a thread
/// with a quota.
pub(crate) fn unknown(error: &ProcError) -> String {
    format!("CPU quota not known ({error})")
}

/// Describes in one line the vCPUs of a VM that are not boosted; `None` if there are none.
/// `quotas`: vcpu_id and limit of each such vCPU.
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

    /// A table that stores nothing.
    struct Table;

    impl Reserves for Table {
        fn len(&self) -> u32 {
            4
        }
        fn begin(&self, _index: u32, _above: u32) {}
        fn set_above(&self, _index: u32, _above: u32) {}
        fn left_ns(&self, _index: u32) -> i64 {
            0
        }
        fn add_ns(&self, _index: u32, _ns: i64) {}
    }

    #[test]
    fn a_limit_that_comes_and_goes_is_told_once_each() {
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
        put("sys/fs/cgroup/vms/cpu.stat", "usage_usec 0\n");
        put("sys/fs/cgroup/vms/web/cpu.max", "max 100000\n");
        // Thread 72 does not exist.
        let threads =
            [(7, 70), (8, 71), (9, 72)].map(|(index, tid)| Subject { index, tid, uid: 0 });
        let look = |quotas: &mut Quotas| quotas.look(&Table, threads, Instant::now());
        let change = |index, was, is| vec![Changed { index, was, is }];
        use Refused::{ByAll, ByRt, No};
        assert_eq!((look(&mut quotas), quotas.of(7)), (vec![], None));
        put("sys/fs/cgroup/vms/cpu.max", "20000 100000\n");
        assert_eq!(look(&mut quotas), change(7, No, No));
        assert_eq!(quotas.of(7), Some("CPU quota 20000 of 100000 us in /vms"));
        assert_eq!((quotas.refused(7), quotas.reserve_of(7)), (No, 1));
        // A change of the quota's size does not change what is boosted.
        put("sys/fs/cgroup/vms/cpu.max", "30000 100000\n");
        assert_eq!((look(&mut quotas), quotas.of(8)), (vec![], None));
        assert_eq!(quotas.of(7), Some("CPU quota 30000 of 100000 us in /vms"));
        put("sys/fs/cgroup/vms/cpu.idle", "1\n");
        assert_eq!(look(&mut quotas), change(7, No, ByAll));
        for effect in [Effect::Realtime, Effect::Scheduler] {
            assert_eq!(quotas.refusal_of(7, effect), Some("cpu.idle in /vms"));
        }
        assert_eq!(quotas.reserve_of(7), 0);
        put("proc/70/task/70/cgroup", "0::/\n");
        assert_eq!((look(&mut quotas), quotas.of(7)), (change(7, ByAll, No), None));
        put("proc/71/task/71/cgroup", "0::/../elsewhere\n");
        assert_eq!(look(&mut quotas), change(8, No, ByRt));
        assert!(quotas.refusal_of(8, Effect::Realtime).is_some());
        assert_eq!(quotas.refusal_of(8, Effect::Scheduler), None, "it charges quotas itself");
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
