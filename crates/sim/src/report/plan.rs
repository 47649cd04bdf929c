// SPDX-License-Identifier: GPL-2.0-only
//! Converts a mix into a plan, in which all names are resolved to numbers. `pc_play` (lab/programs)
//! plays the plan on a real kernel.
//!
//! A line consists of words. Times are in nanoseconds. Groups, queues, locks and tasks are numbered
//! in the order of their lines. -1 means the root group, no quota, or no end. The phases of a task
//! follow its line.

use std::fmt::{self, Write};

use paracord_sim::machine::CpuSet;
use paracord_sim::mix::{Change, FOREVER, Group, Mix, Phase, Policy, Quota, Span, Task};
use paracord_sim::time::Ns;

/// Version of the format. It changes when the words change.
const VERSION: u32 = 1;

/// Writes the text of the plan.
///
/// # Errors
/// One line that names the part of the mix that no real machine can do.
pub fn plan(mix: &Mix) -> Result<String, String> {
    if !mix.irqs.is_empty() {
        return Err("irq lines cannot be played on a real machine; leave them out".to_owned());
    }
    if mix
        .tasks
        .iter()
        .flat_map(|task| &task.phases)
        .any(|phase| matches!(phase, Phase::Spin { .. }))
    {
        return Err(
            "spin cannot be played: only vCPUs can call each other; leave it out".to_owned()
        );
    }
    inner_groups(mix)?;
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write_all(&mut text, mix);
    Ok(text)
}

/// A group of cgroup v2 contains tasks or groups, but not both.
fn inner_groups(mix: &Mix) -> Result<(), String> {
    let moves = mix.tasks.iter().flat_map(|task| &task.phases).filter_map(|phase| match phase {
        Phase::MoveTo(to) => *to,
        _ => None,
    });
    let changes = mix.changes.iter().filter_map(|timed| match timed.change {
        Change::TaskGroup(_, to) => to,
        _ => None,
    });
    let tasks = mix.tasks.iter().filter_map(|task| task.group);
    let vms = mix.vms.iter().filter_map(|vm| vm.group);
    let mut used = tasks.chain(vms).chain(moves).chain(changes);
    let is_inner = |of: &usize| mix.groups.iter().any(|group| group.parent == Some(*of));
    used.find(is_inner).map_or(Ok(()), |of| {
        let path = &mix.groups[of].path;
        Err(format!("group {path} has groups and tasks in it, and cgroup v2 takes one or the other; put its tasks into a group below it"))
    })
}

fn write_all(out: &mut String, mix: &Mix) -> fmt::Result {
    writeln!(out, "plan {VERSION} {} {}", mix.machine.cpus, mix.seed)?;
    writeln!(out, "run {} {}", mix.run_ns, mix.warmup_ns)?;
    mix.groups.iter().try_for_each(|one| group(out, one))?;
    for (index, _) in mix.queues.iter().enumerate() {
        writeln!(out, "queue {}", if is_pipe(mix, index) { "pipe" } else { "counter" })?;
    }
    mix.locks.iter().try_for_each(|_| writeln!(out, "lock"))?;
    for one in &mix.tasks {
        task(out, one)?;
        one.phases.iter().try_for_each(|one| phase(out, *one))?;
    }
    for vm in &mix.vms {
        let group = number(vm.group);
        writeln!(out, "vm {} {} {group} {}", vm.name, vm.count * vm.vcpus, cpus(vm.cpus.as_ref()))?;
    }
    for timed in &mix.changes {
        write!(out, "at {} ", timed.at_ns)?;
        change(out, &timed.change)?;
    }
    Ok(())
}

/// For a writer to a pipe, the kernel assumes that the writer is about to sleep (WF_SYNC). For a
/// writer to an eventfd, it does not.
fn is_pipe(mix: &Mix, index: usize) -> bool {
    let mut phases = mix.tasks.iter().flat_map(|task| &task.phases);
    phases.any(|phase| matches!(phase, Phase::Post { queue, sync: true } if *queue == index))
}

fn number(index: Option<usize>) -> String {
    index.map_or_else(|| "-1".to_owned(), |index| index.to_string())
}

fn cpus(set: Option<&CpuSet>) -> String {
    set.map_or_else(|| "*".to_owned(), ToString::to_string)
}

fn quota(quota: Option<Quota>) -> String {
    quota.map_or_else(
        || "-1 100000000 0".to_owned(),
        |Quota { quota_ns, period_ns, burst_ns }| format!("{quota_ns} {period_ns} {burst_ns}"),
    )
}

fn policy(policy: Policy) -> String {
    match policy {
        Policy::Other => "other 0".to_owned(),
        Policy::Batch => "batch 0".to_owned(),
        Policy::Idle => "idle 0".to_owned(),
        Policy::Fifo(prio) => format!("fifo {prio}"),
        Policy::Rr(prio) => format!("rr {prio}"),
    }
}

fn group(out: &mut String, group: &Group) -> fmt::Result {
    let idle = u8::from(group.idle);
    writeln!(out, "group {} {} {} {idle}", group.path, group.weight, quota(group.quota))
}

fn task(out: &mut String, task: &Task) -> fmt::Result {
    let Task { name, count, nice, start_ns, .. } = task;
    let (group, policy, cpus) = (number(task.group), policy(task.policy), cpus(task.cpus.as_ref()));
    let count = if task.template { 0 } else { *count };
    writeln!(out, "task {name} {count} {group} {policy} {nice} {start_ns} {cpus}")
}

fn span(Span { min_ns, max_ns }: Span) -> String {
    let end = |ns: Ns| if ns >= FOREVER { "-1".to_owned() } else { ns.to_string() };
    format!("{} {}", end(min_ns), end(max_ns))
}

fn phase(out: &mut String, phase: Phase) -> fmt::Result {
    match phase {
        Phase::Run(length) => writeln!(out, "phase run {}", span(length)),
        Phase::Sleep(length) => writeln!(out, "phase sleep {}", span(length)),
        Phase::Period(ns) => writeln!(out, "phase period {ns}"),
        Phase::Post { queue, .. } => writeln!(out, "phase post {queue}"),
        Phase::Wait(queue) => writeln!(out, "phase wait {queue}"),
        // plan() has already refused this phase.
        Phase::Spin { queue, .. } => writeln!(out, "phase wait {queue}"),
        Phase::Lock(lock) => writeln!(out, "phase lock {lock}"),
        Phase::Unlock(lock) => writeln!(out, "phase unlock {lock}"),
        Phase::Fork(task) => writeln!(out, "phase fork {task}"),
        Phase::Yield => writeln!(out, "phase yield"),
        Phase::Exit => writeln!(out, "phase exit"),
        Phase::MoveTo(group) => writeln!(out, "phase group {}", number(group)),
    }
}

fn change(out: &mut String, change: &Change) -> fmt::Result {
    match change {
        Change::GroupWeight(group, weight) => writeln!(out, "weight {group} {weight}"),
        Change::GroupQuota(group, limit) => writeln!(out, "quota {group} {}", quota(*limit)),
        Change::GroupIdle(group, idle) => writeln!(out, "idle {group} {}", u8::from(*idle)),
        Change::TaskNice(task, nice) => writeln!(out, "nice {task} {nice}"),
        Change::TaskPolicy(task, to) => writeln!(out, "policy {task} {}", policy(*to)),
        Change::TaskCpus(task, set) => writeln!(out, "cpus {task} {}", cpus(Some(set))),
        Change::TaskGroup(task, group) => writeln!(out, "group {task} {}", number(*group)),
        Change::Offline(cpu) => writeln!(out, "online {cpu} 0"),
        Change::Online(cpu) => writeln!(out, "online {cpu} 1"),
    }
}
