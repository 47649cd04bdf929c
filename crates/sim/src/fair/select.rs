// SPDX-License-Identifier: GPL-2.0-only
//! Selects a CPU for a task that wakes: near the CPU on which it last ran, or near its waker.

use super::{
    fork,
    sibling::{is_idle, nr_running, select_idle_sibling, share_cache},
};
use crate::{
    bpf::TaskId,
    kernel::{Kernel, Wake, fair_state::Domain},
    time::{NS_PER_S, Ns},
};

/// The number of flips is halved after this time.
const FLIPS_HALVED_NS: Ns = NS_PER_S;

/// `select_task_rq_fair()`.
pub fn select_task_rq(k: &mut Kernel, task: TaskId, prev: usize, wake: Wake) -> usize {
    let here = k.this_cpu;
    if wake.fork {
        return fork::find_cpu(k, task, here);
    }
    record_wakee(k, task);
    let near = !is_wide(k, task) && k.tasks[task].cpus.has(here) && k.rqs[here].active;
    let target = if near && here != prev && !k.fair.domains.is_empty() {
        wake_affine(k, task, here, prev, wake.sync)
    } else {
        prev
    };
    select_idle_sibling(k, task, prev, target)
}

/// `record_wakee()`.
fn record_wakee(k: &mut Kernel, task: TaskId) {
    let now = k.now;
    let waker = k.rqs[k.this_cpu].curr;
    let waker = &mut k.tasks[waker].fair;
    if now > waker.flips_halved_at + FLIPS_HALVED_NS {
        waker.wakee_flips >>= 1;
        waker.flips_halved_at = now;
    }
    if waker.last_wakee != Some(task) {
        waker.last_wakee = Some(task);
        waker.wakee_flips += 1;
    }
}

/// `wake_wide()`: whether the waker wakes so many tasks that they should not gather around it.
fn is_wide(k: &Kernel, task: TaskId) -> bool {
    let factor = u32::try_from(k.machine.cache_cpus(k.this_cpu).len()).unwrap_or(u32::MAX);
    let waker = k.tasks[k.rqs[k.this_cpu].curr].fair.wakee_flips;
    let wakee = k.tasks[task].fair.wakee_flips;
    let (master, slave) = (waker.max(wakee), waker.min(wakee));
    slave >= factor && master >= slave.saturating_mul(factor)
}

/// `wake_affine()`: whether to search near the waker's CPU or near the task's last CPU.
fn wake_affine(k: &mut Kernel, task: TaskId, here: usize, prev: usize, sync: bool) -> usize {
    by_idleness(k, here, prev, sync)
        .or_else(|| by_weight(k, task, here, prev, sync))
        .unwrap_or(prev)
}

/// `wake_affine_idle()`.
fn by_idleness(k: &Kernel, here: usize, prev: usize, sync: bool) -> Option<usize> {
    if is_idle(k, here) && share_cache(k, here, prev) {
        return Some(if is_idle(k, prev) { prev } else { here });
    }
    let queue = &k.fair.queues[here];
    let delayed = queue.h_nr_queued - queue.h_nr_runnable;
    if sync && nr_running(k, here).saturating_sub(delayed) == 1 {
        return Some(here);
    }
    is_idle(k, prev).then_some(prev)
}

/// `wake_affine_weight()`.
fn by_weight(k: &mut Kernel, task: TaskId, here: usize, prev: usize, sync: bool) -> Option<usize> {
    // The smallest domain that contains both CPUs.
    let domain = k.fair.domains.iter().find(|domain| domain.span(here).contains(&prev));
    let pct = domain.map_or(117, Domain::imbalance_pct);
    let mut load_here = k.fair.cpu_load(here);
    let curr = k.rqs[here].curr;
    if sync && !k.is_idle_task(curr) && k.fair.entities.get(k.fair.of_task(curr)).is_some() {
        let load = k.fair.task_h_load(k.fair.of_task(curr));
        if load > load_here {
            return Some(here);
        }
        load_here -= load;
    }
    let load = k.fair.task_h_load(k.fair.of_task(task));
    let signed = |load: u64| i64::try_from(load).unwrap_or(i64::MAX);
    let capacity = |cpu: usize| i64::from(k.machine.capacities[cpu]);
    let with_it = signed(load_here + load) * 100 * capacity(prev);
    let left = signed(k.fair.cpu_load(prev)) - signed(load);
    let without = left * signed(100 + (pct - 100) / 2) * capacity(here);
    (with_it < without + i64::from(sync)).then_some(here)
}
