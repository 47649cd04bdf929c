// SPDX-License-Identifier: GPL-2.0-only
//! Draws mixes from a seed. They are valid, have so much load that the scheduler has to choose, and
//! run for seconds.
//!
//! A seed gives the same mix only as long as this file and [`crate::rng`] do not change. Therefore
//! a failure is saved as the text of its mix, not as a seed.

use super::{
    Change, FOREVER, Group, Irq, KernelVersion, Mix, Policy, Quota, Scheduler, Span, Task, Timed,
};
use crate::machine::{CPUS_MAX, Costs, CpuSet, Machine};
use crate::rng::Rng;
use crate::time::{NS_PER_MS, NS_PER_US, Ns};

mod tasks;
mod vms;

const US: Ns = NS_PER_US;
const MS: Ns = NS_PER_MS;

/// What a random mix may contain. Tests leave out features that the scheduler does not support yet.
#[allow(clippy::struct_excessive_bools, reason = "each is a feature that can be left out")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    /// Several hardware threads per core, several caches, several nodes.
    pub topology: bool,
    /// CPUs of different capacities.
    pub capacities: bool,
    /// One of the two kernels; otherwise 7.3.
    pub kernels: bool,
    /// Groups and their weights.
    pub groups: bool,
    /// Groups with a quota.
    pub quotas: bool,
    /// Groups with `cpu.idle`.
    pub idle_groups: bool,
    /// Nice values other than 0.
    pub nice: bool,
    /// SCHED_BATCH and SCHED_IDLE.
    pub policies: bool,
    /// Tasks bound to CPUs.
    pub affinity: bool,
    /// SCHED_FIFO and SCHED_RR tasks that use about a tenth of a CPU each.
    pub real_time: bool,
    /// Tasks that wake each other.
    pub queues: bool,
    /// Tasks that share a mutex.
    pub locks: bool,
    /// Tasks that fork.
    pub forks: bool,
    /// Tasks that move themselves between groups.
    pub moves: bool,
    /// Interrupts.
    pub irqs: bool,
    /// VMs.
    pub vms: bool,
    /// Changes of groups and tasks while the mix runs.
    pub changes: bool,
    /// CPUs that go offline and come back. Each affinity contains a CPU that stays online.
    pub hotplug: bool,
}

impl Draw {
    /// All features.
    pub const ALL: Self = Self {
        topology: true,
        capacities: true,
        kernels: true,
        groups: true,
        quotas: true,
        idle_groups: true,
        nice: true,
        policies: true,
        affinity: true,
        real_time: true,
        queues: true,
        locks: true,
        forks: true,
        moves: true,
        irqs: true,
        vms: true,
        changes: true,
        hotplug: true,
    };

    /// Only loops and sleepers on identical CPUs.
    pub const PLAIN: Self = Self {
        topology: false,
        capacities: false,
        kernels: false,
        groups: false,
        quotas: false,
        idle_groups: false,
        nice: false,
        policies: false,
        affinity: false,
        real_time: false,
        queues: false,
        locks: false,
        forks: false,
        moves: false,
        irqs: false,
        vms: false,
        changes: false,
        hotplug: false,
    };

    /// Draws a mix from a seed, for a machine with `cpus` CPUs, at most [`CPUS_MAX`].
    #[must_use]
    pub fn mix(self, seed: u64, cpus: usize) -> Mix {
        let mut rng = Rng::new(seed);
        let machine = self.machine(&mut rng, cpus.clamp(1, CPUS_MAX));
        let run_ns = rng.between(1_000, 4_000) * MS;
        let mix = Mix {
            kernel: pick(&mut rng, &[KernelVersion::V7_3, KernelVersion::V6_12], self.kernels),
            scheduler: Scheduler::Ext,
            seed: rng.next_u64(),
            run_ns,
            warmup_ns: run_ns / 8 / MS * MS,
            groups: Vec::new(),
            queues: Vec::new(),
            locks: Vec::new(),
            tasks: Vec::new(),
            vms: Vec::new(),
            irqs: Vec::new(),
            changes: Vec::new(),
            machine,
        };
        let mut drawing = Drawing { draw: self, rng, mix, leaving: CpuSet::EMPTY };
        drawing.hotplug();
        drawing.groups();
        drawing.tasks();
        drawing.vms();
        drawing.irqs();
        drawing.changes();
        drawing.mix
    }

    fn machine(self, rng: &mut Rng, cpus: usize) -> Machine {
        let mut machine = Machine::flat(cpus);
        machine.hz = pick(rng, &[250, 100, 300, 1000], true);
        if rng.chance(300) {
            machine.costs = Costs {
                switch_ns: rng.between(0, 4) * US,
                migrate_ns: rng.between(0, 50) * US,
                ipi_ns: rng.between(200, 5 * US),
                exit_ns: rng.between(500, 5 * US),
            };
        }
        if self.topology {
            machine.smt = divisor(rng, cpus, &[1, 2, 2, 4]);
            machine.caches = divisor(rng, cpus / machine.smt, &[1, 2, 3, 4, 8]);
            machine.nodes = divisor(rng, machine.caches, &[1, 1, 2, 4]);
        }
        if self.capacities && rng.chance(200) {
            // Small cores come first. The threads of a core have the same capacity.
            let little = usize::try_from(rng.below(cpus as u64)).unwrap_or(0);
            let little = little / machine.smt * machine.smt;
            let capacity = u32::try_from(rng.between(200, 800)).unwrap_or(512);
            machine.capacities[..little].fill(capacity);
        }
        machine
    }
}

/// Draws a mix from a seed with all features, for a machine with `cpus` CPUs.
#[must_use]
pub fn mix(seed: u64, cpus: usize) -> Mix {
    Draw::ALL.mix(seed, cpus)
}

/// A random element of a list. The first one if `choice` is false.
fn pick<T: Copy>(rng: &mut Rng, of: &[T], choice: bool) -> T {
    of[if choice { index(rng, of.len()) } else { 0 }]
}

/// A random index into a list of this length; 0 if the list is empty.
fn index(rng: &mut Rng, length: usize) -> usize {
    usize::try_from(rng.below(length as u64)).unwrap_or(0)
}

/// Draws an element of `among`. Returns this element if it divides `of`, otherwise 1.
fn divisor(rng: &mut Rng, of: usize, among: &[usize]) -> usize {
    let drawn = pick(rng, among, true);
    if of % drawn == 0 { drawn } else { 1 }
}

/// A mix that is being drawn.
struct Drawing {
    draw: Draw,
    rng: Rng,
    mix: Mix,
    /// CPUs that go offline at some time.
    leaving: CpuSet,
}

impl Drawing {
    /// A random group or the root group.
    fn group(&mut self) -> Option<usize> {
        // One more than the groups, for the root group.
        let drawn = index(&mut self.rng, self.mix.groups.len() + 1);
        Some(drawn).filter(|group| *group < self.mix.groups.len())
    }

    fn weight(&mut self) -> u32 {
        // Weights below and above 100 are equally likely: first the magnitude is drawn, then a
        // number of this magnitude.
        let magnitude = [1, 10, 100, 1000][index(&mut self.rng, 4)];
        u32::try_from(self.rng.between(magnitude, 10 * magnitude)).unwrap_or(100)
    }

    fn quota(&mut self) -> Quota {
        let period_ns = pick(&mut self.rng, &[100, 10, 20, 50], true) * MS;
        let share_pct = self.rng.between(10, 200);
        let quota_ns = period_ns / 100 * share_pct;
        let burst_ns = if self.rng.chance(250) { quota_ns / 2 / MS * MS } else { 0 };
        Quota { quota_ns, period_ns, burst_ns }
    }

    fn groups(&mut self) {
        let count = if self.draw.groups { self.rng.between(0, 6) } else { 0 };
        for index in 0..usize::try_from(count).unwrap_or(0) {
            let parent = self.group().filter(|parent| {
                // Paths have at most three levels. A group at the third level has two slashes in
                // its path.
                self.mix.groups[*parent].path.matches('/').count() < 2
            });
            let path = match parent {
                Some(parent) => format!("{}/g{index}", self.mix.groups[parent].path),
                None => format!("g{index}"),
            };
            let weight = self.weight();
            let quota = (self.draw.quotas && self.rng.chance(250)).then(|| self.quota());
            let idle = self.draw.idle_groups && self.rng.chance(120);
            self.mix.groups.push(Group { path, parent, weight, quota, idle });
        }
    }

    /// Random CPUs. At least one of them stays online.
    fn affinity(&mut self) -> CpuSet {
        let cpus = self.mix.machine.cpus;
        let width = 1 + index(&mut self.rng, (cpus / 2).clamp(1, 8));
        let first = index(&mut self.rng, cpus);
        let mut set: CpuSet = (first..(first + width).min(cpus)).collect();
        let stays = |cpu: &usize| !self.leaving.has(*cpu);
        if !set.iter().any(|cpu| stays(&cpu)) {
            (0..cpus).filter(stays).take(1).for_each(|cpu| set.insert(cpu));
        }
        set
    }

    fn nice(&mut self) -> i8 {
        i8::try_from(self.rng.between(0, 39)).unwrap_or(20) - 20
    }

    /// Draws CPUs that go offline and come back, one after the other.
    fn hotplug(&mut self) {
        let cpus = self.mix.machine.cpus;
        let some = self.draw.hotplug && cpus > 1 && self.rng.chance(350);
        let count = if some { self.rng.between(1, 3.min(cpus as u64 - 1)) } else { 0 };
        let share_ns = self.mix.run_ns / (count + 1);
        for slot in 0..count {
            let cpu = index(&mut self.rng, cpus);
            // Only one CPU is offline at a time, and at least one CPU never goes offline.
            if self.leaving.has(cpu) || self.leaving.len() + 1 >= cpus {
                continue;
            }
            self.leaving.insert(cpu);
            let gone_ns = slot * share_ns + self.rng.between(10, 100) * MS;
            let back_ns = gone_ns + self.rng.between(1, 100) * MS;
            self.mix.changes.push(Timed { at_ns: gone_ns, change: Change::Offline(cpu) });
            self.mix.changes.push(Timed { at_ns: back_ns, change: Change::Online(cpu) });
        }
    }

    fn irqs(&mut self) {
        let some = self.draw.irqs && self.rng.chance(350);
        for _ in 0..if some { self.rng.between(1, 3) } else { 0 } {
            let cpu = index(&mut self.rng, self.mix.machine.cpus);
            let every_ns = self.rng.between(200, 5_000) * US;
            let for_ns = every_ns * self.rng.between(5, 100) / 1000;
            self.mix.irqs.push(Irq { cpu, every_ns, for_ns });
        }
    }

    /// Draws changes of groups and tasks, and sorts them together with the changes of CPUs.
    fn changes(&mut self) {
        let some = self.draw.changes && self.rng.chance(500);
        let count = if some { self.rng.between(1, 6) } else { 0 };
        let last_ms = self.mix.run_ns / MS - 1;
        let mut times: Vec<Ns> = (0..count).map(|_| self.rng.between(10, last_ms) * MS).collect();
        times.sort_unstable();
        let mut idle: Vec<bool> = self.mix.groups.iter().map(|group| group.idle).collect();
        for at_ns in times {
            let drawn = if self.rng.chance(500) { self.group_change(&mut idle) } else { None };
            if let Some(change) = drawn.or_else(|| self.task_change()) {
                self.mix.changes.push(Timed { at_ns, change });
            }
        }
        self.mix.changes.sort_by_key(|timed| timed.at_ns);
    }

    fn group_change(&mut self, idle: &mut [bool]) -> Option<Change> {
        let group = self.group()?;
        match self.rng.below(3) {
            0 if self.draw.quotas => {
                let quota = self.rng.chance(700).then(|| self.quota());
                Some(Change::GroupQuota(group, quota))
            }
            1 if self.draw.idle_groups => {
                idle[group] = !idle[group];
                Some(Change::GroupIdle(group, idle[group]))
            }
            // The kernel refuses a weight for an idle group.
            _ if idle[group] => None,
            _ => Some(Change::GroupWeight(group, self.weight())),
        }
    }

    fn task_change(&mut self) -> Option<Change> {
        let task = index(&mut self.rng, self.mix.tasks.len());
        let real_time = matches!(self.mix.tasks.get(task)?.policy, Policy::Fifo(_) | Policy::Rr(_));
        match self.rng.below(4) {
            0 if self.draw.nice => Some(Change::TaskNice(task, self.nice())),
            1 if self.draw.affinity => Some(Change::TaskCpus(task, self.affinity())),
            // A loop that became real-time would use a whole CPU.
            2 if self.draw.policies && !real_time => {
                let policies = [Policy::Other, Policy::Batch, Policy::Idle];
                Some(Change::TaskPolicy(task, pick(&mut self.rng, &policies, true)))
            }
            _ if self.draw.groups => Some(Change::TaskGroup(task, self.group())),
            _ => None,
        }
    }
}

/// A task with default values.
fn plain(name: String) -> Task {
    Task {
        name,
        count: 1,
        group: None,
        policy: Policy::Other,
        nice: 0,
        cookie: 0,
        cpus: None,
        start_ns: 0,
        template: false,
        phases: Vec::new(),
    }
}

const RUN_FOREVER: Span = Span { min_ns: FOREVER, max_ns: FOREVER };
