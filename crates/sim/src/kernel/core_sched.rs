// SPDX-License-Identifier: GPL-2.0-only
//! Core scheduling (CONFIG_SCHED_CORE, kernel/sched/core.c): tasks with different cookies do not
//! share a core. A CPU that selects a task selects tasks for all CPUs of its core. A CPU whose
//! tasks have another cookie than the most urgent task is forced idle. The search of other cores
//! for tasks with a cookie (`sched_core_balance()`) is left out.

use std::cmp::Ordering;

use super::{
    Class, Kernel, State,
    cores::{Core, Part},
};
use crate::{bpf::TaskId, time::Ns};

/// Threads of a core may run tasks with different cookies for as long as an interrupt takes from
/// one thread to the other.
const OVERLAP_MAX_NS: Ns = 100_000;

impl Kernel {
    /// Tasks of the mix have cookies, so core scheduling begins.
    pub(super) fn begin_cores(&mut self) {
        if self.machine.smt > 1 && self.mix.tasks.iter().any(|task| task.cookie != 0) {
            self.cores.cores = vec![Core::default(); self.machine.cpus / self.machine.smt];
            self.cores.parts = vec![Part::default(); self.machine.cpus];
        }
    }

    /// Whether core scheduling is enabled (`sched_core_enabled()`).
    #[must_use]
    pub fn has_cookies(&self) -> bool {
        !self.cores.cores.is_empty()
    }

    fn core_of(&mut self, cpu: usize) -> &mut Core {
        &mut self.cores.cores[cpu / self.machine.smt]
    }

    /// How often CPUs of this CPU's core have begun to be forced idle. `None`: no CPU of the core
    /// is forced idle now.
    #[must_use]
    pub fn kept_idle(&self, cpu: usize) -> Option<u32> {
        let core = self.cores.cores.get(cpu / self.machine.smt)?;
        (core.forced > 0 || core.forced_before).then_some(core.forced_seq)
    }

    /// Whether an idle CPU may be forced idle.
    #[must_use]
    pub fn is_kept_idle(&self, cpu: usize) -> bool {
        let core = self.cores.cores.get(cpu / self.machine.smt);
        core.is_some_and(|core| core.cookie != 0 || core.forced > 0)
    }

    /// `sched_core_enqueue()`, `sched_core_dequeue()`: the earlier selection for the core is no
    /// longer valid.
    pub fn core_changes(&mut self, cpu: usize) {
        if self.has_cookies() {
            let core = self.core_of(cpu);
            core.task_seq = core.task_seq.wrapping_add(1);
        }
    }

    /// The last task leaves a CPU that was forced idle.
    pub(super) fn leaves_core(&mut self, cpu: usize) {
        let idle = self.is_idle_task(self.rqs[cpu].curr);
        if idle && self.rqs[cpu].nr_running == 0 && self.kept_idle(cpu).is_some() {
            self.resched_curr(cpu);
        }
    }

    fn cookie(&self, task: TaskId) -> u32 {
        self.tasks[task].cookie
    }

    /// Whether a task may run together with tasks that have this cookie (`cookie_equals()`).
    fn fits(&self, task: TaskId, cookie: u32) -> bool {
        self.is_idle_task(task) || self.cookie(task) == cookie || self.planted.ignores_cookies
    }

    /// `pick_next_task()` with core scheduling.
    pub(super) fn pick_for_core(&mut self, cpu: usize, prev: TaskId) -> TaskId {
        let (part, core) = (self.cores.parts[cpu], self.core_of(cpu).clone());
        let holds = core.pick_seq == core.task_seq && core.pick_seq != part.seq;
        if let Some(task) = part.pick.filter(|_| holds) {
            self.cores.parts[cpu] = Part { pick: None, seq: core.pick_seq };
            return task;
        }
        let shared = core.cookie != 0 || core.forced > 0;
        let core = self.core_of(cpu);
        core.cookie = 0;
        core.forced_before = core.forced > 0;
        core.forced = 0;
        core.task_seq = core.task_seq.wrapping_add(1);
        if !shared {
            let task = self.pick_task(cpu, prev);
            if self.cookie(task) == 0 {
                self.cores.parts[cpu].pick = None;
                return task;
            }
        }
        self.look_at_all(cpu)
    }

    /// Finds the most urgent task of all CPUs of a core, and for each CPU a task that may run
    /// together with it.
    fn look_at_all(&mut self, cpu: usize) -> TaskId {
        let threads = self.machine.core_cpus(cpu);
        // Begin with this CPU, as for_each_cpu_wrap() does.
        let order: Vec<_> = (cpu..threads.end).chain(threads.start..cpu).collect();
        let mut most: Option<TaskId> = None;
        for &other in &order {
            if other != cpu {
                self.update_curr(other);
            }
            let curr = self.rqs[other].curr;
            let task = self.pick_task(other, curr);
            self.cores.parts[other].pick = Some(task);
            if most.is_none_or(|most| self.is_less_urgent(most, task)) {
                most = Some(task);
            }
        }
        let cookie = most.map_or(0, |task| self.cookie(task));
        let mut forced = 0;
        for &other in &order {
            let found = self.cores.parts[other].pick.unwrap_or(other);
            let task = if self.fits(found, cookie) {
                found
            } else {
                self.find_with_cookie(other, cookie).unwrap_or(other)
            };
            forced += u32::from(self.is_idle_task(task) && self.rqs[other].nr_running > 0);
            self.cores.parts[other].pick = Some(task);
        }
        let core = self.core_of(cpu);
        core.cookie = cookie;
        core.forced = forced;
        core.forced_seq =
            core.forced_seq.wrapping_add(u32::from(forced > 0 && !core.forced_before));
        core.forced_before = false;
        core.pick_seq = core.task_seq;
        let seq = core.pick_seq;
        for &other in &order[1..] {
            if self.cores.parts[other].pick == Some(self.rqs[other].curr) {
                self.cores.parts[other].pick = None;
            } else {
                self.resched_curr(other);
            }
        }
        let next = self.cores.parts[cpu].pick.take().unwrap_or(cpu);
        self.cores.parts[cpu].seq = seq;
        next
    }

    /// `sched_core_find()`: the most urgent task of a CPU that has the cookie, in whichever queue
    /// of its class.
    fn find_with_cookie(&mut self, cpu: usize, cookie: u32) -> Option<TaskId> {
        if cookie == 0 {
            return None;
        }
        let waits = |k: &Self, task: TaskId| {
            let one = &k.tasks[task];
            one.on_rq && one.cpu == cpu && one.cookie == cookie && one.state == State::Runnable
        };
        let all: Vec<_> =
            (self.machine.cpus..self.tasks.len()).filter(|task| waits(self, *task)).collect();
        let mut found = None;
        for task in all {
            if found.is_none_or(|best| self.is_less_urgent(best, task)) {
                found = Some(task);
            }
        }
        found
    }

    /// `prio_less()`: whether a task is less urgent than another one.
    fn is_less_urgent(&mut self, one: TaskId, other: TaskId) -> bool {
        let rank = |k: &Self, task: TaskId| (k.tasks[task].class(), k.tasks[task].rt_priority());
        match rank(self, one).cmp(&rank(self, other)) {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal if self.tasks[one].class() == Class::Normal => {
                let class = self.normal;
                class.is_less_urgent(self, one, other)
            }
            Ordering::Equal => false,
        }
    }

    /// A CPU has begun to run another task. Checks whether threads of the core run tasks with
    /// different cookies, and how long they did.
    pub(super) fn core_runs(&mut self, cpu: usize) {
        if !self.has_cookies() {
            return;
        }
        let busy = |k: &Self, cpu: usize| {
            let curr = k.rqs[cpu].curr;
            (!k.is_idle_task(curr)).then(|| k.cookie(curr))
        };
        let mut cookies = self.machine.core_cpus(cpu).filter_map(|cpu| busy(self, cpu));
        let first = cookies.next();
        let mixed = cookies.any(|cookie| Some(cookie) != first);
        let now = self.now;
        let core = self.core_of(cpu);
        if mixed {
            core.mixed_since.get_or_insert(now);
        } else if let Some(since) = core.mixed_since.take() {
            self.note_mixed(cpu, since);
        }
    }

    /// Checks the cores whose threads run tasks with different cookies right now.
    pub fn note_mixed_cores(&mut self) {
        for cpu in (0..self.cores.parts.len()).step_by(self.machine.smt) {
            if let Some(since) = self.core_of(cpu).mixed_since {
                self.note_mixed(cpu, since);
            }
        }
    }

    fn note_mixed(&mut self, cpu: usize, since: Ns) {
        let irqs = self.mix.irqs.iter().map(|irq| irq.for_ns).sum::<Ns>();
        let ns = self.now - since;
        if ns > OVERLAP_MAX_NS + irqs {
            let what =
                format!("threads of CPU {cpu}'s core ran tasks of different cookies for {ns} ns");
            self.fault(what);
        }
    }
}
