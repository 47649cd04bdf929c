// SPDX-License-Identifier: GPL-2.0-only
//! Computes the load of the groups of CPUs in a domain, and how much must be moved between them.

use super::sibling::{is_idle, nr_running};
use crate::{
    kernel::{Kernel, fair_state::Domain},
    machine::CpuSet,
};

/// State of the CPU that balances (`enum cpu_idle_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Balancer {
    /// The CPU runs a task.
    Busy,
    /// The CPU is idle.
    Idle,
    /// The CPU is about to become idle.
    Newly,
}

/// The values of `enum group_type` that are modelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The group could run more tasks.
    #[default]
    HasSpare,
    /// All CPUs have enough tasks.
    FullyBusy,
    /// Threads of a core run tasks while another CPU is idle.
    SmtBalance,
    /// Affinity has hindered balancing within the group.
    Imbalanced,
    /// Tasks wait for a CPU.
    Overloaded,
}

/// `struct sg_lb_stats`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Group {
    /// First CPU of the group.
    pub first: usize,
    /// Number of CPUs.
    pub cpus: u64,
    /// Number of cores (`group->cores`).
    pub cores: u64,
    /// Number of idle CPUs.
    pub idle_cpus: u64,
    /// Capacity.
    pub capacity: u64,
    /// Load.
    pub load: u64,
    /// Utilisation.
    pub util: u64,
    /// Utilisation, including waiting tasks.
    pub runnable: u64,
    /// Number of tasks.
    pub nr_running: u64,
    /// Number of ordinary tasks.
    pub h_nr_running: u64,
    /// Type of the group.
    pub kind: Kind,
    /// Load per capacity.
    pub avg_load: u64,
}

/// The unit of what must be moved (`enum migration_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Load.
    Load,
    /// Utilisation.
    Util,
    /// Tasks.
    Task,
}

/// The imbalance that must be removed.
#[derive(Clone, Copy, Debug)]
pub struct Imbalance {
    /// First CPU of the group with too many tasks.
    pub busiest: usize,
    /// The unit of `amount`.
    pub unit: Unit,
    /// How much load, utilisation or how many tasks must be moved, in `unit`.
    pub amount: i64,
}

/// `update_sg_lb_stats()`, `update_sg_wakeup_stats()`: the load of these CPUs. The capacity is that
/// of all CPUs of the group.
pub fn group_stats(
    k: &Kernel,
    domain: &Domain,
    level: usize,
    first: usize,
    cpus: &CpuSet,
) -> Group {
    let mut group = Group { first, ..Group::default() };
    for cpu in (first..first + domain.group_len).filter(|cpu| k.active.has(*cpu)) {
        group.cpus += 1;
        group.capacity += u64::from(k.machine.capacities[cpu]);
        if !cpus.has(cpu) {
            continue;
        }
        let queue = &k.fair.queues[cpu];
        let running = u64::from(nr_running(k, cpu));
        group.idle_cpus += u64::from(running == 0 && is_idle(k, cpu));
        group.load += queue.avg.load_avg;
        group.util += queue.avg.util_avg;
        group.runnable += queue.avg.runnable_avg;
        group.nr_running += running;
        group.h_nr_running += u64::from(queue.h_nr_runnable);
    }
    group.cores = (group.cpus / k.machine.smt as u64).max(1);
    let hindered = k.fair.hindered[level][first / domain.group_len];
    group.kind = classify(&group, domain.imbalance_pct(), hindered);
    if group.kind == Kind::Overloaded {
        group.avg_load = group.load * 1024 / group.capacity.max(1);
    }
    group
}

/// `group_classify()`, `group_is_overloaded()`, `group_has_capacity()`.
fn classify(group: &Group, pct: u64, hindered: bool) -> Kind {
    let more_than_cpus = group.nr_running > group.cpus;
    let util_is_much = group.capacity * 100 < group.util * pct;
    let runnable_is_much = group.capacity * pct < group.runnable * 100;
    if more_than_cpus && (util_is_much || runnable_is_much) {
        return Kind::Overloaded;
    }
    if hindered {
        return Kind::Imbalanced;
    }
    let util_is_little = group.capacity * 100 > group.util * pct;
    if group.nr_running < group.cpus || !runnable_is_much && util_is_little {
        return Kind::HasSpare;
    }
    Kind::FullyBusy
}

/// `update_sd_pick_busiest()`. `threads`: the groups are cores with several threads.
fn is_busier(group: &Group, than: &Group, threads: bool) -> bool {
    if group.kind != than.kind {
        return group.kind > than.kind;
    }
    let has_less_idle = (than.idle_cpus, group.nr_running) > (group.idle_cpus, than.nr_running)
        && (group.idle_cpus < than.idle_cpus || group.nr_running > than.nr_running);
    match group.kind {
        Kind::Overloaded => group.avg_load > than.avg_load,
        Kind::Imbalanced => false,
        Kind::SmtBalance if group.idle_cpus != 0 || than.idle_cpus != 0 => has_less_idle,
        // The load per capacity is not computed for these types. Therefore the last group of these
        // types is selected, or the first one if the groups are cores.
        Kind::SmtBalance | Kind::FullyBusy => !threads,
        Kind::HasSpare => has_less_idle,
    }
}

/// `sibling_imbalance()`: number of tasks to move so that all groups have the same number of tasks
/// per core.
fn sibling_imbalance(idle: Balancer, busiest: &Group, local: &Group) -> u64 {
    if idle == Balancer::Busy || busiest.nr_running == 0 {
        return 0;
    }
    if busiest.cores == local.cores {
        return busiest.nr_running.saturating_sub(local.nr_running);
    }
    let more = (local.cores * busiest.nr_running).saturating_sub(busiest.cores * local.nr_running);
    let cores = local.cores + busiest.cores;
    let imbalance = (2 * more + cores) / cores;
    if imbalance <= 1 && local.nr_running == 0 && busiest.nr_running > 1 { 2 } else { imbalance }
}

fn amount(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}

/// `sched_balance_find_src_group()`, `update_sd_lb_stats()`. `None`: the domain is balanced.
pub fn find(
    k: &Kernel,
    level: usize,
    dst: usize,
    idle: Balancer,
    cpus: &CpuSet,
) -> Option<Imbalance> {
    let domain = k.fair.domains[level];
    let (mut local, mut busiest) = (Group::default(), None::<Group>);
    let (mut load, mut capacity) = (0, 0);
    let own = domain.group(dst);
    let threads = domain.group_len == k.machine.smt && k.machine.smt > 1;
    for first in domain.span(dst).step_by(domain.group_len) {
        // CPUs from which nothing can be moved are not sources. The balancing CPU's own group
        // counts as a whole.
        let mut group =
            group_stats(k, &domain, level, first, if first == own { &k.active } else { cpus });
        // smt_balance()
        let shared = threads && group.h_nr_running > 1 && group.kind < Kind::SmtBalance;
        if shared && first != own && idle != Balancer::Busy {
            group.kind = Kind::SmtBalance;
        }
        load += group.load;
        capacity += group.capacity;
        if first == own {
            local = group;
        } else if group.h_nr_running > 0
            && busiest.as_ref().is_none_or(|busiest| is_busier(&group, busiest, threads))
        {
            busiest = Some(group);
        }
    }
    let busiest = busiest?;
    let avg_load = load * 1024 / capacity.max(1);
    if !is_imbalanced(&domain, idle, &busiest, &local, avg_load) {
        return None;
    }
    calculate(&domain, idle, &busiest, local, avg_load)
}

fn is_imbalanced(
    domain: &Domain,
    idle: Balancer,
    busiest: &Group,
    local: &Group,
    avg_load: u64,
) -> bool {
    if busiest.kind == Kind::Imbalanced {
        return true;
    }
    if local.kind > busiest.kind {
        return false;
    }
    if local.kind == Kind::Overloaded {
        return local.avg_load < busiest.avg_load
            && local.avg_load < avg_load
            && 100 * busiest.avg_load > domain.imbalance_pct() * local.avg_load;
    }
    let spread = domain.prefers_sibling() && local.kind == Kind::HasSpare;
    if spread && sibling_imbalance(idle, busiest, local) > 1 {
        return true;
    }
    if busiest.kind != Kind::Overloaded {
        if idle == Balancer::Busy || busiest.h_nr_running == 1 {
            return false;
        }
        if busiest.cpus > 1 && local.idle_cpus <= busiest.idle_cpus + 1 {
            return false;
        }
    }
    true
}

/// `calculate_imbalance()`.
fn calculate(
    domain: &Domain,
    idle: Balancer,
    busiest: &Group,
    mut local: Group,
    avg_load: u64,
) -> Option<Imbalance> {
    let of = |unit: Unit, how_much: u64| {
        (how_much > 0).then(|| Imbalance { busiest: busiest.first, unit, amount: amount(how_much) })
    };
    if busiest.kind == Kind::Imbalanced || busiest.kind == Kind::SmtBalance {
        return of(Unit::Task, 1);
    }
    if local.kind == Kind::HasSpare {
        if busiest.kind > Kind::FullyBusy && !domain.shares_cache {
            let room = local.capacity.saturating_sub(local.util);
            return if idle != Balancer::Busy && room == 0 {
                of(Unit::Task, 1)
            } else {
                of(Unit::Util, room)
            };
        }
        let tasks = if busiest.cpus == 1 || domain.prefers_sibling() {
            sibling_imbalance(idle, busiest, &local)
        } else {
            local.idle_cpus.saturating_sub(busiest.idle_cpus)
        };
        if domain.allows_numa_imbalance(tasks, local.nr_running) {
            return None;
        }
        return of(Unit::Task, tasks >> 1);
    }
    if local.kind < Kind::Overloaded {
        local.avg_load = local.load * 1024 / local.capacity.max(1);
        // If the group is not overloaded, its load per capacity is 0.
        if local.avg_load >= busiest.avg_load || local.avg_load >= avg_load {
            return None;
        }
    }
    let too_much = busiest.avg_load.saturating_sub(avg_load) * busiest.capacity;
    let too_little = avg_load.saturating_sub(local.avg_load) * local.capacity;
    of(Unit::Load, too_much.min(too_little) / 1024)
}

/// `sched_balance_find_src_rq()`: the CPU of a group from which most can be moved.
pub fn find_queue(
    k: &Kernel,
    level: usize,
    dst: usize,
    what: &Imbalance,
    cpus: &CpuSet,
) -> Option<usize> {
    let domain = k.fair.domains[level];
    let capacity = |cpu: usize| u64::from(k.machine.capacities[cpu]);
    let mut best = (None, 0);
    for cpu in
        (what.busiest..what.busiest + domain.group_len).filter(|cpu| cpus.has(*cpu) && *cpu != dst)
    {
        let queue = &k.fair.queues[cpu];
        let running = queue.h_nr_runnable;
        if running == 0 {
            continue;
        }
        let value = match what.unit {
            Unit::Load if running == 1 && amount(queue.avg.load_avg) > what.amount => continue,
            Unit::Load => queue.avg.load_avg * 1024 / capacity(cpu).max(1),
            Unit::Util if running <= 1 => continue,
            Unit::Util => queue.avg.util_avg,
            Unit::Task => u64::from(running),
        };
        if value > best.1 {
            best = (Some(cpu), value);
        }
    }
    best.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(cpus: u64, nr_running: u64, util: u64, runnable: u64) -> Group {
        Group {
            cpus,
            nr_running,
            util,
            runnable,
            capacity: cpus * 1024,
            cores: cpus,
            ..Group::default()
        }
    }

    #[test]
    fn groups_are_classified_by_tasks_and_utilisation() {
        assert_eq!(classify(&group(2, 1, 1024, 1024), 117, false), Kind::HasSpare);
        assert_eq!(classify(&group(2, 2, 2048, 2048), 117, false), Kind::FullyBusy);
        assert_eq!(classify(&group(2, 3, 2048, 3072), 117, false), Kind::Overloaded);
        assert_eq!(classify(&group(2, 2, 2048, 2048), 117, true), Kind::Imbalanced);
        assert_eq!(classify(&group(2, 4, 300, 300), 117, false), Kind::HasSpare);
    }

    #[test]
    fn an_idle_group_takes_half_of_the_difference() {
        let domain = Domain { len: 2, group_len: 1, shares_cache: true, ..Domain::default() };
        let busiest = Group { kind: Kind::Overloaded, h_nr_running: 4, ..group(1, 4, 1024, 4096) };
        let found =
            calculate(&domain, Balancer::Idle, &busiest, group(1, 0, 0, 0), 0).expect("imbalance");
        assert_eq!((found.unit, found.amount), (Unit::Task, 2));
    }
}
