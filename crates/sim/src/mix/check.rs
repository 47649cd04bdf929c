// SPDX-License-Identifier: GPL-2.0-only
//! Conditions that every mix fulfils, whether it was read, drawn at random, or shrunk.

use std::collections::HashSet;

use super::error::{Flaw, Part, at};
use super::limits;
use super::value::{self, at_most, time, within, within_ns};
use super::{Guest, Irq, Mix, Task, Vm, attributes, changes, forks, programs};
use crate::machine::Machine;
use crate::time::NS_PER_S;

impl Mix {
    /// Checks that the mix can run. The parser guarantees the same.
    ///
    /// # Errors
    /// The first part that is wrong, and what to write instead.
    pub fn check(&self) -> Result<(), Flaw> {
        machine(&self.machine).map_err(at(Part::Machine))?;
        run(self).map_err(at(Part::Run))?;
        names(self)?;
        for (index, _) in self.groups.iter().enumerate() {
            group(self, index).map_err(at(Part::Group(index)))?;
        }
        for (index, task) in self.tasks.iter().enumerate() {
            one_task(self, task).map_err(at(Part::Task(index)))?;
        }
        for (index, vm) in self.vms.iter().enumerate() {
            one_vm(self, vm).map_err(at(Part::Vm(index)))?;
        }
        irqs(self)?;
        totals(self)?;
        programs::check(self)?;
        forks::check(self)?;
        changes::check(self)
    }
}

fn machine(machine: &Machine) -> Result<(), String> {
    let Machine { cpus, smt, caches, nodes, .. } = *machine;
    let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    within("cpus", number(cpus), &limits::CPUS)?;
    if ![1, 2, 4].contains(&smt) {
        return Err(format!("smt={smt}: no such cores; write smt=1, smt=2 or smt=4"));
    }
    if caches == 0 || nodes == 0 {
        return Err("caches and nodes are at least 1; write caches=1 nodes=1".to_owned());
    }
    // Both are below 1025 in a file, but a machine that was drawn may have any values.
    if cpus % smt.saturating_mul(caches) != 0 {
        return Err(format!(
            "cpus={cpus} does not divide by smt={smt} times caches={caches}; write a multiple of {}",
            smt.saturating_mul(caches)
        ));
    }
    if caches % nodes != 0 {
        return Err(format!(
            "caches={caches} does not divide by nodes={nodes}; write a multiple of {nodes}"
        ));
    }
    let named = machine.capacities.len();
    if named != cpus {
        return Err(format!(
            "capacity names {named} CPUs of cpus={cpus}; write one for each, such as 1024*{cpus}"
        ));
    }
    machine
        .capacities
        .iter()
        .try_for_each(|c| within("capacity", i64::from(*c), &limits::CAPACITY))?;
    within("hz", i64::from(machine.hz), &limits::HZ)?;
    let costs = machine.costs;
    for (key, cost_ns) in [
        ("switch", costs.switch_ns),
        ("migrate", costs.migrate_ns),
        ("ipi", costs.ipi_ns),
        ("exit", costs.exit_ns),
    ] {
        within_ns(key, cost_ns, &(0..=limits::COST_MAX_NS))?;
    }
    Ok(())
}

fn run(mix: &Mix) -> Result<(), String> {
    within_ns("run", mix.run_ns, &(1..=limits::RUN_MAX_NS))?;
    if mix.warmup_ns >= mix.run_ns {
        let (warmup, run) = (time(mix.warmup_ns), time(mix.run_ns));
        return Err(format!("warmup={warmup} leaves nothing to measure; write less than {run}"));
    }
    Ok(())
}

/// Checks that names are valid, and that no two parts of a kind have the same name.
fn names(mix: &Mix) -> Result<(), Flaw> {
    fn one<'n>(taken: &mut HashSet<&'n str>, part: Part, name: &'n str) -> Result<(), Flaw> {
        let valid = match part {
            Part::Group(_) => value::path(name),
            _ => value::name(name),
        };
        valid.map_err(at(part))?;
        if taken.insert(name) {
            return Ok(());
        }
        Err(at(part)(format!("the name {name} is taken already; write another")))
    }
    let mut taken = HashSet::new();
    for (index, group) in mix.groups.iter().enumerate() {
        one(&mut taken, Part::Group(index), &group.path)?;
    }
    taken.clear();
    for (index, queue) in mix.queues.iter().enumerate() {
        one(&mut taken, Part::Queue(index), queue)?;
    }
    taken.clear();
    for (index, lock) in mix.locks.iter().enumerate() {
        one(&mut taken, Part::Lock(index), lock)?;
    }
    taken.clear();
    for (index, task) in mix.tasks.iter().enumerate() {
        one(&mut taken, Part::Task(index), &task.name)?;
    }
    for (index, vm) in mix.vms.iter().enumerate() {
        one(&mut taken, Part::Vm(index), &vm.name)?;
    }
    Ok(())
}

fn group(mix: &Mix, index: usize) -> Result<(), String> {
    let group = &mix.groups[index];
    let path = group.path.as_str();
    let stem = path.rsplit_once('/').map(|(stem, _)| stem);
    match group.parent {
        // A parent must have a lower index, so that parents form no cycle.
        Some(parent) if parent >= index => {
            return Err(format!("the parent of {path} comes after it; write parents first"));
        }
        parent if parent.map(|parent| mix.groups[parent].path.as_str()) != stem => {
            let parent = mix.group_path(parent);
            return Err(format!(
                "{parent} is not the parent of {path}; write the parent's whole path"
            ));
        }
        _ => {}
    }
    within("weight", i64::from(group.weight), &limits::WEIGHT)?;
    group.quota.map_or(Ok(()), |quota| attributes::quota(&quota))
}

fn one_task(mix: &Mix, task: &Task) -> Result<(), String> {
    within("count", i64::from(task.count), &limits::COUNT)?;
    within("nice", i64::from(task.nice), &limits::NICE)?;
    within("cookie", i64::from(task.cookie), &limits::COOKIE)?;
    attributes::group_index(mix, task.group)?;
    attributes::policy(task.policy)?;
    attributes::cpus(mix, task.cpus.as_ref())?;
    if task.template && (task.count != 1 || task.start_ns != 0) {
        return Err("a template begins by a fork; leave count and start out".to_owned());
    }
    if task.start_ns >= mix.run_ns {
        let (start, run) = (time(task.start_ns), time(mix.run_ns));
        return Err(format!("start={start} is after the end; write a time before {run}"));
    }
    Ok(())
}

fn one_vm(mix: &Mix, vm: &Vm) -> Result<(), String> {
    within("count", i64::from(vm.count), &limits::COUNT)?;
    within("vcpus", i64::from(vm.vcpus), &limits::VCPUS)?;
    within("exits", i64::from(vm.exits_per_s), &limits::EXITS)?;
    let exits_ns = u64::from(vm.exits_per_s) * mix.machine.costs.exit_ns;
    if exits_ns >= NS_PER_S {
        let (exits, cost) = (vm.exits_per_s, time(mix.machine.costs.exit_ns));
        return Err(format!(
            "exits={exits} of {cost} each take all of a CPU's time; write fewer exits"
        ));
    }
    attributes::group_index(mix, vm.group)?;
    attributes::cpus(mix, vm.cpus.as_ref())?;
    if let Guest::Periodic { period_ns, busy_ns } = vm.guest {
        within_ns("period", period_ns, &(1..=limits::RUN_MAX_NS))?;
        within_ns("busy", busy_ns, &(1..=period_ns))?;
    }
    Ok(())
}

/// Checks that interrupts leave some time on each CPU.
fn irqs(mix: &Mix) -> Result<(), Flaw> {
    let mut taken_ppm = vec![0_u64; mix.machine.cpus];
    for (index, irq) in mix.irqs.iter().enumerate() {
        let at = at(Part::Irq(index));
        let Irq { cpu, every_ns, for_ns } = *irq;
        attributes::cpu(mix, cpu).map_err(&at)?;
        within_ns("every", every_ns, &(1..=limits::RUN_MAX_NS)).map_err(&at)?;
        within_ns("for", for_ns, &(1..=limits::RUN_MAX_NS)).map_err(&at)?;
        let ppm = for_ns.saturating_mul(1_000_000) / every_ns;
        taken_ppm[cpu] = taken_ppm[cpu].saturating_add(ppm);
        if taken_ppm[cpu] >= 1_000_000 {
            return Err(at(format!(
                "interrupts take all of CPU {cpu}'s time; write a shorter for or a longer every"
            )));
        }
    }
    Ok(())
}

fn totals(mix: &Mix) -> Result<(), Flaw> {
    let count = |list: usize| u64::try_from(list).unwrap_or(u64::MAX);
    let entries_max = count(limits::ENTRIES_MAX);
    for (what, list, most, part) in [
        ("groups", mix.groups.len(), count(limits::GROUPS_MAX), Part::Group as fn(usize) -> Part),
        ("queues", mix.queues.len(), entries_max, Part::Queue),
        ("locks", mix.locks.len(), entries_max, Part::Lock),
        ("interrupts", mix.irqs.len(), entries_max, Part::Irq),
        ("changes", mix.changes.len(), entries_max, Part::Change),
    ] {
        at_most(what, count(list), most).map_err(at(part(list.saturating_sub(1))))?;
    }
    let tasks = mix.tasks.iter().map(|task| u64::from(task.count)).sum();
    let last = Part::Task(mix.tasks.len().saturating_sub(1));
    at_most("tasks", tasks, limits::TASKS_MAX).map_err(at(last))?;
    let vcpus = mix.vms.iter().map(|vm| u64::from(vm.count) * u64::from(vm.vcpus)).sum();
    let last = Part::Vm(mix.vms.len().saturating_sub(1));
    at_most("vCPUs", vcpus, limits::VCPUS_MAX).map_err(at(last))
}
