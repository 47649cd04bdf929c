// SPDX-License-Identifier: GPL-2.0-only
//! Reserves: what CPU quotas leave for boosts (policy/reserve.h). The sensor has a record for each
//! control group that has a quota and contains a vCPU, directly or in a descendant group. A vCPU is
//! boosted only if each of these groups that contains it has time left in its reserve.
//!
//! The kernel counts the running time of a group's threads, whatever their scheduling class
//! (`cpu.stat`). The daemon reads this count periodically, and compares its increase with the time
//! that the quota has granted meanwhile. The count includes boosted time, which the sensor has
//! already subtracted from the reserve. So each reading replaces the sensor's subtractions.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use paracord_policy::{PC_RESERVE_DEPTH_MAX, reserve};
use paracord_sensor::Reserves;
use paracord_sys::clock::NS_PER_US;
use paracord_sys::proc::{CpuLimit, Limit};

/// Shortest interval between two readings of a group. A reserve holds at most the quota of one
/// period (plus the burst). With the usual period of 100 ms, this interval lets boosts use all that
/// the quota leaves.
const REFILL: Duration = Duration::from_millis(100);
/// The interval of a user's groups is also at least this time, multiplied by the number of the
/// user's groups and by the number of users. So reading thousands of groups does not become
/// expensive, and a user with many groups does not delay the readings of another user's groups.
const REFILL_PER_GROUP: Duration = Duration::from_millis(2);

/// A user other than root may cause at most 1/`SHARE_OF_USER` of all records. Such a user can
/// create groups with quotas, for example in a systemd session, and start a VM in each group.
const SHARE_OF_USER: usize = 4;

/// A group with a record.
#[derive(Debug)]
struct Group {
    index: u32,
    /// User of the first process that was found in the group or in a descendant group.
    uid: u32,
    /// Index of the record of the nearest ancestor group that has a record.
    above: u32,
    limit: CpuLimit,
    looked: Instant,
    used_ns: u64,
    /// The reserve at the last reading.
    left_ns: i64,
}

/// The groups that have records, by their directories.
#[derive(Debug, Default)]
pub struct Groups {
    by_directory: BTreeMap<PathBuf, Group>,
}

impl Groups {
    /// Returns the index of the record for the quotas of a thread of user `uid`. `limits`: the
    /// limits of the thread's groups, nearest group first. Limits that are not quotas are ignored.
    /// The error is the reason why boosts of the thread cannot be held within its quotas.
    pub fn record_of(
        &mut self,
        table: &impl Reserves,
        limits: &[CpuLimit],
        uid: u32,
        now: Instant,
    ) -> Result<u32, String> {
        let is_quota = |limit: &&CpuLimit| matches!(limit.limit, Limit::Quota { .. });
        if limits.iter().filter(is_quota).count() > PC_RESERVE_DEPTH_MAX as usize {
            return Err(format!("more than {PC_RESERVE_DEPTH_MAX} quotas one above the other"));
        }
        let mut above = 0;
        for limit in limits.iter().rev().filter(is_quota) {
            above = self.record(table, limit, (above, uid), now)?;
        }
        Ok(above)
    }

    fn record(
        &mut self,
        table: &impl Reserves,
        limit: &CpuLimit,
        (above, uid): (u32, u32),
        now: Instant,
    ) -> Result<u32, String> {
        if let Some(group) = self.by_directory.get_mut(&limit.directory) {
            if group.limit != *limit {
                group.limit = limit.clone();
            }
            if group.above != above {
                group.above = above;
                table.set_above(group.index, above);
            }
            return Ok(group.index);
        }
        let used_ns =
            limit.usage_ns().map_err(|error| format!("what it has used is not known: {error}"))?;
        let of_user = self.by_directory.values().filter(|group| group.uid == uid).count();
        if uid != 0 && of_user >= table.len() as usize / SHARE_OF_USER {
            return Err(format!("{of_user} groups with a quota are watched for its user already"));
        }
        let taken: BTreeSet<u32> = self.by_directory.values().map(|group| group.index).collect();
        let index = (1..table.len()).find(|index| !taken.contains(index));
        let index = index
            .ok_or_else(|| format!("{} groups with a quota are watched already", taken.len()))?;
        table.begin(index, above);
        let group =
            Group { index, uid, above, limit: limit.clone(), looked: now, used_ns, left_ns: 0 };
        self.by_directory.insert(limit.directory.clone(), group);
        Ok(index)
    }

    /// Forgets groups that no longer have a vCPU. A group still has a vCPU if `in_use` contains its
    /// own record, or the record of a group below it.
    pub fn keep(&mut self, in_use: impl IntoIterator<Item = u32>) {
        let above: BTreeMap<u32, u32> =
            self.by_directory.values().map(|group| (group.index, group.above)).collect();
        let mut used = BTreeSet::new();
        for mut index in in_use {
            while index != 0 && used.insert(index) {
                index = above.get(&index).copied().unwrap_or(0);
            }
        }
        self.by_directory.retain(|_, group| used.contains(&group.index));
    }

    /// Interval at which [`refill`](Groups::refill) is due; `None`: there is nothing to refill.
    pub fn interval(&self) -> Option<Duration> {
        (!self.by_directory.is_empty()).then_some(REFILL)
    }

    /// For each user, the interval between two readings of the user's groups.
    fn intervals(&self) -> BTreeMap<u32, Duration> {
        let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
        for group in self.by_directory.values() {
            *counts.entry(group.uid).or_default() += 1;
        }
        let users = u32::try_from(counts.len()).unwrap_or(u32::MAX);
        let interval = |groups: u32| REFILL.max(REFILL_PER_GROUP * groups.saturating_mul(users));
        counts.into_iter().map(|(uid, groups)| (uid, interval(groups))).collect()
    }

    /// Reads the groups that are due. Adds to each reserve the time that the quota has granted
    /// since the last reading, and subtracts the time that threads have used. If a group cannot be
    /// read, nothing is added to its reserve: boosts use up the rest of it, and then the group's
    /// threads are not boosted.
    pub fn refill(&mut self, table: &impl Reserves, now: Instant) {
        let intervals = self.intervals();
        for group in self.by_directory.values_mut() {
            let passed = now.saturating_duration_since(group.looked);
            // Accept a call that is up to half of `REFILL` early, because the caller's timer is not
            // exact.
            if intervals.get(&group.uid).is_some_and(|due| passed + REFILL / 2 < *due) {
                continue;
            }
            let Limit::Quota { quota_us, period_us, burst_us } = group.limit.limit else {
                continue;
            };
            let Ok(used_ns) = group.limit.usage_ns() else { continue };
            let granted = passed.as_nanos() * u128::from(quota_us) / u128::from(period_us.max(1));
            // If the count has become smaller, the group was removed and created again, and the
            // whole count is new.
            let used = used_ns.checked_sub(group.used_ns).unwrap_or(used_ns);
            let most = quota_us.saturating_add(burst_us).saturating_mul(NS_PER_US);
            let granted = u64::try_from(granted).unwrap_or(u64::MAX);
            let next = reserve::next(group.left_ns, granted, used, most);
            // If the sensor subtracts time from the reserve between `left_ns` and `add_ns`, this
            // time stays subtracted until the next refill.
            table.add_ns(group.index, next - table.left_ns(group.index));
            (group.left_ns, group.used_ns, group.looked) = (next, used_ns, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paracord_sys::clock::NS_PER_MS;
    use paracord_sys::proc::{CgroupMounts, QuotaReader};
    use std::cell::RefCell;

    /// For each record, the reserve and the index of the ancestor's record.
    struct Table(RefCell<Vec<(i64, u32)>>);

    impl Reserves for Table {
        fn len(&self) -> u32 {
            u32::try_from(self.0.borrow().len()).unwrap()
        }
        fn begin(&self, index: u32, above: u32) {
            self.0.borrow_mut()[index as usize] = (0, above);
        }
        fn set_above(&self, index: u32, above: u32) {
            self.0.borrow_mut()[index as usize].1 = above;
        }
        fn left_ns(&self, index: u32) -> i64 {
            self.0.borrow()[index as usize].0
        }
        fn add_ns(&self, index: u32, ns: i64) {
            self.0.borrow_mut()[index as usize].0 += ns;
        }
    }

    struct Host(tempfile::TempDir);

    impl Host {
        fn new() -> Host {
            let host = Host(tempfile::tempdir().unwrap());
            host.put("cg/cgroup.procs", "");
            host.put("proc/self/mountinfo", "9 1 0:9 / /cg rw - cgroup2 cgroup2 rw\n");
            host
        }

        fn put(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }

        /// Sets the quota of a group (per 100 ms) and the time that it has used, both in ms.
        fn group(&self, group: &str, quota_ms: u64, used_ms: u64) {
            self.put(&format!("cg/{group}/cpu.max"), &format!("{} 100000\n", quota_ms * 1000));
            self.used(group, used_ms);
        }

        fn used(&self, group: &str, used_ms: u64) {
            self.put(&format!("cg/{group}/cpu.stat"), &format!("usage_usec {}\n", used_ms * 1000));
        }

        fn limits(&self, group: &str) -> Vec<CpuLimit> {
            self.put("proc/7/task/7/cgroup", &format!("0::/{group}\n"));
            let proc_root = self.0.path().join("proc");
            let mounts = CgroupMounts::read(&proc_root, self.0.path()).unwrap();
            QuotaReader::new(&proc_root, &mounts).limits_of(7).unwrap()
        }
    }

    const MS: i64 = NS_PER_MS as i64;

    fn table(len: usize) -> Table {
        Table(RefCell::new(vec![(0, 0); len]))
    }

    #[test]
    fn boosts_have_what_the_group_leaves_of_its_quota() {
        let (host, table, mut groups) = (Host::new(), table(8), Groups::default());
        host.group("box/vm", 20, 1000);
        let start = Instant::now();
        let index = groups.record_of(&table, &host.limits("box/vm"), 0, start).unwrap();
        assert_eq!((index, table.left_ns(index)), (1, 0), "nothing is granted yet");
        // The quota has granted 20 ms, and threads have used 5 ms. The sensor has subtracted 3 ms.
        table.add_ns(index, -3 * MS);
        host.used("box/vm", 1005);
        groups.refill(&table, start + Duration::from_millis(100));
        assert_eq!(table.left_ns(index), 15 * MS);
        // The kernel's count includes 8 ms of boosts, which are subtracted only once.
        table.add_ns(index, -8 * MS);
        host.used("box/vm", 1033);
        groups.refill(&table, start + Duration::from_millis(200));
        assert_eq!(table.left_ns(index), 7 * MS);
        // A reserve holds no more than the quota of one period.
        groups.refill(&table, start + Duration::from_secs(9));
        assert_eq!(table.left_ns(index), 20 * MS);
        // A group that no longer exists gets nothing.
        std::fs::remove_dir_all(host.0.path().join("cg/box")).unwrap();
        table.add_ns(index, -20 * MS);
        groups.refill(&table, start + Duration::from_secs(10));
        assert_eq!(table.left_ns(index), 0);
    }

    #[test]
    fn groups_above_are_charged_too_and_records_are_given_back() {
        let (host, table, mut groups) = (Host::new(), table(4), Groups::default());
        host.group("box", 50, 0);
        host.group("box/a", 20, 0);
        host.group("box/b", 20, 0);
        host.group("other", 20, 0);
        let now = Instant::now();
        let of = |groups: &mut Groups, group| groups.record_of(&table, &host.limits(group), 0, now);
        let (a, b) = (of(&mut groups, "box/a").unwrap(), of(&mut groups, "box/b").unwrap());
        let (_, above) = table.0.borrow()[a as usize];
        assert_eq!((table.0.borrow()[b as usize].1, above != 0 && above != a), (above, true));
        let full = of(&mut groups, "other").unwrap_err();
        assert_eq!(full, "3 groups with a quota are watched already");
        groups.keep([a]);
        assert_eq!(groups.by_directory.len(), 2, "a and the one above");
        assert_eq!(of(&mut groups, "other"), Ok(b));
        // The quota of the group above is removed.
        host.put("cg/box/cpu.max", "max 100000\n");
        assert_eq!((of(&mut groups, "box/a"), table.0.borrow()[a as usize].1), (Ok(a), 0));
        assert_eq!(groups.interval(), Some(REFILL));
        groups.keep([]);
        assert_eq!(groups.interval(), None);
    }

    #[test]
    fn a_user_takes_no_more_than_a_share_of_the_records() {
        let (host, table, mut groups) = (Host::new(), table(12), Groups::default());
        let mut of = |uid: u32, group: &str| {
            host.group(group, 20, 0);
            groups.record_of(&table, &host.limits(group), uid, Instant::now())
        };
        for group in ["a", "b", "c"] {
            of(7, group).unwrap();
        }
        assert_eq!(
            of(7, "d").unwrap_err(),
            "3 groups with a quota are watched for its user already"
        );
        of(7, "c").unwrap();
        of(8, "d").unwrap();
        for n in 0..5 {
            of(0, &format!("root{n}")).unwrap();
        }
    }

    #[test]
    fn a_user_with_many_groups_does_not_delay_another_user() {
        let (host, table, mut groups) = (Host::new(), table(128), Groups::default());
        let start = Instant::now();
        let mut of = |uid: u32, group: &str| {
            host.group(group, 20, 0);
            groups.record_of(&table, &host.limits(group), uid, start).unwrap()
        };
        let many: Vec<u32> = (0..30).map(|n| of(0, &format!("many{n}"))).collect();
        let one = of(8, "one");
        let have =
            |indices: &[u32], ms| indices.iter().all(|&index| table.left_ns(index) == ms * MS);
        // 30 groups and two users: every 120 ms.
        groups.refill(&table, start + Duration::from_millis(60));
        assert!(have(&[one], 12) && have(&many, 0));
        groups.refill(&table, start + Duration::from_millis(120));
        assert!(have(&[one], 20) && have(&many, 20));
    }

    #[test]
    fn a_group_whose_use_is_not_known_has_no_record() {
        let (host, table, mut groups) = (Host::new(), table(4), Groups::default());
        host.group("vm", 20, 0);
        host.put("cg/vm/cpu.stat", "");
        let error = groups.record_of(&table, &host.limits("vm"), 0, Instant::now()).unwrap_err();
        assert!(error.starts_with("what it has used is not known: "), "{error}");
    }
}
