// SPDX-License-Identifier: GPL-2.0-only
//! Load balancing: at ticks, on behalf of idle CPUs, and by a CPU that is about to become idle.

use super::{
    clock::look_at_clock,
    detach::{MIGRATION_COST_NS, Move, detach_tasks},
    domain::interval_ns,
    sibling::{core_is_idle, is_idle, is_sched_idle, nr_running},
    stats::{self, Balancer, Unit},
};
use crate::{
    kernel::Kernel,
    machine::CpuSet,
    time::{NS_PER_S, Ns},
};

/// Twice `rq->max_idle_balance_cost`: the maximum of an average of idle times.
const AVG_IDLE_MAX_NS: Ns = 2 * MIGRATION_COST_NS;
/// Cost of newly idle balancing per CPU that it examines. (The kernel measures
/// `sd->max_newidle_lb_cost`.)
const COST_PER_CPU_NS: Ns = 200;
/// `MAX_PINNED_INTERVAL`.
const PINNED_INTERVAL_MAX_MS: u64 = 512;

/// `init_idle()`: at first, the average idle time of all CPUs has its maximum.
pub fn begin(k: &mut Kernel) {
    for rq in &mut k.rqs {
        rq.fair.avg_idle_ns = AVG_IDLE_MAX_NS;
    }
}

/// `sched_balance_trigger()`, `nohz_balancer_kick()`: the tick of a CPU that runs a task.
pub fn tick(k: &mut Kernel, cpu: usize) {
    if k.fair.domains.is_empty() {
        return;
    }
    if k.now >= k.rqs[cpu].fair.next_balance {
        look_at_clock(k, cpu);
        k.fair.update_blocked(cpu);
        let idle = if is_idle(k, cpu) { Balancer::Idle } else { Balancer::Busy };
        balance_domains(k, cpu, idle);
    }
    if k.fair.idle_cpus.is_empty() {
        return;
    }
    let span = k.machine.cache_cpus(cpu);
    let crowded = nr_running(k, cpu) >= 2
        || span.clone().any(|other| other != cpu && !k.fair.idle_cpus.has(other));
    if k.now >= k.fair.nohz_next_balance && crowded {
        for_idle_cpus(k, true);
    } else if k.fair.nohz_needs_update {
        for_idle_cpus(k, false);
    }
}

/// `_nohz_idle_balance()`: idle CPUs balance if they are due. If `balances` is false, the function
/// only computes when they are due. In the kernel, one of the idle CPUs does this.
fn for_idle_cpus(k: &mut Kernel, balances: bool) {
    k.fair.nohz_needs_update = false;
    let mut next = k.now + 60 * NS_PER_S;
    let idle = k.fair.idle_cpus;
    for cpu in idle.iter() {
        if balances && k.now >= k.rqs[cpu].fair.next_balance && is_idle(k, cpu) {
            look_at_clock(k, cpu);
            k.fair.update_blocked(cpu);
            balance_domains(k, cpu, Balancer::Idle);
        }
        next = next.min(k.rqs[cpu].fair.next_balance);
    }
    k.fair.nohz_next_balance = next;
}

/// `sched_balance_domains()`.
fn balance_domains(k: &mut Kernel, cpu: usize, mut idle: Balancer) {
    let mut next = Ns::MAX;
    for level in 0..k.fair.domains.len() {
        let busy = |k: &Kernel, idle: Balancer| idle == Balancer::Busy && !is_sched_idle(k, cpu);
        let mut interval = interval_ns(k, &k.rqs[cpu].fair.levels[level], busy(k, idle));
        if k.now >= k.rqs[cpu].fair.levels[level].last_balance + interval {
            if balance(k, cpu, level, idle) > 0 {
                idle = if is_idle(k, cpu) { Balancer::Idle } else { Balancer::Busy };
            }
            k.rqs[cpu].fair.levels[level].last_balance = k.now;
            interval = interval_ns(k, &k.rqs[cpu].fair.levels[level], busy(k, idle));
        }
        next = next.min(k.rqs[cpu].fair.levels[level].last_balance + interval);
    }
    k.rqs[cpu].fair.next_balance = next;
}

/// `should_we_balance()`: the CPU of a group that balances is the first idle one, preferably on a
/// core whose CPUs are all idle. If no CPU is idle, it is the first one.
fn should_balance(k: &Kernel, cpu: usize, level: usize, idle: Balancer) -> bool {
    if !k.rqs[cpu].active {
        return false;
    }
    if idle == Balancer::Newly {
        return nr_running(k, cpu) == 0;
    }
    let domain = k.fair.domains[level];
    let first = domain.group(cpu);
    let range = first..first + domain.group_len;
    let mut thread = None;
    let mut from = first;
    while let Some(candidate) =
        k.fair.idle_cpus.next(from).filter(|candidate| range.contains(candidate))
    {
        from = candidate + 1;
        if !is_idle(k, candidate) {
            continue;
        }
        if domain.shares_core || core_is_idle(k, candidate) {
            return candidate == cpu;
        }
        thread = thread.or(Some(candidate));
    }
    thread.or_else(|| range.clone().find(|other| k.active.has(*other))) == Some(cpu)
}

/// `sched_balance_rq()`. Returns the number of tasks that were moved.
fn balance(k: &mut Kernel, cpu: usize, level: usize, idle: Balancer) -> usize {
    if !should_balance(k, cpu, level, idle) {
        return 0;
    }
    let domain = k.fair.domains[level];
    let mut cpus: CpuSet = k.active;
    let mut dst = cpu;
    loop {
        let Some(mut what) = stats::find(k, level, dst, idle, &cpus) else {
            return balanced(k, cpu, level, idle, false);
        };
        let Some(src) = stats::find_queue(k, level, dst, &what, &cpus) else {
            return balanced(k, cpu, level, idle, false);
        };
        look_at_clock(k, src);
        let failed = k.rqs[cpu].fair.levels[level].failed;
        let mut moved = 0;
        let found = loop {
            let how = Move { level, src, dst, idle, failed };
            let found = detach_tasks(k, &how, &what);
            moved += found.moved;
            what.amount = found.left;
            match found.other_dst {
                // Some tasks may run on another CPU of this group.
                Some(other) if found.some_pinned && found.left > 0 && dst == cpu => dst = other,
                _ => break found,
            }
        };
        dst = cpu;
        if level + 1 < k.fair.domains.len() && found.some_pinned && found.left > 0 {
            let parent = k.fair.domains[level + 1];
            k.fair.hindered[level + 1][cpu / parent.group_len] = true;
        }
        if found.all_pinned && moved == 0 {
            cpus.remove(src);
            let own = domain.group(cpu);
            let others = domain
                .span(cpu)
                .any(|other| cpus.has(other) && !(own..own + domain.group_len).contains(&other));
            if others {
                continue;
            }
            return balanced(k, cpu, level, idle, true);
        }
        let state = &mut k.rqs[cpu].fair.levels[level];
        if moved > 0 {
            state.failed = 0;
            state.interval_ms = domain.interval_ms();
            return moved;
        }
        state.interval_ms = domain.interval_ms();
        if idle != Balancer::Newly {
            state.failed += 1;
            // need_active_balance()
            if what.unit == Unit::Task
                && state.failed > domain.cache_nice_tries() + 2
                && may_push(k, src, cpu)
            {
                k.fair.active_balance.push((src, cpu));
            }
        }
        return 0;
    }
}

fn may_push(k: &Kernel, src: usize, dst: usize) -> bool {
    let curr = k.rqs[src].curr;
    !k.is_idle_task(curr) && k.tasks[curr].cpus.has(dst)
}

/// Makes a balance due at once if a task has left and only SCHED_IDLE tasks remain.
pub fn look_soon_for_others(k: &mut Kernel, cpu: usize, was_sched_idle: bool) {
    if !was_sched_idle && super::sibling::is_sched_idle(k, cpu) {
        k.rqs[cpu].fair.next_balance = k.now;
    }
}

/// Nothing needs to be moved. The next balancing comes later, unless this one was for a newly idle
/// CPU.
fn balanced(k: &mut Kernel, cpu: usize, level: usize, idle: Balancer, pinned: bool) -> usize {
    let domain = k.fair.domains[level];
    if level + 1 < k.fair.domains.len() && !pinned {
        let parent = k.fair.domains[level + 1];
        k.fair.hindered[level + 1][cpu / parent.group_len] = false;
    }
    let state = &mut k.rqs[cpu].fair.levels[level];
    state.failed = 0;
    if idle == Balancer::Newly {
        return 0;
    }
    let most = if pinned {
        PINNED_INTERVAL_MAX_MS.max(2 * domain.interval_ms())
    } else {
        2 * domain.interval_ms()
    };
    if state.interval_ms < most {
        state.interval_ms *= 2;
    }
    0
}

/// `sched_balance_newidle()`. Returns whether the CPU now has a task to run.
pub fn newly_idle(k: &mut Kernel, cpu: usize) -> bool {
    if !k.rqs[cpu].active || !k.tasks[k.rqs[cpu].curr].on_rq && k.rqs[cpu].rt.first().is_some() {
        return false;
    }
    // Because the CPU is idle, its domains are due earlier than before (update_next_balance()).
    let mut next = k.now + NS_PER_S;
    let due = |k: &Kernel, level: usize| {
        let level = &k.rqs[cpu].fair.levels[level];
        level.last_balance + interval_ns(k, level, false)
    };
    let others = k.fair.overloaded.iter().any(|other| other != cpu);
    if others {
        k.fair.update_blocked(cpu);
    }
    let mut cost_ns = 0;
    let mut moved = false;
    for level in 0..k.fair.domains.len() {
        next = next.min(due(k, level));
        let level_ns = k.fair.domains[level].len as u64 * COST_PER_CPU_NS;
        if !others || k.rqs[cpu].fair.avg_idle_ns < cost_ns + level_ns {
            break;
        }
        cost_ns += level_ns;
        if let Some(weight) = attempts(k, cpu, level) {
            moved = balance(k, cpu, level, Balancer::Newly) > 0;
            reckon(k, cpu, level, if moved { weight } else { 0 });
        }
        if moved {
            break;
        }
    }
    let rq = &mut k.rqs[cpu].fair;
    rq.next_balance = rq.next_balance.min(next);
    moved
}

/// Decides whether newly idle balancing of a domain is attempted, depending on its success so far
/// (NI_RANDOM). Returns for how many successes one success counts.
fn attempts(k: &mut Kernel, cpu: usize, level: usize) -> Option<u32> {
    let ratio = k.rqs[cpu].fair.levels[level].newly.ratio;
    if ratio >= 1024 {
        return Some(1);
    }
    if k.rng.between(0, 1023) > u64::from(ratio + 1) {
        reckon(k, cpu, level, 0);
        return None;
    }
    let weight = ratio + 1;
    Some((1024 + weight / 2) / weight)
}

/// `update_newidle_stats()`: if attempts are rare, they are always made (NI_RATE).
fn reckon(k: &mut Kernel, cpu: usize, level: usize, success: u32) {
    /// Each 2^RATE_SHIFT nanoseconds between two computations, which are 512 attempts apart, count
    /// as one success.
    const RATE_SHIFT: u32 = 22;
    let now = k.now;
    let newly = &mut k.rqs[cpu].fair.levels[level].newly;
    newly.calls += 1;
    newly.successes += success;
    if newly.calls >= 1024 {
        let seldom = (now - newly.reckoned) >> RATE_SHIFT;
        let ratio = seldom.min(1024) + u64::from(newly.successes);
        newly.ratio = u32::try_from(ratio.min(1024)).unwrap_or(1024);
        newly.reckoned = now;
        newly.calls /= 2;
        newly.successes /= 2;
    }
}

/// `update_rq_avg_idle()`: the CPU has a task to run again.
pub fn idle_ends(k: &mut Kernel, cpu: usize) {
    let idle_ns = k.now.saturating_sub(k.rqs[cpu].idle_since);
    let avg = &mut k.rqs[cpu].fair.avg_idle_ns;
    let signed = |ns: Ns| i64::try_from(ns).unwrap_or(i64::MAX / 2);
    let step = (signed(idle_ns) - signed(*avg)) / 8;
    *avg = avg.saturating_add_signed(step).min(AVG_IDLE_MAX_NS);
}
