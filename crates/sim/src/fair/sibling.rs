// SPDX-License-Identifier: GPL-2.0-only
//! Finds an idle CPU near another one: `select_idle_sibling()` and the functions that it calls.

use crate::{
    bpf::TaskId,
    kernel::{Class, Kernel},
    mix::Policy,
};

/// `rq->nr_running`. Throttled tasks do not count.
#[must_use]
pub fn nr_running(k: &Kernel, cpu: usize) -> u32 {
    let rq = &k.rqs[cpu];
    let rt = usize::from(k.tasks[rq.curr].class() == Class::Rt)
        + if rq.rt.first().is_some() { rq.rt.iter().count() } else { 0 };
    k.fair.queues[cpu].h_nr_queued + u32::try_from(rt).unwrap_or(u32::MAX)
}

/// `idle_cpu()`, `available_idle_cpu()`.
#[must_use]
pub fn is_idle(k: &Kernel, cpu: usize) -> bool {
    k.is_idle_task(k.rqs[cpu].curr) && k.rqs[cpu].active && nr_running(k, cpu) == 0
}

/// `sched_idle_cpu()`: whether the CPU runs only SCHED_IDLE tasks and idle groups.
#[must_use]
pub fn is_sched_idle(k: &Kernel, cpu: usize) -> bool {
    let running = nr_running(k, cpu);
    running > 0 && running == k.fair.queues[cpu].h_nr_idle && k.rqs[cpu].active
}

/// `choose_idle_cpu()`: whether the CPU is idle, or runs only SCHED_IDLE tasks and the task is not
/// SCHED_IDLE itself.
#[must_use]
fn is_free(k: &Kernel, cpu: usize, task: TaskId) -> bool {
    is_idle(k, cpu) || k.tasks[task].policy != Policy::Idle && is_sched_idle(k, cpu)
}

/// `is_core_idle()`: whether the other threads of the core are idle.
#[must_use]
pub fn core_is_idle(k: &Kernel, cpu: usize) -> bool {
    k.machine.core_cpus(cpu).all(|other| other == cpu || is_idle(k, other))
}

/// `cpus_share_cache()`.
#[must_use]
pub fn share_cache(k: &Kernel, one: usize, other: usize) -> bool {
    k.machine.cache(one) == k.machine.cache(other)
}

/// `select_idle_sibling()`: an idle CPU that shares a cache with `target`. If there is none,
/// `target`.
pub fn select_idle_sibling(k: &mut Kernel, task: TaskId, prev: usize, target: usize) -> usize {
    // The caller checks whether the task may run on this CPU (select_fallback_rq()).
    if is_free(k, target, task) {
        return target;
    }
    if prev != target && share_cache(k, prev, target) && is_free(k, prev, task) {
        return prev;
    }
    let recent = k.tasks[task].fair.recent_used_cpu.replace(prev);
    let recent = recent.filter(|recent| *recent != prev && *recent != target);
    let (k, allowed) = (&*k, &k.tasks[task].cpus);
    let good = |cpu: usize| allowed.has(cpu) && is_free(k, cpu, task);
    if let Some(recent) = recent.filter(|recent| share_cache(k, *recent, target) && good(*recent)) {
        return recent;
    }
    let idle_core = k.machine.smt > 1 && has_idle_core(k, target);
    if k.machine.smt > 1 && !idle_core && share_cache(k, prev, target) {
        // select_idle_smt()
        if let Some(sibling) = k.machine.core_cpus(prev).find(|cpu| *cpu != prev && good(*cpu)) {
            return sibling;
        }
    }
    select_idle_cpu(k, task, target, idle_core).unwrap_or(target)
}

/// `test_idle_cores()`.
fn has_idle_core(k: &Kernel, cpu: usize) -> bool {
    let mut from = k.machine.cache_cpus(cpu).start;
    while let Some(idle) =
        k.fair.idle_cpus.next(from).filter(|idle| k.machine.cache_cpus(cpu).contains(idle))
    {
        if is_idle(k, idle) && core_is_idle(k, idle) {
            return true;
        }
        from = idle + 1;
    }
    false
}

/// `select_idle_cpu()`, `select_idle_core()`: searches all CPUs of the cache, beginning with the
/// CPU after `target`. A core whose CPUs are all idle is preferred.
fn select_idle_cpu(k: &Kernel, task: TaskId, target: usize, idle_core: bool) -> Option<usize> {
    let span = k.machine.cache_cpus(target);
    let candidates = k.tasks[task].cpus.and(&k.fair.idle_cpus.or(&k.fair.idle_queued));
    let mut any = None;
    for range in [target + 1..span.end, span.start..target + 1] {
        let mut from = range.start;
        while let Some(cpu) = candidates.next(from).filter(|cpu| range.contains(cpu)) {
            from = cpu + 1;
            if !is_free(k, cpu, task) {
                continue;
            }
            if !idle_core || is_idle(k, cpu) && core_is_idle(k, cpu) {
                return Some(cpu);
            }
            any = any.or(Some(cpu));
        }
    }
    any
}
