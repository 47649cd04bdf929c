// SPDX-License-Identifier: GPL-2.0-only
//! A CPU's run queue, as far as it is no class's own.

use std::collections::{BTreeMap, VecDeque};

use super::{ext_state, fair_state};
use crate::{bpf::TaskId, time::Ns};

/// Real-time tasks of a CPU that wait, by priority.
#[derive(Default)]
pub struct RtQueue {
    lists: BTreeMap<u8, VecDeque<TaskId>>,
}

impl RtQueue {
    /// Adds a task, at the front if it was preempted.
    pub fn insert(&mut self, priority: u8, task: TaskId, front: bool) {
        let list = self.lists.entry(priority).or_default();
        if front { list.push_front(task) } else { list.push_back(task) }
    }

    /// Takes a task out.
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

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.lists.values().flatten().copied()
    }
}

/// A CPU's run queue.
pub struct Rq {
    /// The task that runs; its own idle task if none does.
    pub curr: TaskId,
    /// Whether it is to look who runs next.
    pub need_resched: bool,
    /// Whether somebody's request to look is under way.
    pub resched_sent: bool,
    /// Whether tasks may run here.
    pub active: bool,
    /// Time up to here is accounted to the task that runs.
    pub exec_start: Ns,
    /// Work up to here is done; in the future: the CPU does something else until then.
    pub work_from: Ns,
    /// A switch is under way until then.
    pub switch_until: Ns,
    /// Switches from tasks that wanted to go on.
    pub preemptions: u64,
    /// Time that boosted vCPUs have run.
    pub boosted_ns: Ns,
    /// Work per nanosecond.
    pub speed: u64,
    /// The task's end of phase has this number.
    pub run_seq: u32,
    /// Whether the tick is on, and its number.
    pub tick: Option<u32>,
    /// The last tick's number.
    pub tick_seq: u32,
    /// The present VM exit's number.
    pub exit_seq: u32,
    /// Interrupts keep the CPU until then.
    pub irq_until: Ns,
    /// Time that interrupts took.
    pub irq_ns: Ns,
    /// clock_task up to which clock_pelt is right.
    pub pelt_updated: Ns,
    /// Since when it is idle.
    pub idle_since: Ns,
    /// Runnable tasks of all classes.
    pub nr_running: u32,
    /// Real-time tasks that wait.
    pub rt: RtQueue,
    /// End of the present SCHED_RR slice.
    pub rr_until: Ns,
    /// The reserve for ordinary tasks.
    pub server: Server,
    /// Where the search for a CPU of a set goes on (cpumask_any_and_distribute()).
    pub distribute: usize,
    /// The fair class's part.
    pub fair: fair_state::FairRq,
    /// The ext class's part.
    pub ext: ext_state::ExtRq,
}

/// fair_server, ext_server (kernel/sched/deadline.c): 50 ms of a second for ordinary tasks, at the end of a second in
/// which real-time tasks left them less.
#[derive(Default)]
pub struct Server {
    /// Number of the event that is due; 0: none.
    pub seq: u32,
    /// Whether an event is due.
    pub armed: bool,
    /// Ordinary tasks come first until they have run for that long.
    pub left_ns: Ns,
    /// What ordinary tasks have run since it was armed.
    pub ran_ns: Ns,
}

impl Rq {
    /// An idle CPU.
    #[must_use]
    pub fn new(idle_task: TaskId, speed: u64) -> Self {
        Self {
            curr: idle_task,
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
