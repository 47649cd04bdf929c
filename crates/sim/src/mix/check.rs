// SPDX-License-Identifier: GPL-2.0-only
//! What holds in every mix that runs, however it was made: by the parser, drawn, or shrunk.

use std::collections::HashSet;

use super::error::{Flaw, Part, at};
use super::limits::{self, at_most, within, within_ns};
use super::value::{self, time};
use super::{Guest, Irq, Mix, Policy, Quota, Task, Vm, changes, forks, programs};
use crate::machine::{CpuSet, Machine};

impl Mix {
    /// Whether it can run: what the parser guarantees.
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

    /// A group's path; `/` for the root group.
    #[must_use]
    pub fn group_path(&self, group: Option<usize>) -> &str {
        group.map_or("/", |index| &self.groups[index].path)
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
    // Both are below 1025 in a file; a drawn machine may hold anything.
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

/// Names are valid, and no two parts of a kind have the same.
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
        // An index below its own: no circle of parents.
        Some(parent) if parent >= index => {
            return Err(format!("the parent of {path} comes after it; write parents first"));
        }
        parent if parent.map(|parent| mix.groups[parent].path.as_str()) != stem => {
            let parent = mix.group_path(parent);
            return Err(format!("{parent} is no parent of {path}; write the parent's whole path"));
        }
        _ => {}
    }
    within("weight", i64::from(group.weight), &limits::WEIGHT)?;
    group.quota.map_or(Ok(()), |limit| quota(&limit))
}

/// kernel/sched/core.c: tg_set_cfs_bandwidth and what cpu.max is written in.
pub(super) fn quota(limit: &Quota) -> Result<(), String> {
    let Quota { quota_ns, period_ns, burst_ns } = *limit;
    let least = limits::QUOTA_MIN_NS;
    if !(least..=limits::PERIOD_MAX_NS).contains(&period_ns) {
        let shown = time(period_ns);
        return Err(format!(
            "the kernel refuses a period of {shown}; write a period from 1ms to 1s"
        ));
    }
    if quota_ns < least {
        let shown = time(quota_ns);
        return Err(format!(
            "the kernel refuses a quota below 1ms, here {shown}; write 1ms or more"
        ));
    }
    if quota_ns > limits::RUN_MAX_NS {
        let most = time(limits::RUN_MAX_NS);
        return Err(format!("the quota is larger than any run; write at most {most}, or max"));
    }
    if burst_ns > quota_ns {
        let (burst, quota) = (time(burst_ns), time(quota_ns));
        return Err(format!(
            "the kernel refuses a burst of {burst}, more than the quota; write at most {quota}"
        ));
    }
    for (key, ns) in [("quota", quota_ns), ("period", period_ns), ("burst", burst_ns)] {
        if ns % limits::QUOTA_UNIT_NS != 0 {
            let shown = time(ns);
            return Err(format!("{key} {shown}: the kernel takes whole microseconds; write those"));
        }
    }
    Ok(())
}

fn one_task(mix: &Mix, task: &Task) -> Result<(), String> {
    within("count", i64::from(task.count), &limits::COUNT)?;
    within("nice", i64::from(task.nice), &limits::NICE)?;
    within("cookie", i64::from(task.cookie), &limits::COOKIE)?;
    group_index(mix, task.group)?;
    policy(task.policy)?;
    cpus(mix, task.cpus.as_ref())?;
    if task.template && (task.count != 1 || task.start_ns != 0) {
        return Err("a template begins by a fork; leave count and start out".to_owned());
    }
    if task.start_ns >= mix.run_ns {
        let (start, run) = (time(task.start_ns), time(mix.run_ns));
        return Err(format!("start={start} is after the end; write a time before {run}"));
    }
    Ok(())
}

/// Whether a real-time priority is one.
pub(super) fn policy(policy: Policy) -> Result<(), String> {
    match policy {
        Policy::Fifo(prio) | Policy::Rr(prio) => within("prio", i64::from(prio), &limits::PRIO),
        Policy::Other | Policy::Batch | Policy::Idle => Ok(()),
    }
}

fn one_vm(mix: &Mix, vm: &Vm) -> Result<(), String> {
    within("count", i64::from(vm.count), &limits::COUNT)?;
    within("vcpus", i64::from(vm.vcpus), &limits::VCPUS)?;
    within("exits", i64::from(vm.exits_per_s), &limits::EXITS)?;
    let exits_ns = u64::from(vm.exits_per_s) * mix.machine.costs.exit_ns;
    if exits_ns >= 1_000_000_000 {
        let (exits, cost) = (vm.exits_per_s, time(mix.machine.costs.exit_ns));
        return Err(format!(
            "exits={exits} of {cost} each take all of a CPU's time; write fewer exits"
        ));
    }
    group_index(mix, vm.group)?;
    cpus(mix, vm.cpus.as_ref())?;
    if let Guest::Periodic { period_ns, busy_ns } = vm.guest {
        within_ns("period", period_ns, &(1..=limits::RUN_MAX_NS))?;
        within_ns("busy", busy_ns, &(1..=period_ns))?;
    }
    Ok(())
}

/// Interrupts leave each CPU some time.
fn irqs(mix: &Mix) -> Result<(), Flaw> {
    let mut taken_ppm = vec![0_u64; mix.machine.cpus];
    for (index, irq) in mix.irqs.iter().enumerate() {
        let at = at(Part::Irq(index));
        let Irq { cpu: number, every_ns, for_ns } = *irq;
        cpu(mix, number).map_err(&at)?;
        within_ns("every", every_ns, &(1..=limits::RUN_MAX_NS)).map_err(&at)?;
        within_ns("for", for_ns, &(1..=limits::RUN_MAX_NS)).map_err(&at)?;
        let ppm = for_ns.saturating_mul(1_000_000) / every_ns;
        taken_ppm[number] = taken_ppm[number].saturating_add(ppm);
        if taken_ppm[number] >= 1_000_000 {
            return Err(at(format!(
                "interrupts take all of CPU {number}'s time; write a shorter for or a longer every"
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

/// Whether a group exists.
pub(super) fn group_index(mix: &Mix, group: Option<usize>) -> Result<(), String> {
    match group {
        Some(index) if index >= mix.groups.len() => {
            Err(format!("no group has index {index}; write one of the mix's groups"))
        }
        _ => Ok(()),
    }
}

/// Whether a task exists.
pub(super) fn task_index(mix: &Mix, task: usize) -> Result<(), String> {
    if task < mix.tasks.len() {
        return Ok(());
    }
    Err(format!("no task has index {task}; write one of the mix's tasks"))
}

/// Whether the machine has a CPU.
pub(super) fn cpu(mix: &Mix, cpu: usize) -> Result<(), String> {
    if cpu < mix.machine.cpus {
        return Ok(());
    }
    let last = mix.machine.cpus - 1;
    Err(format!("the machine has no CPU {cpu}; write a CPU from 0 to {last}"))
}

/// Whether the machine has all CPUs of an affinity.
pub(super) fn cpus(mix: &Mix, cpus: Option<&CpuSet>) -> Result<(), String> {
    let Some(cpus) = cpus else { return Ok(()) };
    if cpus.is_empty() {
        return Err("cpus names no CPU; write for example cpus=0".to_owned());
    }
    cpus.next(mix.machine.cpus).map_or(Ok(()), |beyond| cpu(mix, beyond))
}
