// SPDX-License-Identifier: GPL-2.0-only
//! A task as the simulator's kernel has it.

use std::rc::Rc;

use super::{ext_state, fair_state, vcpu::Vcpu};
use crate::{
    bpf::{GroupId, TaskId},
    machine::CpuSet,
    mix::{Phase, Policy},
    time::Ns,
};

/// Work is counted in nanoseconds at capacity 1, so that a CPU does `capacity` of it per nanosecond.
pub const WORK_PER_NS: u64 = 1024;

/// Where a task is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Runs or wants to.
    Runnable,
    /// Waits for something.
    Sleeping,
    /// Has ended.
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

/// What a report says of a task.
#[derive(Clone, Copy, Debug, Default)]
pub struct Account {
    /// Time on CPUs.
    pub ran_ns: Ns,
    /// Longest wait in a run queue.
    pub longest_wait_ns: Ns,
    /// Times that it was put on a CPU.
    pub switches: u64,
    /// Times that it came from another CPU.
    pub migrations: u64,
}

/// What a task does.
pub enum Program {
    /// Nothing: a CPU's idle task.
    Idle,
    /// Phases, again and again.
    Phases {
        /// What.
        phases: Rc<[Phase]>,
        /// The next one.
        next: usize,
    },
    /// A vCPU's guest.
    Guest(Vcpu),
}

/// A task.
pub struct Task {
    /// Index of its kind in the mix: of tasks, or of VMs if its program is a guest.
    pub kind: usize,
    /// Its name in reports.
    pub name: Rc<str>,
    /// Where it is in its life.
    pub state: State,
    /// Its policy.
    pub policy: Policy,
    /// -20..=19.
    pub nice: i8,
    /// [`crate::mix::Task::cookie`].
    pub cookie: u32,
    /// Where it may run.
    pub cpus: CpuSet,
    /// Its group.
    pub group: GroupId,
    /// CPU where it runs or waits, or ran last.
    pub cpu: usize,
    /// In its CPU's run queue, running or not.
    pub on_rq: bool,
    /// What it does.
    pub program: Program,
    /// Work left of its present phase.
    pub work: u64,
    /// When it began.
    pub start_ns: Ns,
    /// Who made it, and that one's pid.
    pub parent: Option<(TaskId, i32)>,
    /// Timers with another number were cancelled.
    pub timer_seq: u32,
    /// Since when it waits in a run queue; `None`: it runs or sleeps.
    pub queued_since: Option<Ns>,
    /// It woke, and has not run since.
    pub woken: bool,
    /// It spins for a while, and gives its CPU to another one then.
    pub spins: bool,
    /// To whom it gave it last.
    pub called: TaskId,
    /// What was measured so far.
    pub account: Account,
    /// What had been measured when the warm-up ended.
    pub before: Account,
    /// The fair class's part.
    pub fair: fair_state::Entity,
    /// The ext class's part.
    pub ext: ext_state::Entity,
}

impl Task {
    /// Its class.
    #[must_use]
    pub fn class(&self) -> Class {
        match (&self.program, self.policy) {
            (Program::Idle, _) => Class::Idle,
            (_, Policy::Fifo(_) | Policy::Rr(_)) => Class::Rt,
            _ => Class::Normal,
        }
    }

    /// Priority of a real-time task, 1..=99; 0: it is none.
    #[must_use]
    pub fn rt_priority(&self) -> u8 {
        match self.policy {
            Policy::Fifo(priority) | Policy::Rr(priority) => priority,
            _ => 0,
        }
    }

    /// Effective priority as the kernel has it: 0 is the most urgent, 120 nice 0.
    #[must_use]
    pub fn prio(&self) -> i32 {
        match self.rt_priority() {
            0 => self.static_prio(),
            priority => 99 - i32::from(priority),
        }
    }

    /// 120 + nice.
    #[must_use]
    pub fn static_prio(&self) -> i32 {
        120 + i32::from(self.nice)
    }

    /// The number of its policy in `sched_setattr(2)`.
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

    /// Whether it may run on one CPU only.
    #[must_use]
    pub fn is_pinned(&self) -> bool {
        self.cpus.len() == 1
    }

    /// What was measured since the warm-up.
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
