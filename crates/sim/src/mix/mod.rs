// SPDX-License-Identifier: GPL-2.0-only
//! What a file of the simulator's text format says (docs/design/0008-simulator.md): plain, checked values.
//! Nothing here knows the kernel that runs them.

mod attributes;
mod changes;
mod check;
mod declare;
mod error;
mod forks;
mod limits;
mod lines;
mod names;
mod parse;
mod phases;
mod programs;
pub mod random;
mod remove;
pub mod shrink;
mod value;
mod write;

pub use error::{Flaw, MixError, Part};
pub use limits::{GROUPS_MAX, LINE_MAX_BYTES, RUN_MAX_NS, TASKS_MAX, VCPUS_MAX};
pub use parse::{load, parse_bytes};

pub use crate::time::Ns;

use crate::machine::{CpuSet, Machine};

/// A phase that never ends by itself.
pub const FOREVER: Ns = u64::MAX / 4;

/// Which kernel the scheduler finds: which functions of sched_ext exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelVersion {
    /// The oldest with sched_ext.
    V6_12,
    /// The newest that the lab runs.
    V7_3,
}

/// Who schedules ordinary tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// paracord's, `bpf/ext.bpf.c`.
    Ext,
    /// The model of the kernel's own.
    Stock,
}

/// `cpu.max` and `cpu.max.burst`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Running time per period, all CPUs together.
    pub quota_ns: Ns,
    /// 1 ms to 1 s.
    pub period_ns: Ns,
    /// Unused quota that may be saved up, at most `quota_ns`.
    pub burst_ns: Ns,
}

/// A control group with the cpu controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Full path, `web/a`.
    pub path: String,
    /// Index of the parent; `None`: the root group.
    pub parent: Option<usize>,
    /// `cpu.weight`, 1..=10000.
    pub weight: u32,
    /// `cpu.max`.
    pub quota: Option<Quota>,
    /// `cpu.idle`.
    pub idle: bool,
}

/// Scheduling policy of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// SCHED_OTHER.
    Other,
    /// SCHED_BATCH.
    Batch,
    /// SCHED_IDLE.
    Idle,
    /// SCHED_FIFO with a priority of 1..=99.
    Fifo(u8),
    /// SCHED_RR with a priority of 1..=99.
    Rr(u8),
}

/// A length of time, drawn anew each time between both ends (inclusive).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Shortest.
    pub min_ns: Ns,
    /// Longest.
    pub max_ns: Ns,
}

/// One phase of a task. A task repeats its phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Computes for that long at full speed.
    Run(Span),
    /// Sleeps on a timer.
    Sleep(Span),
    /// Sleeps until the next multiple of this since the task's start.
    Period(Ns),
    /// Adds one to a queue and wakes who waits there; `sync`: and is about to sleep.
    Post {
        /// Index into [`Mix::queues`].
        queue: usize,
        /// WF_SYNC.
        sync: bool,
    },
    /// Takes one from a queue, or sleeps until there is one.
    Wait(usize),
    /// Takes one from a queue, or computes until there is one and gives its CPU, every now and then, to a task that waits
    /// for one: as a vCPU does that waits for another one of its VM (`kvm_vcpu_on_spin()`).
    Spin {
        /// Index into [`Mix::queues`].
        queue: usize,
        /// The task's kind: index into [`Mix::tasks`].
        to: usize,
    },
    /// Takes a mutex, or sleeps until it is given it. Index into [`Mix::locks`].
    Lock(usize),
    /// Gives a mutex to who waited longest.
    Unlock(usize),
    /// Starts another task of a template. Index into [`Mix::tasks`].
    Fork(usize),
    /// sched_yield().
    Yield,
    /// Ends.
    Exit,
    /// Moves itself to a group; `None`: the root group.
    MoveTo(Option<usize>),
}

/// Tasks of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Name in reports; of several, `name.0`, `name.1`, …
    pub name: String,
    /// How many, at least 1.
    pub count: u32,
    /// Index into [`Mix::groups`]; `None`: the root group.
    pub group: Option<usize>,
    /// Policy.
    pub policy: Policy,
    /// -20..=19.
    pub nice: i8,
    /// For core scheduling: tasks of different ones share no core (`PR_SCHED_CORE`); 0: none.
    pub cookie: u32,
    /// Where it may run; `None`: everywhere.
    pub cpus: Option<CpuSet>,
    /// When it begins.
    pub start_ns: Ns,
    /// It begins only where another task forks it.
    pub template: bool,
    /// At least one.
    pub phases: Vec<Phase>,
}

/// What runs inside a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guest {
    /// Every vCPU computes without end.
    Spin,
    /// Every vCPU sleeps.
    Idle,
    /// Every vCPU wakes by a timer, computes as a real-time task, and sleeps.
    Periodic {
        /// From wakeup to wakeup.
        period_ns: Ns,
        /// Computing time of each.
        busy_ns: Ns,
    },
    /// Computes without end and says that it is urgent in every way that there is.
    Hold,
}

/// VMs of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vm {
    /// Name in reports.
    pub name: String,
    /// How many, at least 1.
    pub count: u32,
    /// vCPUs of each, at least 1.
    pub vcpus: u32,
    /// Index into [`Mix::groups`]; `None`: the root group.
    pub group: Option<usize>,
    /// Where its vCPUs may run; `None`: everywhere.
    pub cpus: Option<CpuSet>,
    /// VM exits per second of a vCPU's running time.
    pub exits_per_s: u32,
    /// What its guest does.
    pub guest: Guest,
}

/// Interrupts that take a CPU from whatever runs there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Irq {
    /// Which CPU.
    pub cpu: usize,
    /// From one to the next.
    pub every_ns: Ns,
    /// How long each takes.
    pub for_ns: Ns,
}

/// A change while the mix runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// `cpu.weight`.
    GroupWeight(usize, u32),
    /// `cpu.max`; `None`: no limit.
    GroupQuota(usize, Option<Quota>),
    /// `cpu.idle`.
    GroupIdle(usize, bool),
    /// nice of all tasks of a kind.
    TaskNice(usize, i8),
    /// Policy of all tasks of a kind.
    TaskPolicy(usize, Policy),
    /// Affinity of all tasks of a kind.
    TaskCpus(usize, CpuSet),
    /// Group of all tasks of a kind.
    TaskGroup(usize, Option<usize>),
    /// A CPU goes.
    Offline(usize),
    /// A CPU comes back.
    Online(usize),
}

/// A change and its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timed {
    /// When.
    pub at_ns: Ns,
    /// What.
    pub change: Change,
}

/// Everything that a file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mix {
    /// The machine.
    pub machine: Machine,
    /// Its kernel.
    pub kernel: KernelVersion,
    /// Who schedules.
    pub scheduler: Scheduler,
    /// All that is drawn is drawn from it.
    pub seed: u64,
    /// How long it runs.
    pub run_ns: Ns,
    /// Shares are measured from then on.
    pub warmup_ns: Ns,
    /// Parents before their children.
    pub groups: Vec<Group>,
    /// Names of counters that tasks wake each other with.
    pub queues: Vec<String>,
    /// Names of mutexes.
    pub locks: Vec<String>,
    /// Tasks.
    pub tasks: Vec<Task>,
    /// VMs.
    pub vms: Vec<Vm>,
    /// Interrupts.
    pub irqs: Vec<Irq>,
    /// Changes, by time.
    pub changes: Vec<Timed>,
}

impl Mix {
    /// A group's path; `/` for the root group.
    #[must_use]
    pub fn group_path(&self, group: Option<usize>) -> &str {
        group.map_or("/", |index| &self.groups[index].path)
    }
}
