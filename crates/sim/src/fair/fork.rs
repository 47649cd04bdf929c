// SPDX-License-Identifier: GPL-2.0-only
//! Selects a CPU for a new task: the idlest CPU of the idlest group, from the largest domain down
//! (`sched_balance_find_dst_cpu()`).

use super::{
    sibling::{is_idle, is_sched_idle},
    stats::{Group, Kind, group_stats},
};
use crate::{bpf::TaskId, kernel::Kernel, machine::CpuSet, mix::Policy};

/// `sched_balance_find_dst_cpu()`.
pub fn find_cpu(k: &Kernel, task: TaskId, here: usize) -> usize {
    let allowed = k.tasks[task].cpus.and(&k.active);
    let mut cpu = here;
    let mut level = k.fair.domains.len();
    while level > 0 {
        level -= 1;
        let Some(group) = idlest_group(k, level, cpu, &allowed) else { continue };
        cpu = idlest_cpu(k, task, level, group, &allowed).unwrap_or(cpu);
    }
    if allowed.has(cpu) { cpu } else { allowed.next(0).unwrap_or(here) }
}

/// `sched_balance_find_dst_group()`. `None`: the group of this CPU.
fn idlest_group(k: &Kernel, level: usize, cpu: usize, allowed: &CpuSet) -> Option<usize> {
    let domain = k.fair.domains[level];
    let own = domain.group(cpu);
    let (mut local, mut idlest) = (None, None::<Group>);
    for first in domain.span(cpu).step_by(domain.group_len) {
        let mut group = group_stats(k, &domain, level, first, allowed);
        if !(first..first + domain.group_len).any(|cpu| allowed.has(cpu)) {
            continue;
        }
        group.avg_load = group.load * 1024 / group.capacity.max(1);
        if first == own {
            local = Some(group);
        } else if idlest.as_ref().is_none_or(|idlest| is_idler(&group, idlest)) {
            idlest = Some(group);
        }
    }
    let idlest = idlest?;
    let Some(local) = local else { return Some(idlest.first) };
    if local.kind != idlest.kind {
        return (local.kind > idlest.kind).then_some(idlest.first);
    }
    let pct = domain.imbalance_pct();
    let better = match local.kind {
        Kind::Overloaded | Kind::FullyBusy => {
            // The difference that the domain tolerates, as a part of NICE_0_LOAD.
            let margin = 1024 * (pct - 100) / 100;
            let least = if domain.numa { idlest.avg_load + margin } else { idlest.avg_load };
            let most = if domain.numa { local.avg_load } else { local.avg_load + margin };
            least < most && 100 * local.avg_load > pct * idlest.avg_load
        }
        Kind::SmtBalance | Kind::Imbalanced => false,
        Kind::HasSpare => {
            let differ = local.idle_cpus.abs_diff(idlest.idle_cpus);
            let here = (own..own + domain.group_len).filter(|cpu| allowed.has(*cpu)).count() as u64;
            let running = local.nr_running;
            let stays = running < here && domain.allows_numa_imbalance(differ, running);
            !stays && local.idle_cpus < idlest.idle_cpus
        }
    };
    better.then_some(idlest.first)
}

/// `update_pick_idlest()`.
fn is_idler(group: &Group, than: &Group) -> bool {
    if group.kind != than.kind {
        return group.kind < than.kind;
    }
    match group.kind {
        Kind::Overloaded | Kind::FullyBusy => group.avg_load < than.avg_load,
        Kind::SmtBalance | Kind::Imbalanced => false,
        Kind::HasSpare => {
            group.idle_cpus > than.idle_cpus
                || group.idle_cpus == than.idle_cpus && group.util < than.util
        }
    }
}

/// `sched_balance_find_dst_group_cpu()`: selects a CPU that runs only SCHED_IDLE tasks. If there is
/// none, selects the CPU that became idle last. If no CPU is idle, selects a CPU with little load.
fn idlest_cpu(
    k: &Kernel,
    task: TaskId,
    level: usize,
    group: usize,
    allowed: &CpuSet,
) -> Option<usize> {
    let range = group..group + k.fair.domains[level].group_len;
    let cpus = || range.clone().filter(|cpu| allowed.has(*cpu));
    let gives_way = |cpu: &usize| k.tasks[task].policy != Policy::Idle && is_sched_idle(k, *cpu);
    if let Some(cpu) = cpus().find(gives_way) {
        return Some(cpu);
    }
    let idle = cpus().filter(|cpu| is_idle(k, *cpu));
    // If several CPUs became idle at the same time, the first one is taken.
    let last = idle.fold(None, |best: Option<usize>, cpu| match best {
        Some(best) if k.rqs[best].idle_since >= k.rqs[cpu].idle_since => Some(best),
        _ => Some(cpu),
    });
    last.or_else(|| cpus().min_by_key(|cpu| k.fair.cpu_load(*cpu)))
}
