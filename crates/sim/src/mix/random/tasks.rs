// SPDX-License-Identifier: GPL-2.0-only
//! Random tasks: loops, sleepers, periodic and real-time tasks, pipes, mutexes, forks.

use super::{Drawing, MS, RUN_FOREVER, US, index, pick, plain};
use crate::mix::{Phase, Policy, Span, Task};
use crate::time::Ns;

/// Maximum number of tasks of one kind, per CPU of the machine, and on the largest machine.
const COUNT_PER_CPU: u64 = 2;
const COUNT_MAX: u64 = 64;

impl Drawing {
    pub(super) fn tasks(&mut self) {
        for kind in 0..self.rng.between(2, 7) {
            match self.rng.below(10) {
                0..=2 => self.hog(kind),
                3 | 4 => self.sleeper(kind),
                5 if self.draw.queues => self.pipe(kind),
                6 if self.draw.locks => self.locker(kind),
                7 if self.draw.forks => self.forker(kind),
                8 if self.draw.real_time => self.real_time(kind),
                _ => self.periodic(kind),
            }
        }
        // Without a loop the machine may be idle most of the time.
        if self.rng.chance(700) {
            self.hog(99);
        }
    }

    /// Draws all attributes of a task that do not depend on what it does.
    fn task(&mut self, name: String) -> Task {
        let mut task = plain(name);
        let cpus = self.mix.machine.cpus as u64;
        if self.rng.chance(600) {
            task.count = self.small(1, (COUNT_PER_CPU * cpus).min(COUNT_MAX));
        }
        task.group = self.group();
        if self.draw.policies && self.rng.chance(150) {
            task.policy = pick(&mut self.rng, &[Policy::Batch, Policy::Idle], true);
        }
        if self.draw.nice && self.rng.chance(250) {
            task.nice = self.nice();
        }
        if self.draw.affinity && self.rng.chance(250) {
            task.cpus = Some(self.affinity());
        }
        if self.rng.chance(150) {
            task.start_ns = self.rng.between(1, self.mix.run_ns / 2 / MS) * MS;
        }
        task
    }

    /// Makes the template of tasks that are forked. It has the attributes of `of`, except for how
    /// it begins.
    fn template(&mut self, name: String, of: &Task) -> Task {
        Task { name, count: 1, start_ns: 0, template: true, ..of.clone() }
    }

    fn small(&mut self, a: u64, b: u64) -> u32 {
        u32::try_from(self.rng.between(a, b)).unwrap_or(1)
    }

    /// Draws a fixed or random length of time between two bounds.
    fn span(&mut self, least_ns: Ns, most_ns: Ns) -> Span {
        // Whole microseconds keep the text short.
        let min_ns = self.rng.between(least_ns / US, most_ns / US) * US;
        let max_ns = self.rng.between(min_ns / US, most_ns / US) * US;
        Span { min_ns, max_ns: if self.rng.chance(500) { max_ns } else { min_ns } }
    }

    fn add(&mut self, mut task: Task, phases: Vec<Phase>) {
        task.phases = phases;
        self.mix.tasks.push(task);
    }

    fn hog(&mut self, kind: u64) {
        let task = self.task(format!("hog{kind}"));
        let mut phases = vec![Phase::Run(RUN_FOREVER)];
        if self.rng.chance(150) {
            phases = vec![Phase::Run(self.span(20 * US, 5 * MS)), Phase::Yield];
        } else if self.draw.moves && self.rng.chance(150) {
            phases.clear();
            for _ in 0..2 {
                phases.push(Phase::MoveTo(self.group()));
                phases.push(Phase::Run(self.span(MS, 200 * MS)));
            }
        }
        self.add(task, phases);
    }

    fn sleeper(&mut self, kind: u64) {
        let task = self.task(format!("nap{kind}"));
        let phases = vec![
            Phase::Run(self.span(20 * US, 10 * MS)),
            Phase::Sleep(self.span(50 * US, 20 * MS)),
        ];
        self.add(task, phases);
    }

    fn periodic(&mut self, kind: u64) {
        let task = self.task(format!("beat{kind}"));
        let period_ns = self.rng.between(1, 50) * MS;
        let busy = self.span(20 * US, period_ns / 2);
        self.add(task, vec![Phase::Run(busy), Phase::Period(period_ns)]);
    }

    /// A task that feeds a queue, and workers that take from it.
    fn pipe(&mut self, kind: u64) {
        if self.rng.chance(250) {
            self.callers(kind);
            return;
        }
        let queue = self.mix.queues.len();
        self.mix.queues.push(format!("pipe{kind}"));
        let mut feeder = self.task(format!("feed{kind}"));
        feeder.count = feeder.count.min(4);
        let sync = self.rng.chance(500);
        let pause = self.span(200 * US, 10 * MS);
        let mut phases = vec![Phase::Run(self.span(10 * US, MS))];
        let posts = self.rng.between(1, 3);
        (0..posts).for_each(|_| phases.push(Phase::Post { queue, sync }));
        phases.push(Phase::Sleep(pause));
        self.add(feeder, phases);
        let worker = self.task(format!("work{kind}"));
        let busy = self.span(10 * US, 3 * MS);
        self.add(worker, vec![Phase::Wait(queue), Phase::Run(busy)]);
    }

    /// Two tasks that hand work to each other and spin until they get an answer, as vCPUs do.
    fn callers(&mut self, kind: u64) {
        let [asked, answered] = [0, 1].map(|n| self.mix.queues.len() + n);
        self.mix.queues.extend([format!("asked{kind}"), format!("answered{kind}")]);
        let mut first = self.task(format!("ask{kind}"));
        let mut second = self.task(format!("answer{kind}"));
        (first.count, second.count) = (1, 1);
        let to = self.mix.tasks.len();
        let busy = [0; 2].map(|_| Phase::Run(self.span(5 * US, 5 * MS)));
        let (post, spin) =
            (|queue| Phase::Post { queue, sync: false }, |queue, to| Phase::Spin { queue, to });
        self.add(first, vec![busy[0], post(asked), spin(answered, to + 1)]);
        self.add(second, vec![spin(asked, to), busy[1], post(answered)]);
    }

    /// Tasks that share a mutex. A task holds at most one mutex at a time, so that no task waits
    /// forever.
    fn locker(&mut self, kind: u64) {
        let lock = self.mix.locks.len();
        self.mix.locks.push(format!("mutex{kind}"));
        let kinds = self.rng.between(1, 2);
        for part in 0..kinds {
            let mut task = self.task(format!("hold{kind}-{part}"));
            task.count = task.count.max(2);
            let phases = vec![
                Phase::Run(self.span(10 * US, 2 * MS)),
                Phase::Lock(lock),
                Phase::Run(self.span(10 * US, MS)),
                Phase::Unlock(lock),
                Phase::Sleep(self.span(50 * US, 5 * MS)),
            ];
            self.add(task, phases);
        }
    }

    /// A chain of processes, or a task that starts short processes.
    fn forker(&mut self, kind: u64) {
        let mut first = self.task(format!("first{kind}"));
        // Each of `count` tasks starts its own chain. If the task starts processes in a loop, there
        // is only one such task. Otherwise, in a group with little weight, processes would be
        // forked faster than they end.
        first.count = first.count.min(4);
        let next = self.template(format!("next{kind}"), &first);
        let child = self.mix.tasks.len() + 1;
        let busy = Phase::Run(self.span(200 * US, 5 * MS));
        if self.rng.chance(500) {
            self.add(first, vec![Phase::Fork(child), Phase::Exit]);
            self.add(next, vec![busy, Phase::Fork(child), Phase::Exit]);
        } else {
            first.count = 1;
            let pause = Phase::Sleep(self.span(20 * MS, 100 * MS));
            self.add(first, vec![Phase::Fork(child), pause]);
            self.add(next, vec![busy, Phase::Exit]);
        }
    }

    /// A real-time task that leaves nine tenths of a CPU, and most of the machine, to other tasks.
    fn real_time(&mut self, kind: u64) {
        let mut task = self.task(format!("rt{kind}"));
        task.count = 1;
        let prio = u8::try_from(self.rng.between(1, 99)).unwrap_or(1);
        let make = [Policy::Fifo, Policy::Rr][index(&mut self.rng, 2)];
        task.policy = make(prio);
        let period_ns = self.rng.between(2, 40) * MS;
        let busy = self.span(20 * US, period_ns / 10);
        self.add(task, vec![Phase::Run(busy), Phase::Period(period_ns)]);
    }
}
