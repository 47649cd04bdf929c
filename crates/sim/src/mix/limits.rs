// SPDX-License-Identifier: GPL-2.0-only
//! Limits of the values of a mix.

use std::ops::RangeInclusive;

use crate::machine::CPUS_MAX;
use crate::time::{NS_PER_MS, NS_PER_S, NS_PER_US, Ns};

/// Maximum length of a line. A file with a longer line is not a mix.
pub const LINE_MAX_BYTES: usize = 100_000;
/// Maximum number of groups.
pub const GROUPS_MAX: usize = 20_000;
/// Maximum number of tasks of all kinds together, including the tasks that one pass of their phases
/// forks.
pub const TASKS_MAX: u64 = 100_000;
/// Maximum number of vCPUs of all VMs together.
pub const VCPUS_MAX: u64 = 4096 * 4;
/// Longest run. No other time in a mix may be longer, except `run forever`.
pub const RUN_MAX_NS: Ns = 3_600 * NS_PER_S;
/// Maximum number of phases of a task. A line with this many of the longest phases is shorter than
/// [`LINE_MAX_BYTES`].
pub const PHASES_MAX: usize = 256;
/// Maximum number of queues, of locks, of interrupts, and of changes.
pub const ENTRIES_MAX: usize = 100_000;

/// Maximum length of a name, and of each part of a group's path.
pub(super) const NAME_MAX_BYTES: usize = 64;
/// Maximum length of a group's path. It is the kernel's NAME_MAX, which also limits the directories
/// of control groups.
pub(super) const PATH_MAX_BYTES: usize = 255;
/// Maximum of a cost. With higher costs, the machine would do nothing else.
pub(super) const COST_MAX_NS: Ns = 10_000_000;

pub(super) const CPUS: RangeInclusive<i64> = 1..=CPUS_MAX as i64;
pub(super) const HZ: RangeInclusive<i64> = 100..=1000;
pub(super) const CAPACITY: RangeInclusive<i64> = 1..=1024;
/// Range of `cpu.weight`: CGROUP_WEIGHT_MIN to CGROUP_WEIGHT_MAX.
pub(super) const WEIGHT: RangeInclusive<i64> = 1..=10_000;
pub(super) const COOKIE: RangeInclusive<i64> = 0..=1_000_000;
pub(super) const NICE: RangeInclusive<i64> = -20..=19;
pub(super) const PRIO: RangeInclusive<i64> = 1..=99;
pub(super) const COUNT: RangeInclusive<i64> = 1..=TASKS_MAX as i64;
/// vCPUs of a VM. KVM_MAX_VCPUS is at most 4096 on x86.
pub(super) const VCPUS: RangeInclusive<i64> = 1..=4096;
/// VM exits per second of running time.
pub(super) const EXITS: RangeInclusive<i64> = 0..=100_000;

/// Shortest period, and smallest quota (min_cfs_quota_period in kernel/sched/core.c).
pub(super) const QUOTA_MIN_NS: Ns = NS_PER_MS;
/// Longest period (max_cfs_quota_period in kernel/sched/core.c).
pub(super) const PERIOD_MAX_NS: Ns = NS_PER_S;
/// Unit of the numbers in `cpu.max`: microseconds.
pub(super) const QUOTA_UNIT_NS: Ns = NS_PER_US;
