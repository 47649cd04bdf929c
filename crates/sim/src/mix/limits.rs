// SPDX-License-Identifier: GPL-2.0-only
//! How large the values of a mix may be.

use std::ops::RangeInclusive;

use crate::machine::CPUS_MAX;
use crate::time::{NS_PER_MS, NS_PER_S, NS_PER_US, Ns};

/// A line holds at most this many bytes: what is longer is no mix.
pub const LINE_MAX_BYTES: usize = 100_000;
/// Groups of a mix.
pub const GROUPS_MAX: usize = 20_000;
/// Tasks of all kinds together, with what one pass of their phases forks.
pub const TASKS_MAX: u64 = 100_000;
/// vCPUs of all VMs together.
pub const VCPUS_MAX: u64 = 4096 * 4;
/// Longest run. No other time of a mix is longer, except `run forever`.
pub const RUN_MAX_NS: Ns = 3_600 * NS_PER_S;
/// Phases of one task: a line of the longest phases stays below [`LINE_MAX_BYTES`].
pub const PHASES_MAX: usize = 256;
/// Queues, locks, interrupts and changes, each.
pub const ENTRIES_MAX: usize = 100_000;

/// Bytes of a name, and of one part of a group's path.
pub(super) const NAME_MAX_BYTES: usize = 64;
/// Bytes of a group's path: the kernel's NAME_MAX, which its cgroup directories have too.
pub(super) const PATH_MAX_BYTES: usize = 255;
/// A cost beyond this is a machine that does nothing else.
pub(super) const COST_MAX_NS: Ns = 10_000_000;

pub(super) const CPUS: RangeInclusive<i64> = 1..=CPUS_MAX as i64;
pub(super) const HZ: RangeInclusive<i64> = 100..=1000;
pub(super) const CAPACITY: RangeInclusive<i64> = 1..=1024;
/// `cpu.weight`: CGROUP_WEIGHT_MIN to CGROUP_WEIGHT_MAX.
pub(super) const WEIGHT: RangeInclusive<i64> = 1..=10_000;
pub(super) const COOKIE: RangeInclusive<i64> = 0..=1_000_000;
pub(super) const NICE: RangeInclusive<i64> = -20..=19;
pub(super) const PRIO: RangeInclusive<i64> = 1..=99;
pub(super) const COUNT: RangeInclusive<i64> = 1..=TASKS_MAX as i64;
/// KVM_MAX_VCPUS of x86 is at most 4096.
pub(super) const VCPUS: RangeInclusive<i64> = 1..=4096;
/// Per second of running time.
pub(super) const EXITS: RangeInclusive<i64> = 0..=100_000;

/// kernel/sched/core.c: min_cfs_quota_period, also the least quota.
pub(super) const QUOTA_MIN_NS: Ns = NS_PER_MS;
/// kernel/sched/core.c: max_cfs_quota_period.
pub(super) const PERIOD_MAX_NS: Ns = NS_PER_S;
/// `cpu.max` is in microseconds.
pub(super) const QUOTA_UNIT_NS: Ns = NS_PER_US;
