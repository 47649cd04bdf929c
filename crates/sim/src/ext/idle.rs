// SPDX-License-Identifier: GPL-2.0-only
//! The class's own sets of idle CPUs, and its search for an idle CPU (kernel/sched/ext_idle.c).

use super::flags;
use crate::{bpf::TaskId, kernel::Kernel, machine::CpuSet};

/// `update_builtin_idle()`.
pub fn update(k: &mut Kernel, cpu: usize, idle: bool) {
    let idle = idle && k.rqs[cpu].active && k.planted.kept_idle != Some(cpu);
    if idle {
        k.ext.idle.insert(cpu)
    } else {
        k.ext.idle.remove(cpu)
    }
    if k.machine.smt == 1 {
        return;
    }
    let core = k.machine.core_cpus(cpu);
    let whole = core.clone().all(|sibling| k.ext.idle.has(sibling));
    for sibling in core {
        if whole {
            k.ext.idle_cores.insert(sibling)
        } else if !idle {
            k.ext.idle_cores.remove(sibling)
        }
    }
}

/// `scx_idle_test_and_clear_cpu()`.
pub fn test_and_clear(k: &mut Kernel, cpu: usize) -> bool {
    if k.machine.smt > 1 {
        for sibling in k.machine.core_cpus(cpu) {
            k.ext.idle_cores.remove(sibling);
        }
    }
    let was_idle = k.ext.idle.has(cpu);
    k.ext.idle.remove(cpu);
    was_idle
}

/// `scx_pick_idle_cpu()`.
pub fn pick(k: &mut Kernel, allowed: &CpuSet, pick_flags: u64) -> Option<usize> {
    if k.machine.smt > 1 {
        let cores = k.ext.idle_cores;
        if let Some(cpu) = k.any_and_distribute(&cores, allowed) {
            if test_and_clear(k, cpu) {
                return Some(cpu);
            }
        }
        if pick_flags & flags::PICK_IDLE_CORE != 0 {
            return None;
        }
    }
    let idle = k.ext.idle;
    let cpu = k.any_and_distribute(&idle, allowed)?;
    test_and_clear(k, cpu).then_some(cpu)
}

/// `scx_select_cpu_dfl()`: an idle CPU close to the CPU on which the task last ran, or close to its
/// waker.
pub fn select_dfl(k: &mut Kernel, task: TaskId, prev: usize, wake_flags: u64) -> Option<usize> {
    let allowed = k.tasks[task].cpus;
    let prev_allowed = allowed.has(prev);
    let near = |span: std::ops::Range<usize>| allowed.and(&span.collect::<CpuSet>());
    // Sets that contain the whole machine are not searched separately.
    let cache = (k.machine.caches > 1 && k.machine.caches != k.machine.nodes)
        .then(|| near(k.machine.cache_cpus(prev)));
    let node = (k.machine.nodes > 1).then(|| near(k.machine.node_cpus(prev)));
    let cache = cache.or_else(|| {
        (k.machine.caches > 1 && node.is_none()).then(|| near(k.machine.cache_cpus(prev)))
    });
    if wake_flags & flags::WAKE_SYNC != 0 {
        let here = k.this_cpu;
        if prev_allowed && k.machine.cache(here) == k.machine.cache(prev) && test_and_clear(k, prev)
        {
            return Some(prev);
        }
        if k.rqs[here].ext.local.is_empty() && !k.ext.idle.is_empty() && allowed.has(here) {
            return Some(here);
        }
    }
    if k.machine.smt > 1 {
        if prev_allowed && k.ext.idle_cores.has(prev) && test_and_clear(k, prev) {
            return Some(prev);
        }
        for set in [cache, node, Some(allowed)].into_iter().flatten() {
            if let Some(cpu) = pick(k, &set, flags::PICK_IDLE_CORE) {
                return Some(cpu);
            }
        }
    }
    if prev_allowed && test_and_clear(k, prev) {
        return Some(prev);
    }
    for sibling in k.machine.core_cpus(prev) {
        if sibling != prev && allowed.has(sibling) && test_and_clear(k, sibling) {
            return Some(sibling);
        }
    }
    [cache, node, Some(allowed)].into_iter().flatten().find_map(|set| pick(k, &set, 0))
}
