// SPDX-License-Identifier: GPL-2.0-only
//! What the fair class keeps of tasks, CPUs and for the machine; what happens to it: crate::fair.

use std::collections::{BTreeMap, VecDeque};

use super::Event;
use crate::{bpf::TaskId, machine::CpuSet, time::Ns};

/// Index into [`Fair::entities`]: groups' entities first, one per group and CPU, then those of tasks.
pub type EntityId = usize;
/// Index into [`Fair::queues`]: group number times CPUs, plus the CPU. A group's entity on a CPU has the same index.
pub type QueueId = usize;

/// A task's part beside its [`SchedEntity`]: what the choice of a CPU remembers.
#[derive(Clone, Debug, Default)]
pub struct Entity {
    /// CPU where it ran before the last one.
    pub recent_used_cpu: Option<usize>,
    /// Whom it woke last.
    pub last_wakee: Option<TaskId>,
    /// How often it changed whom it wakes, halved every second.
    pub wakee_flips: u32,
    /// When they were halved last.
    pub flips_halved_at: Ns,
}

/// A CPU's part: balancing.
#[derive(Default)]
pub struct FairRq {
    /// Per domain, the smallest first.
    pub levels: Vec<Level>,
    /// When the first of its domains is due.
    pub next_balance: Ns,
    /// How long it has been idle on average, at most twice the cost of a migration.
    pub avg_idle_ns: Ns,
}

/// A CPU's state of one of its domains.
#[derive(Clone, Debug, Default)]
pub struct Level {
    /// When it was balanced last.
    pub last_balance: Ns,
    /// From one time to the next, in milliseconds.
    pub interval_ms: u64,
    /// How often in a row nothing could be moved.
    pub failed: u32,
    /// How newly idle balancing has fared.
    pub newly: Newly,
}

/// `sd->newidle_*`: of how many attempts of newly idle balancing something came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Newly {
    /// Attempts.
    pub calls: u32,
    /// Those of which something came.
    pub successes: u32,
    /// When that was reckoned last.
    pub reckoned: Ns,
    /// What came out: in so many of 1024 cases it is attempted.
    pub ratio: u32,
}

impl Default for Newly {
    /// As in `sd_init()`, but for the ratio: the machine has been up for a while, and its attempts were seldom.
    fn default() -> Self {
        Self { calls: 512, successes: 256, reckoned: 0, ratio: 1024 }
    }
}

/// `struct sched_avg`: load tracking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedAvg {
    /// Until when time is accounted; 0: it belongs to no queue.
    pub updated: Ns,
    /// Microseconds of the period that has begun.
    pub period_contrib: u64,
    /// Sums that the averages are made of.
    pub load_sum: u64,
    /// In queue or running.
    pub runnable_sum: u64,
    /// Running.
    pub util_sum: u64,
    /// Weight while it wants to run.
    pub load_avg: u64,
    /// 1024: always in queue or running.
    pub runnable_avg: u64,
    /// 1024: always running.
    pub util_avg: u64,
}

/// `struct sched_entity`: a task, or a group on a CPU.
#[derive(Clone, Debug, Default)]
pub struct SchedEntity {
    /// Weight among those of its queue, 1024 * 1024 for nice 0 (`se->load`).
    pub weight: u64,
    /// Of a task: weight among all tasks of its CPU, by its groups' shares (`se->h_load`).
    pub h_weight: u64,
    /// Queue where it is, or will be.
    pub queue: QueueId,
    /// Of a group: its own queue.
    pub owned: Option<QueueId>,
    /// Of a task.
    pub task: Option<TaskId>,
    /// SCHED_IDLE, or a group with `cpu.idle`.
    pub idle: bool,
    /// In a queue, running or not.
    pub on_rq: bool,
    /// Of a task, as all up to `key`: it does not want to run any more, and stays until its lag is gone.
    pub delayed: bool,
    /// Its deadline is relative to its vruntime.
    pub rel_deadline: bool,
    /// Virtual time that it has run.
    pub vruntime: i64,
    /// End of its request.
    pub deadline: i64,
    /// Virtual time that it was owed when it left its queue.
    pub vlag: i64,
    /// While it runs: until then nobody else is picked.
    pub protected_until: i64,
    /// Its key in the CPU's tree; `None`: it runs, or is in no queue.
    pub key: Option<(i64, u64)>,
    /// It is to leave its queue when it returns to user mode, if that is throttled then (`sched_throttle_work`).
    pub throttle_work: bool,
    /// It has left it so (`p->throttled`), and waits in limbo.
    pub throttled: bool,
    /// When it came back from there last.
    pub released_at: Ns,
    /// Of a group: runnable tasks when its average was updated last.
    pub runnable: u64,
    /// Until when its running is accounted, in the CPU's clock_task.
    pub exec_start: Ns,
    /// Its key in [`Fair::lists`].
    pub stamp: u64,
    /// Load.
    pub avg: SchedAvg,
}

/// `struct cfs_rq`: a group's entities on a CPU.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    /// Its group.
    pub group: usize,
    /// Its CPU.
    pub cpu: usize,
    /// The group's entity; `None`: the root group.
    pub entity: Option<EntityId>,
    /// The one that runs, or holds the task that runs (`h_curr`).
    pub h_curr: Option<EntityId>,
    /// Sum of weights.
    pub weight: u64,
    /// Entities, the one that runs included.
    pub nr_queued: u32,
    /// Tasks below, those in limbo not counted.
    pub h_nr_queued: u32,
    /// Those of them that want to run.
    pub h_nr_runnable: u32,
    /// Those of them that are SCHED_IDLE, or in groups with `cpu.idle`.
    pub h_nr_idle: u32,
    /// Load.
    pub avg: SchedAvg,
    /// Its load has changed by something that came or went: the group's entity is to follow.
    pub propagate: bool,
    /// By how much.
    pub prop_runnable_sum: i64,
    /// Its part of [`TaskGroup::load_avg`].
    pub tg_contrib: u64,
    /// Its part of [`TaskGroup::runnable_avg`].
    pub tg_runnable: u64,
    /// When these were given last.
    pub tg_updated: Ns,
    /// Its share of the CPU's load.
    pub h_load: u64,
    /// The tick of which `h_load` is.
    pub h_load_at: Option<Ns>,
    /// Its CPU is gone.
    pub offline: bool,
    /// It has a quota.
    pub limited: bool,
    /// Running time left of what it took from the group's pool.
    pub runtime_ns: i64,
    /// It waits for the pool.
    pub throttled: bool,
    /// How many of it and its ancestors do.
    pub throttle_count: u32,
    /// Tasks that have left it as it was throttled: who came last is the first (`throttled_limbo_list`).
    pub limbo: VecDeque<TaskId>,
    /// Its clock_pelt stands: it is throttled and empty (`pelt_clock_throttled`).
    pub stopped: bool,
    /// clock_pelt when it stopped.
    pub stopped_at: Ns,
    /// clock_pelt that passed meanwhile, all in all.
    pub stopped_ns: Ns,
}

/// A CPU's tasks in the order in which they are picked: what `struct cfs_rq` has for the root group only.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// The task that runs (`rq->cfs.curr`). It is not in the tree.
    pub curr: Option<EntityId>,
    /// Who was called by a task that yields (`cfs_rq->next`).
    pub buddy: Option<EntityId>,
    /// The others, of whatever group, by deadline; those of one deadline in the order of their coming.
    pub tree: BTreeMap<(i64, u64), EntityId>,
    /// Last number given to a task of the tree.
    pub made: u64,
    /// Sum over the tree of (vruntime - zero_vruntime) * weight.
    pub sum_w_vruntime: i128,
    /// Sum of the tree's weights.
    pub sum_weight: i128,
    /// What vruntimes are compared with: about their average.
    pub zero_vruntime: i64,
    /// The same when CPUs of the core began to be kept idle (`zero_vruntime_fi`).
    pub kept_idle_vruntime: i64,
    /// Which time that was ([`super::Kernel::kept_idle`]).
    pub kept_idle: Option<u32>,
    /// When the timer that ends the present slice fires (`rq->hrtick_timer`).
    pub hrtick_at: Option<Ns>,
    /// The last such timer's number.
    pub hrtick_seq: u32,
}

/// `struct cfs_bandwidth`: a group's pool of running time.
#[derive(Clone, Debug, Default)]
pub struct Bandwidth {
    /// Running time per period; `None`: no limit.
    pub quota_ns: Option<i64>,
    /// Length of a period.
    pub period_ns: Ns,
    /// What may be saved up beyond the quota.
    pub burst_ns: i64,
    /// What is left of this period.
    pub pool_ns: i64,
    /// The timer of periods runs.
    pub active: bool,
    /// Nobody was throttled at the end of the last period.
    pub idle: bool,
    /// The last timer's number.
    pub seq: u32,
    /// When it fires, or fired last.
    pub expires: Ns,
    /// A timer for slack runs.
    pub slack_started: bool,
    /// Queues that wait.
    pub throttled: VecDeque<QueueId>,
}

/// `struct task_group`.
#[derive(Clone, Debug, Default)]
pub struct TaskGroup {
    /// Its parent; the root group is its own.
    pub parent: usize,
    /// Its children.
    pub children: Vec<usize>,
    /// Weight, 1024 * 1024 for `cpu.weight` 100.
    pub shares: u64,
    /// `cpu.idle`.
    pub idle: bool,
    /// Load of all its queues.
    pub load_avg: u64,
    /// 1024 for each task that is always runnable, likewise.
    pub runnable_avg: u64,
    /// Quota.
    pub bandwidth: Bandwidth,
}

/// A level of `struct sched_domain`: the same for all CPUs, as machines are even.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Domain {
    /// CPUs of a domain.
    pub len: usize,
    /// CPUs of each of its groups: the level below.
    pub group_len: usize,
    /// Threads of a core (SD_SHARE_CPUCAPACITY).
    pub shares_core: bool,
    /// One last cache (SD_SHARE_LLC).
    pub shares_cache: bool,
    /// Several nodes (SD_NUMA).
    pub numa: bool,
    /// Tasks of a node up to which a small imbalance between nodes is allowed (`imb_numa_nr`).
    pub numa_tasks: u64,
}

/// A run queue's clocks, as of the last look.
#[derive(Clone, Copy, Debug, Default)]
pub struct RqClock {
    /// rq_clock().
    pub now: Ns,
    /// rq_clock_task().
    pub task: Ns,
    /// rq_clock_pelt().
    pub pelt: Ns,
}

/// The machine's part.
#[derive(Default)]
pub struct Fair {
    /// CPUs.
    pub cpus: usize,
    /// Those of them that are there (`num_online_cpus()`).
    pub online: u64,
    /// `sysctl_sched_base_slice`.
    pub slice_ns: i64,
    /// From tick to tick.
    pub tick_ns: Ns,
    /// Entities.
    pub entities: Vec<SchedEntity>,
    /// Queues.
    pub queues: Vec<Queue>,
    /// By CPU.
    pub timelines: Vec<Timeline>,
    /// Groups.
    pub groups: Vec<TaskGroup>,
    /// By CPU.
    pub clocks: Vec<RqClock>,
    /// Per CPU, its tasks: who came or ran last has the largest key (`rq->cfs_tasks`).
    pub lists: Vec<BTreeMap<u64, TaskId>>,
    /// Last key given.
    pub stamps: u64,
    /// CPUs that are to look who runs next, once the kernel is at hand.
    pub resched: Vec<usize>,
    /// Events to be made, likewise.
    pub due: Vec<(Ns, Event)>,
    /// Idle CPUs that are there.
    pub idle_cpus: CpuSet,
    /// CPUs with tasks that are SCHED_IDLE or in groups with `cpu.idle`.
    pub idle_queued: CpuSet,
    /// CPUs with more than one runnable task.
    pub overloaded: CpuSet,
    /// When an idle CPU's domains are due.
    pub nohz_next_balance: Ns,
    /// Others have become idle since that was reckoned (`nohz.needs_update`).
    pub nohz_needs_update: bool,
    /// Levels, the smallest first.
    pub domains: Vec<Domain>,
    /// CPUs whose task is to move to another one, idle until then.
    pub active_balance: Vec<(usize, usize)>,
    /// Per level and group of CPUs: balancing below it was hindered by affinity (`sgc->imbalance`).
    pub hindered: Vec<Vec<bool>>,
}
