// SPDX-License-Identifier: GPL-2.0-only
//! A task of the simulated kernel.

use std::rc::Rc;

use super::{ext_state, fair_state, vcpu::Vcpu};
use crate::{
    bpf::{GroupId, TaskId},
    machine::CpuSet,
    mix::{Phase, Policy},
    time::Ns,
};

/// Work that a CPU of full capacity does per nanosecond. A CPU does `capacity` units of work per
/// nanosecond.
pub const WORK_PER_NS: u64 = 1024;

/// The state of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The task runs or is runnable.
    Runnable,
    /// The task waits for something.
    Sleeping,
    /// The task has ended.
    Dead,
}

/// Scheduling classes, the lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// The CPU's idle task.
    Idle,
    /// Ordinary tasks: fair or ext.
    Normal,
    /// Real-time tasks.
    Rt,
}

/// What a report says about a task.
#[derive(Clone, Copy, Debug, Default)]
pub struct Account {
    /// CPU time.
    pub ran_ns: Ns,
    /// Longest wait in a run queue.
    pub longest_wait_ns: Ns,
    /// How often the task was put on a CPU.
    pub switches: u64,
    /// How often the task came from another CPU.
    pub migrations: u64,
}

/// What a task does.
pub enum Program {
    /// Nothing. This is the idle task of a CPU.
    Idle,
    /// Phases, again and again.
    Phases {
        /// The phases.
        phases: Rc<[Phase]>,
        /// Index of the next phase.
        next: usize,
    },
    /// A vCPU's guest.
    Guest(Vcpu),
}

/// A task.
pub struct Task {
    /// Index of the task's kind in the mix: in the list of VMs if its program is a guest, otherwise
    /// in the list of tasks.
    pub kind: usize,
    /// Name in reports.
    pub name: Rc<str>,
    /// State of the task.
    pub state: State,
    /// Scheduling policy.
    pub policy: Policy,
    /// Nice value, -20..=19.
    pub nice: i8,
    /// [`crate::mix::Task::cookie`].
    pub cookie: u32,
    /// CPUs that the task may use.
    pub cpus: CpuSet,
    /// Its group.
    pub group: GroupId,
    /// CPU on which the task runs or waits, or on which it last ran.
    pub cpu: usize,
    /// Whether the task is in its CPU's run queue, running or not.
    pub on_rq: bool,
    /// What the task does.
    pub program: Program,
    /// Work left in the current phase.
    pub work: u64,
    /// When it began.
    pub start_ns: Ns,
    /// The parent, and its process ID.
    pub parent: Option<(TaskId, i32)>,
    /// Timers with another number were cancelled.
    pub timer_seq: u32,
    /// Since when the task has been waiting in a run queue. `None`: it runs or sleeps.
    pub queued_since: Option<Ns>,
    /// Whether the task has woken and not run since.
    pub woken: bool,
    /// Whether the task spins now. It yields its CPU afterwards.
    pub spins: bool,
    /// The task to which it last yielded.
    pub called: TaskId,
    /// Measurements so far.
    pub account: Account,
    /// Measurements up to the end of the warm-up.
    pub before: Account,
    /// The state of the fair class.
    pub fair: fair_state::Entity,
    /// The state of the ext class.
    pub ext: ext_state::Entity,
}

impl Task {
    /// The class of the task.
    #[must_use]
    pub fn class(&self) -> Class {
        match (&self.program, self.policy) {
            (Program::Idle, _) => Class::Idle,
            (_, Policy::Fifo(_) | Policy::Rr(_)) => Class::Rt,
            _ => Class::Normal,
        }
    }

    /// Priority of a real-time task, 1..=99. 0: the task is not real-time.
    #[must_use]
    pub fn rt_priority(&self) -> u8 {
        match self.policy {
            Policy::Fifo(priority) | Policy::Rr(priority) => priority,
            _ => 0,
        }
    }

    /// Effective priority, as in the kernel. 0 is the most urgent one, and 120 is nice 0.
    #[must_use]
    pub fn prio(&self) -> i32 {
        match self.rt_priority() {
            0 => self.static_prio(),
            priority => 99 - i32::from(priority),
        }
    }

    /// Static priority: 120 + nice.
    #[must_use]
    pub fn static_prio(&self) -> i32 {
        120 + i32::from(self.nice)
    }

    /// Number of the policy, as in `sched_setattr(2)`.
    #[must_use]
    pub fn policy_number(&self) -> u32 {
        match self.policy {
            Policy::Other => 0,
            Policy::Fifo(_) => 1,
            Policy::Rr(_) => 2,
            Policy::Batch => 3,
            Policy::Idle => 5,
        }
    }

    /// Whether the task may use only one CPU.
    #[must_use]
    pub fn is_pinned(&self) -> bool {
        self.cpus.len() == 1
    }

    /// Measurements since the end of the warm-up.
    #[must_use]
    pub fn measured(&self) -> Account {
        Account {
            ran_ns: self.account.ran_ns - self.before.ran_ns,
            longest_wait_ns: self.account.longest_wait_ns,
            switches: self.account.switches - self.before.switches,
            migrations: self.account.migrations - self.before.migrations,
        }
    }
}
