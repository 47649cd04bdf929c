// SPDX-License-Identifier: GPL-2.0-only
//! Removes a part of a mix. References to the part are removed or moved, and all indices stay
//! correct.

use std::collections::HashSet;

use super::{Change, Mix, Phase, Task, forks};
use crate::machine::CpuSet;

/// The new index of an entry after another entry was removed.
fn after(removed: usize, index: usize) -> usize {
    if index > removed { index - 1 } else { index }
}

/// Rewrites all phases. A phase for which `to` returns `None` is removed.
fn rewrite(tasks: &mut [Task], to: impl Fn(Phase) -> Option<Phase>) {
    for task in tasks {
        task.phases = task.phases.iter().filter_map(|phase| to(*phase)).collect();
    }
}

impl Mix {
    /// Removes a task. Other tasks then no longer fork this task. Templates of tasks that only this
    /// task forked are removed, too.
    pub(super) fn without_task(&self, removed: usize) -> Self {
        let mut mix = self.clone();
        mix.take_task(removed);
        mix.without_leftovers()
    }

    fn take_task(&mut self, removed: usize) {
        self.tasks.remove(removed);
        rewrite(&mut self.tasks, |phase| match phase {
            Phase::Fork(task) | Phase::Spin { to: task, .. } if task == removed => None,
            Phase::Fork(task) => Some(Phase::Fork(after(removed, task))),
            Phase::Spin { queue, to } => Some(Phase::Spin { queue, to: after(removed, to) }),
            other => Some(other),
        });
        self.changes.retain_mut(|timed| match &mut timed.change {
            Change::TaskNice(task, _)
            | Change::TaskPolicy(task, _)
            | Change::TaskCpus(task, _)
            | Change::TaskGroup(task, _) => {
                let keeps = *task != removed;
                *task = after(removed, *task);
                keeps
            }
            _ => true,
        });
    }

    /// Removes templates that no task forks, and queues and locks that no task uses.
    pub(super) fn without_leftovers(mut self) -> Self {
        // They are removed one at a time, the last one first, so that the indices of the others
        // stay correct.
        let leftover: Vec<usize> = forks::unforked(&self).collect();
        leftover.into_iter().rev().for_each(|task| self.take_task(task));
        let mut queues = vec![false; self.queues.len()];
        let mut locks = vec![false; self.locks.len()];
        for phase in self.tasks.iter().flat_map(|task| &task.phases) {
            match *phase {
                Phase::Post { queue, .. } | Phase::Wait(queue) | Phase::Spin { queue, .. } => {
                    queues[queue] = true;
                }
                Phase::Lock(lock) | Phase::Unlock(lock) => locks[lock] = true,
                _ => {}
            }
        }
        let unused =
            |used: &[bool]| (0..used.len()).rev().filter(|i| !used[*i]).collect::<Vec<_>>();
        unused(&queues).into_iter().for_each(|queue| self.take_queue(queue));
        unused(&locks).into_iter().for_each(|lock| self.take_lock(lock));
        self
    }

    /// Removes a queue, and the phases that post to it or wait for it.
    pub(super) fn without_queue(&self, removed: usize) -> Self {
        let mut mix = self.clone();
        mix.take_queue(removed);
        mix
    }

    fn take_queue(&mut self, removed: usize) {
        self.queues.remove(removed);
        rewrite(&mut self.tasks, |phase| match phase {
            Phase::Post { queue, .. } | Phase::Wait(queue) | Phase::Spin { queue, .. }
                if queue == removed =>
            {
                None
            }
            Phase::Spin { queue, to } => Some(Phase::Spin { queue: after(removed, queue), to }),
            Phase::Post { queue, sync } => Some(Phase::Post { queue: after(removed, queue), sync }),
            Phase::Wait(queue) => Some(Phase::Wait(after(removed, queue))),
            other => Some(other),
        });
    }

    /// Removes a mutex.
    pub(super) fn without_lock(&self, removed: usize) -> Self {
        let mut mix = self.clone();
        mix.take_lock(removed);
        mix
    }

    fn take_lock(&mut self, removed: usize) {
        self.locks.remove(removed);
        rewrite(&mut self.tasks, |phase| match phase {
            Phase::Lock(lock) | Phase::Unlock(lock) if lock == removed => None,
            Phase::Lock(lock) => Some(Phase::Lock(after(removed, lock))),
            Phase::Unlock(lock) => Some(Phase::Unlock(after(removed, lock))),
            other => Some(other),
        });
    }

    /// Removes a group. Its tasks, VMs and child groups move to its parent.
    pub(super) fn without_group(&self, removed: usize) -> Self {
        let mut mix = self.clone();
        let parent = mix.groups.remove(removed).parent;
        // The index of a parent is lower than the index of its child.
        let moved = |group: Option<usize>| match group {
            Some(index) if index == removed => parent,
            other => other.map(|index| after(removed, index)),
        };
        mix.groups.iter_mut().for_each(|group| group.parent = moved(group.parent));
        mix.tasks.iter_mut().for_each(|task| task.group = moved(task.group));
        mix.vms.iter_mut().for_each(|vm| vm.group = moved(vm.group));
        rewrite(&mut mix.tasks, |phase| match phase {
            Phase::MoveTo(group) => Some(Phase::MoveTo(moved(group))),
            other => Some(other),
        });
        mix.changes.retain_mut(|timed| match &mut timed.change {
            Change::GroupWeight(group, _)
            | Change::GroupQuota(group, _)
            | Change::GroupIdle(group, _) => {
                let keeps = *group != removed;
                *group = after(removed, *group);
                keeps
            }
            Change::TaskGroup(_, group) => {
                *group = moved(*group);
                true
            }
            _ => true,
        });
        mix.name_paths();
        mix
    }

    /// Makes every path consist of the parent's path and the last part of its own. If the name is
    /// taken, a digit is appended.
    fn name_paths(&mut self) {
        let mut taken = HashSet::new();
        for index in 0..self.groups.len() {
            let group = &self.groups[index];
            let last = group.path.rsplit('/').next().unwrap_or("");
            let stem = match group.parent {
                Some(parent) => format!("{}/{last}", self.groups[parent].path),
                None => last.to_owned(),
            };
            let mut path = stem.clone();
            let mut digit = 2;
            while !taken.insert(path.clone()) {
                path = format!("{stem}-{digit}");
                digit += 1;
            }
            self.groups[index].path = path;
        }
    }

    /// Removes a change. If a CPU no longer goes offline, the change that brings it online is
    /// removed, too.
    pub(super) fn without_change(&self, removed: usize) -> Self {
        let mut mix = self.clone();
        if let Change::Offline(cpu) = mix.changes.remove(removed).change {
            let back = |timed: &super::Timed| timed.change == Change::Online(cpu);
            if let Some(later) = mix.changes[removed..].iter().position(back) {
                mix.changes.remove(removed + later);
            }
        }
        mix
    }

    /// Reduces the machine to the first `cpus` CPUs. The other CPUs are removed from affinities. An
    /// affinity that would be empty is removed.
    pub(super) fn with_cpus(&self, cpus: usize) -> Self {
        let mut mix = self.clone();
        let machine = &mut mix.machine;
        machine.capacities.truncate(cpus);
        machine.cpus = cpus;
        // The parts of the topology by which the new number of CPUs can be divided.
        let divides = |smt: usize, caches: usize| cpus % (smt * caches) == 0;
        while !divides(machine.smt, machine.caches) && machine.caches > 1 {
            machine.caches /= 2;
        }
        while !divides(machine.smt, machine.caches) && machine.smt > 1 {
            machine.smt /= 2;
        }
        while machine.caches % machine.nodes != 0 {
            machine.nodes -= 1;
        }
        let there = CpuSet::first(cpus);
        let cut = |set: &CpuSet| Some(set.and(&there)).filter(|set| !set.is_empty());
        let affinities = mix.tasks.iter_mut().map(|task| &mut task.cpus);
        for affinity in affinities.chain(mix.vms.iter_mut().map(|vm| &mut vm.cpus)) {
            *affinity = affinity.as_ref().and_then(cut);
        }
        mix.irqs.retain(|irq| irq.cpu < cpus);
        mix.changes.retain_mut(|timed| match &mut timed.change {
            Change::TaskCpus(_, set) => {
                *set = set.and(&there);
                !set.is_empty()
            }
            Change::Offline(cpu) | Change::Online(cpu) => *cpu < cpus,
            _ => true,
        });
        mix
    }
}
