// SPDX-License-Identifier: GPL-2.0-only
//! The state of the fair class for tasks, CPUs and the machine. The module crate::fair contains the
//! class itself.

use std::collections::{BTreeMap, VecDeque};

use super::Event;
use crate::{bpf::TaskId, machine::CpuSet, time::Ns};

/// Index into [`Fair::entities`]. Entities of groups come first, one per group and CPU. Entities of
/// tasks follow.
pub type EntityId = usize;
/// Index into [`Fair::queues`]: number of the group times number of CPUs, plus the CPU. The entity
/// of a group on a CPU has the same index.
pub type QueueId = usize;

/// The state of a task for the selection of a CPU. Its [`SchedEntity`] contains the rest.
#[derive(Clone, Debug, Default)]
pub struct Entity {
    /// The CPU that the task used before its last CPU.
    pub recent_used_cpu: Option<usize>,
    /// The task that this task woke last.
    pub last_wakee: Option<TaskId>,
    /// How often this task has woken a task other than `last_wakee`. The number is halved every
    /// second.
    pub wakee_flips: u32,
    /// When the flips were last halved.
    pub flips_halved_at: Ns,
}

/// The balancing state of a CPU.
#[derive(Default)]
pub struct FairRq {
    /// One entry per domain, the smallest domain first.
    pub levels: Vec<Level>,
    /// The earliest time at which one of the CPU's domains must be balanced.
    pub next_balance: Ns,
    /// Average length of the CPU's idle times, at most twice the cost of a migration.
    pub avg_idle_ns: Ns,
}

/// The state of a CPU in one of its domains.
#[derive(Clone, Debug, Default)]
pub struct Level {
    /// When the domain was last balanced.
    pub last_balance: Ns,
    /// Interval between two times, in milliseconds.
    pub interval_ms: u64,
    /// How often in a row no task could be moved.
    pub failed: u32,
    /// The success of newly idle balancing.
    pub newly: Newly,
}

/// The success rate of newly idle balancing (`sd->newidle_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Newly {
    /// Number of attempts.
    pub calls: u32,
    /// Number of attempts that moved a task.
    pub successes: u32,
    /// When the ratio was last computed.
    pub reckoned: Ns,
    /// In this many of 1024 cases, balancing is attempted.
    pub ratio: u32,
}

impl Default for Newly {
    /// As in `sd_init()`, except for the ratio: the simulated machine is assumed to have been
    /// running for a while, with few attempts.
    fn default() -> Self {
        Self { calls: 512, successes: 256, reckoned: 0, ratio: 1024 }
    }
}

/// `struct sched_avg`: load tracking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedAvg {
    /// Time up to which the load is accounted. 0: the entity belongs to no queue.
    pub updated: Ns,
    /// Microseconds of the current period.
    pub period_contrib: u64,
    /// Sum for `load_avg`. The averages are computed from these sums.
    pub load_sum: u64,
    /// Sum of the time in a queue or running.
    pub runnable_sum: u64,
    /// Sum of the time running.
    pub util_sum: u64,
    /// Average of the weight, counted only while the entity is runnable.
    pub load_avg: u64,
    /// Average of the runnable time. 1024: always in a queue or running.
    pub runnable_avg: u64,
    /// Average of the running time. 1024: always running.
    pub util_avg: u64,
}

/// `struct sched_entity`: a task, or a group on a CPU.
#[derive(Clone, Debug, Default)]
pub struct SchedEntity {
    /// Weight within its queue; nice 0 is 1024 * 1024 (`se->load`).
    pub weight: u64,
    /// Only for tasks: weight among all tasks of the CPU, which depends on the shares of the groups
    /// (`se->h_load`).
    pub h_weight: u64,
    /// The queue in which the entity is or will be.
    pub queue: QueueId,
    /// Only for groups: the group's own queue.
    pub owned: Option<QueueId>,
    /// Only for tasks: the task.
    pub task: Option<TaskId>,
    /// Whether the entity is SCHED_IDLE, or a group with `cpu.idle`.
    pub idle: bool,
    /// Whether the entity is in a queue, running or not.
    pub on_rq: bool,
    /// Only for tasks, like all fields up to `key`. Whether the task is no longer runnable, but
    /// stays in the queue until its lag is gone.
    pub delayed: bool,
    /// Whether the deadline is relative to vruntime.
    pub rel_deadline: bool,
    /// Virtual running time.
    pub vruntime: i64,
    /// The end of the task's current request.
    pub deadline: i64,
    /// Virtual time that the task was owed when it left its queue.
    pub vlag: i64,
    /// While the task runs, no other task is picked before this virtual time.
    pub protected_until: i64,
    /// Key of the task in the CPU's tree. `None`: the task runs, or is in no queue.
    pub key: Option<(i64, u64)>,
    /// Whether the task must leave its queue when it returns to user mode, if the queue is still
    /// throttled (`sched_throttle_work`).
    pub throttle_work: bool,
    /// Whether the task has left its queue in this way, and waits in limbo (`p->throttled`).
    pub throttled: bool,
    /// When the task last came back from limbo.
    pub released_at: Ns,
    /// Only for groups: number of runnable tasks when the average was last updated.
    pub runnable: u64,
    /// Time up to which running is accounted, in the CPU's clock_task.
    pub exec_start: Ns,
    /// Key of the entity in [`Fair::lists`].
    pub stamp: u64,
    /// Load tracking.
    pub avg: SchedAvg,
}

/// `struct cfs_rq`: a group's entities on a CPU.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    /// The group.
    pub group: usize,
    /// The CPU.
    pub cpu: usize,
    /// The group's entity; `None`: the root group.
    pub entity: Option<EntityId>,
    /// The entity that runs, or that contains the running task (`h_curr`).
    pub h_curr: Option<EntityId>,
    /// Sum of the weights of its entities.
    pub weight: u64,
    /// Number of entities, including the running one.
    pub nr_queued: u32,
    /// Number of tasks in the queue and below it, without those in limbo.
    pub h_nr_queued: u32,
    /// Number of these tasks that are runnable.
    pub h_nr_runnable: u32,
    /// Number of these tasks that are SCHED_IDLE, or in groups with `cpu.idle`.
    pub h_nr_idle: u32,
    /// Load tracking.
    pub avg: SchedAvg,
    /// Whether the load of the queue has changed because an entity was added or removed. The load
    /// of the group's entity must then be updated.
    pub propagate: bool,
    /// The change of the runnable sum that must be propagated.
    pub prop_runnable_sum: i64,
    /// The queue's part of [`TaskGroup::load_avg`].
    pub tg_contrib: u64,
    /// The queue's part of [`TaskGroup::runnable_avg`].
    pub tg_runnable: u64,
    /// When these parts were last updated.
    pub tg_updated: Ns,
    /// The queue's share of the CPU's load.
    pub h_load: u64,
    /// The tick in which `h_load` was computed.
    pub h_load_at: Option<Ns>,
    /// Whether the CPU is offline.
    pub offline: bool,
    /// Whether the group has a quota.
    pub limited: bool,
    /// The rest of the runtime that the queue has taken from the group's pool.
    pub runtime_ns: i64,
    /// Whether the queue is throttled.
    pub throttled: bool,
    /// Number of throttled queues among this one and its ancestors.
    pub throttle_count: u32,
    /// Tasks that left the queue because it was throttled, the latest one first
    /// (`throttled_limbo_list`).
    pub limbo: VecDeque<TaskId>,
    /// Whether clock_pelt is stopped because the queue is throttled and empty
    /// (`pelt_clock_throttled`).
    pub stopped: bool,
    /// Value of clock_pelt when it was stopped.
    pub stopped_at: Ns,
    /// Total time for which clock_pelt was stopped.
    pub stopped_ns: Ns,
}

/// The tasks of a CPU in the order in which they are picked. The kernel keeps this state in the
/// root `struct cfs_rq`.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// The running task (`rq->cfs.curr`). It is not in the tree.
    pub curr: Option<EntityId>,
    /// The task to which a running task has yielded (`cfs_rq->next`).
    pub buddy: Option<EntityId>,
    /// The other tasks of all groups, ordered by deadline. Tasks with the same deadline are in the
    /// order of their insertion.
    pub tree: BTreeMap<(i64, u64), EntityId>,
    /// The last number that was given to a task in the tree.
    pub made: u64,
    /// Sum over the tree of (vruntime - zero_vruntime) * weight.
    pub sum_w_vruntime: i128,
    /// Sum of the weights in the tree.
    pub sum_weight: i128,
    /// The value with which vruntimes are compared. It is close to their average.
    pub zero_vruntime: i64,
    /// The value of `zero_vruntime` when CPUs of the core were first forced idle
    /// (`zero_vruntime_fi`).
    pub kept_idle_vruntime: i64,
    /// The number of this forced idle time ([`super::Kernel::kept_idle`]).
    pub kept_idle: Option<u32>,
    /// When the timer that ends the current slice fires (`rq->hrtick_timer`).
    pub hrtick_at: Option<Ns>,
    /// Number of the last such timer.
    pub hrtick_seq: u32,
}

/// `struct cfs_bandwidth`: the pool of runtime of a group.
#[derive(Clone, Debug, Default)]
pub struct Bandwidth {
    /// Running time per period; `None`: no limit.
    pub quota_ns: Option<i64>,
    /// Length of a period.
    pub period_ns: Ns,
    /// How much unused runtime may accumulate beyond the quota.
    pub burst_ns: i64,
    /// The rest of the runtime in the current period.
    pub pool_ns: i64,
    /// Whether the timer of periods runs.
    pub active: bool,
    /// Whether no queue was throttled at the end of the last period.
    pub idle: bool,
    /// Number of the last timer.
    pub seq: u32,
    /// When the timer fires, or when it last fired.
    pub expires: Ns,
    /// Whether the timer that returns slack runs.
    pub slack_started: bool,
    /// Throttled queues.
    pub throttled: VecDeque<QueueId>,
}

/// `struct task_group`.
#[derive(Clone, Debug, Default)]
pub struct TaskGroup {
    /// The parent. The root group is its own parent.
    pub parent: usize,
    /// Its children.
    pub children: Vec<usize>,
    /// Weight; `cpu.weight` 100 is 1024 * 1024.
    pub shares: u64,
    /// `cpu.idle`.
    pub idle: bool,
    /// Sum of the loads of all queues of the group.
    pub load_avg: u64,
    /// Sum of the runnable averages of all queues. A task that is always runnable adds 1024.
    pub runnable_avg: u64,
    /// Quota.
    pub bandwidth: Bandwidth,
}

/// A level of `struct sched_domain`. It is the same for all CPUs, because all parts of a machine
/// have the same size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Domain {
    /// Number of CPUs in a domain.
    pub len: usize,
    /// Number of CPUs in each group of the domain, which is a domain of the level below.
    pub group_len: usize,
    /// Whether the CPUs are threads of a core (SD_SHARE_CPUCAPACITY).
    pub shares_core: bool,
    /// Whether the CPUs share the last-level cache (SD_SHARE_LLC).
    pub shares_cache: bool,
    /// Whether the domain has several nodes (SD_NUMA).
    pub numa: bool,
    /// Number of tasks on a node up to which a small imbalance between nodes is allowed
    /// (`imb_numa_nr`).
    pub numa_tasks: u64,
}

/// The clocks of a run queue, when they were last read.
#[derive(Clone, Copy, Debug, Default)]
pub struct RqClock {
    /// rq_clock().
    pub now: Ns,
    /// rq_clock_task().
    pub task: Ns,
    /// rq_clock_pelt().
    pub pelt: Ns,
}

/// The state of the machine.
#[derive(Default)]
pub struct Fair {
    /// Number of CPUs.
    pub cpus: usize,
    /// Number of CPUs that are online (`num_online_cpus()`).
    pub online: u64,
    /// `sysctl_sched_base_slice`.
    pub slice_ns: i64,
    /// Time between two ticks.
    pub tick_ns: Ns,
    /// Entities.
    pub entities: Vec<SchedEntity>,
    /// Queues.
    pub queues: Vec<Queue>,
    /// Tasks in picking order, by CPU.
    pub timelines: Vec<Timeline>,
    /// Groups.
    pub groups: Vec<TaskGroup>,
    /// Clocks of the run queues, by CPU.
    pub clocks: Vec<RqClock>,
    /// For each CPU, its tasks. The task that came or ran last has the largest key
    /// (`rq->cfs_tasks`).
    pub lists: Vec<BTreeMap<u64, TaskId>>,
    /// The last key that was given.
    pub stamps: u64,
    /// CPUs that must select a task anew. The kernel tells them after the model returns.
    pub resched: Vec<usize>,
    /// Events that the kernel must make after the model returns.
    pub due: Vec<(Ns, Event)>,
    /// Idle CPUs that are online.
    pub idle_cpus: CpuSet,
    /// CPUs with tasks that are SCHED_IDLE or in groups with `cpu.idle`.
    pub idle_queued: CpuSet,
    /// CPUs with more than one runnable task.
    pub overloaded: CpuSet,
    /// When the domains of idle CPUs must next be balanced.
    pub nohz_next_balance: Ns,
    /// Whether other CPUs have become idle since that time was computed (`nohz.needs_update`).
    pub nohz_needs_update: bool,
    /// The levels of domains, the smallest first.
    pub domains: Vec<Domain>,
    /// CPUs whose running task must move to another CPU, which is idle until then.
    pub active_balance: Vec<(usize, usize)>,
    /// For each level and group of CPUs, whether affinity has hindered balancing in the level below
    /// (`sgc->imbalance`).
    pub hindered: Vec<Vec<bool>>,
}
