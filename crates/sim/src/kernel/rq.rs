// SPDX-License-Identifier: GPL-2.0-only
//! The run queue of a CPU, except the state of the classes.

use std::collections::{BTreeMap, VecDeque};

use super::{Class, ext_state, fair_state};
use crate::{bpf::TaskId, time::Ns};

/// The waiting real-time tasks of a CPU, by priority.
#[derive(Default)]
pub struct RtQueue {
    lists: BTreeMap<u8, VecDeque<TaskId>>,
}

impl RtQueue {
    /// Adds a task. A task that was preempted is added at the front.
    pub fn insert(&mut self, priority: u8, task: TaskId, front: bool) {
        let list = self.lists.entry(priority).or_default();
        if front { list.push_front(task) } else { list.push_back(task) }
    }

    /// Removes a task.
    pub fn remove(&mut self, priority: u8, task: TaskId) {
        if let Some(list) = self.lists.get_mut(&priority) {
            list.retain(|other| *other != task);
            if list.is_empty() {
                self.lists.remove(&priority);
            }
        }
    }

    /// The most urgent task.
    #[must_use]
    pub fn first(&self) -> Option<(u8, TaskId)> {
        let (priority, list) = self.lists.last_key_value()?;
        list.front().map(|task| (*priority, *task))
    }

    /// All tasks.
    pub fn iter(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.lists.values().flatten().copied()
    }
}

/// A CPU's run queue.
pub struct Rq {
    /// The running task. If no task runs, the CPU's idle task.
    pub curr: TaskId,
    /// The highest class of the running task and of tasks that came after it was selected
    /// (`rq->next_class`).
    pub next_class: Class,
    /// Whether the CPU must select a task.
    pub need_resched: bool,
    /// Whether a request to select a task is on its way to the CPU.
    pub resched_sent: bool,
    /// Whether tasks may run here.
    pub active: bool,
    /// Time up to which the running task is accounted.
    pub exec_start: Ns,
    /// Time up to which work is done. If it is in the future, the CPU does something else until
    /// then.
    pub work_from: Ns,
    /// Time until which a switch is in progress.
    pub switch_until: Ns,
    /// Number of switches from tasks that were still runnable.
    pub preemptions: u64,
    /// Running time of boosted vCPUs.
    pub boosted_ns: Ns,
    /// Work per nanosecond.
    pub speed: u64,
    /// Number of the event that ends the running task's phase.
    pub run_seq: u32,
    /// Number of the tick, if it is on.
    pub tick: Option<u32>,
    /// Number of the last tick.
    pub tick_seq: u32,
    /// Number of the next VM exit.
    pub exit_seq: u32,
    /// Time until which interrupts use the CPU.
    pub irq_until: Ns,
    /// Total time of interrupts.
    pub irq_ns: Ns,
    /// Value of clock_task up to which clock_pelt is up to date.
    pub pelt_updated: Ns,
    /// Since when the CPU has been idle.
    pub idle_since: Ns,
    /// Number of runnable tasks of all classes.
    pub nr_running: u32,
    /// Waiting real-time tasks.
    pub rt: RtQueue,
    /// End of the current SCHED_RR slice.
    pub rr_until: Ns,
    /// The reserve for ordinary tasks.
    pub server: Server,
    /// Where the search for a CPU of a set continues (cpumask_any_and_distribute()).
    pub distribute: usize,
    /// The state of the fair class.
    pub fair: fair_state::FairRq,
    /// The state of the ext class.
    pub ext: ext_state::ExtRq,
}

/// fair_server, ext_server (kernel/sched/deadline.c): ordinary tasks get 50 ms per second. If
/// real-time tasks have left them less, they get the rest at the end of the second.
#[derive(Default)]
pub struct Server {
    /// Number of the server's newest event. Older events are ignored.
    pub seq: u32,
    /// Whether the newest event is still to come.
    pub armed: bool,
    /// Ordinary tasks run before real-time ones until they have run for this long.
    pub left_ns: Ns,
    /// Running time of ordinary tasks since the server was armed.
    pub ran_ns: Ns,
}

impl Rq {
    /// Makes the run queue of an idle CPU.
    #[must_use]
    pub fn new(idle_task: TaskId, speed: u64) -> Self {
        Self {
            curr: idle_task,
            next_class: Class::Idle,
            need_resched: false,
            resched_sent: false,
            active: true,
            exec_start: 0,
            work_from: 0,
            switch_until: 0,
            preemptions: 0,
            boosted_ns: 0,
            speed,
            run_seq: 0,
            tick: None,
            tick_seq: 0,
            exit_seq: 0,
            irq_until: 0,
            irq_ns: 0,
            pelt_updated: 0,
            idle_since: 0,
            nr_running: 0,
            rt: RtQueue::default(),
            rr_until: 0,
            server: Server::default(),
            distribute: 0,
            fair: fair_state::FairRq::default(),
            ext: ext_state::ExtRq::default(),
        }
    }
}
