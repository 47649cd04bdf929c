// SPDX-License-Identifier: GPL-2.0-only
//! The content of a file in the simulator's text format (docs/design/0008-simulator.md), as plain,
//! checked values. This module does not depend on the simulated kernel.

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

/// The length of a phase that never ends by itself.
pub const FOREVER: Ns = u64::MAX / 4;

/// Version of the kernel. It decides which functions of sched_ext exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelVersion {
    /// The oldest kernel with sched_ext.
    V6_12,
    /// The newest kernel that the lab runs.
    V7_3,
}

/// The scheduler of ordinary tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// paracord's scheduler, `bpf/ext.bpf.c`.
    Ext,
    /// The model of the kernel's own scheduler.
    Stock,
}

/// `cpu.max` and `cpu.max.burst`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Running time per period, on all CPUs together.
    pub quota_ns: Ns,
    /// Length of a period, 1 ms to 1 s.
    pub period_ns: Ns,
    /// Unused quota that may accumulate, at most `quota_ns`.
    pub burst_ns: Ns,
}

/// A control group with the cpu controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Full path, for example `web/a`.
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

/// A length of time. If the two ends differ, a random length between them (inclusive) is drawn each
/// time.
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
    /// Computes for this long on a CPU of full speed.
    Run(Span),
    /// Sleeps on a timer.
    Sleep(Span),
    /// Sleeps until the next multiple of this time since the task's start.
    Period(Ns),
    /// Adds one to a queue and wakes a task that waits there. `sync`: the waker is about to sleep.
    Post {
        /// Index into [`Mix::queues`].
        queue: usize,
        /// WF_SYNC.
        sync: bool,
    },
    /// Takes one from a queue, or sleeps until there is one.
    Wait(usize),
    /// Takes one from a queue, or computes until the queue has one. While it computes, it
    /// repeatedly yields its CPU to a task that waits for a CPU. A vCPU that waits for another vCPU
    /// of its VM behaves in this way (`kvm_vcpu_on_spin()`).
    Spin {
        /// Index into [`Mix::queues`].
        queue: usize,
        /// The kind of task to yield to: index into [`Mix::tasks`].
        to: usize,
    },
    /// Takes a mutex, or sleeps until the mutex is handed over. Index into [`Mix::locks`].
    Lock(usize),
    /// Releases a mutex, or hands it over to the task that has waited longest.
    Unlock(usize),
    /// Starts a new task of a template. Index into [`Mix::tasks`].
    Fork(usize),
    /// sched_yield().
    Yield,
    /// Ends the task.
    Exit,
    /// Moves the task itself to a group; `None`: the root group.
    MoveTo(Option<usize>),
}

/// Tasks of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Name in reports. If there are several tasks, their names are `name.0`, `name.1`, …
    pub name: String,
    /// Number of tasks, at least 1.
    pub count: u32,
    /// Index into [`Mix::groups`]; `None`: the root group.
    pub group: Option<usize>,
    /// Scheduling policy.
    pub policy: Policy,
    /// -20..=19.
    pub nice: i8,
    /// Cookie for core scheduling: tasks with different cookies do not share a core
    /// (`PR_SCHED_CORE`). 0: none.
    pub cookie: u32,
    /// CPUs that the task may use; `None`: all.
    pub cpus: Option<CpuSet>,
    /// When it begins.
    pub start_ns: Ns,
    /// The task begins only when another task forks it.
    pub template: bool,
    /// Phases, at least one.
    pub phases: Vec<Phase>,
}

/// What runs inside a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guest {
    /// Every vCPU computes all the time.
    Spin,
    /// Every vCPU sleeps.
    Idle,
    /// Every vCPU is woken by a timer, computes as a real-time task, and sleeps.
    Periodic {
        /// Time from one wakeup to the next.
        period_ns: Ns,
        /// Computing time after each wakeup.
        busy_ns: Ns,
    },
    /// Every vCPU computes all the time, and sets every hint that it is urgent.
    Hold,
}

/// VMs of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vm {
    /// Name in reports.
    pub name: String,
    /// Number of VMs, at least 1.
    pub count: u32,
    /// vCPUs of each VM, at least 1.
    pub vcpus: u32,
    /// Index into [`Mix::groups`]; `None`: the root group.
    pub group: Option<usize>,
    /// CPUs that the vCPUs may use; `None`: all.
    pub cpus: Option<CpuSet>,
    /// VM exits per second of a vCPU's running time.
    pub exits_per_s: u32,
    /// What the guest does.
    pub guest: Guest,
}

/// Interrupts, which take time of a CPU whatever it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Irq {
    /// The CPU.
    pub cpu: usize,
    /// Time from one interrupt to the next.
    pub every_ns: Ns,
    /// Duration of each interrupt.
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
    /// Nice value of all tasks of a kind.
    TaskNice(usize, i8),
    /// Policy of all tasks of a kind.
    TaskPolicy(usize, Policy),
    /// Affinity of all tasks of a kind.
    TaskCpus(usize, CpuSet),
    /// Group of all tasks of a kind.
    TaskGroup(usize, Option<usize>),
    /// A CPU goes offline.
    Offline(usize),
    /// A CPU comes online.
    Online(usize),
}

/// A change and its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timed {
    /// When the change happens.
    pub at_ns: Ns,
    /// The change.
    pub change: Change,
}

/// The content of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mix {
    /// The machine.
    pub machine: Machine,
    /// Its kernel.
    pub kernel: KernelVersion,
    /// The scheduler.
    pub scheduler: Scheduler,
    /// The seed of all random numbers.
    pub seed: u64,
    /// Length of the run.
    pub run_ns: Ns,
    /// Length of the warm-up. Shares are measured after it.
    pub warmup_ns: Ns,
    /// Groups. Parents come before their children.
    pub groups: Vec<Group>,
    /// Names of queues: counters with which tasks wake each other.
    pub queues: Vec<String>,
    /// Names of mutexes.
    pub locks: Vec<String>,
    /// Tasks.
    pub tasks: Vec<Task>,
    /// VMs.
    pub vms: Vec<Vm>,
    /// Interrupts.
    pub irqs: Vec<Irq>,
    /// Changes, ordered by time.
    pub changes: Vec<Timed>,
}

impl Mix {
    /// The path of a group; `/` for the root group.
    #[must_use]
    pub fn group_path(&self, group: Option<usize>) -> &str {
        group.map_or("/", |index| &self.groups[index].path)
    }
}
