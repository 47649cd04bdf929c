// SPDX-License-Identifier: GPL-2.0-only
//! Attributes of the parts of a mix: groups, affinities, policies, quotas. Each part begins with
//! some, and later lines can change them. This file checks whether each value is possible, and
//! whether the mix contains the groups, CPUs and tasks that the value names.

use super::limits;
use super::value::{time, within};
use super::{Mix, Policy, Quota};
use crate::machine::CpuSet;

/// Checks that a group exists.
pub(super) fn group_index(mix: &Mix, group: Option<usize>) -> Result<(), String> {
    match group {
        Some(index) if index >= mix.groups.len() => {
            Err(format!("no group has index {index}; write one of the mix's groups"))
        }
        _ => Ok(()),
    }
}

/// Checks that a task exists.
pub(super) fn task_index(mix: &Mix, task: usize) -> Result<(), String> {
    if task < mix.tasks.len() {
        return Ok(());
    }
    Err(format!("no task has index {task}; write one of the mix's tasks"))
}

/// Checks that the machine has a CPU.
pub(super) fn cpu(mix: &Mix, cpu: usize) -> Result<(), String> {
    if cpu < mix.machine.cpus {
        return Ok(());
    }
    let last = mix.machine.cpus - 1;
    Err(format!("the machine has no CPU {cpu}; write a CPU from 0 to {last}"))
}

/// Checks that the machine has all CPUs of an affinity.
pub(super) fn cpus(mix: &Mix, cpus: Option<&CpuSet>) -> Result<(), String> {
    let Some(cpus) = cpus else { return Ok(()) };
    if cpus.is_empty() {
        return Err("cpus names no CPU; write for example cpus=0".to_owned());
    }
    cpus.next(mix.machine.cpus).map_or(Ok(()), |beyond| cpu(mix, beyond))
}

/// Checks the priority of a real-time policy.
pub(super) fn policy(policy: Policy) -> Result<(), String> {
    match policy {
        Policy::Fifo(prio) | Policy::Rr(prio) => within("prio", i64::from(prio), &limits::PRIO),
        Policy::Other | Policy::Batch | Policy::Idle => Ok(()),
    }
}

/// Checks what tg_set_cfs_bandwidth() in kernel/sched/core.c checks, and the unit of cpu.max.
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
