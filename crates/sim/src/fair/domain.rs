// SPDX-License-Identifier: GPL-2.0-only
//! Scheduling domains (kernel/sched/topology.c): the threads of a core, the CPUs of a last-level
//! cache, the CPUs of a node, and all CPUs.

use crate::{
    kernel::{
        Kernel,
        fair_state::{Domain, Level},
    },
    machine::Machine,
    time::Ns,
};

/// `busy_factor`: a busy CPU balances this many times less often than an idle one.
const BUSY_FACTOR: u64 = 16;

/// `build_sched_domains()`: a level that is not larger than the level below is left out.
#[must_use]
pub fn levels(machine: &Machine) -> Vec<Domain> {
    let (cache, node) = (machine.cpus / machine.caches, machine.cpus / machine.nodes);
    // As in adjust_numa_imbalance() of topology.c.
    let caches = node / cache.max(1);
    let numa_tasks = if caches == 1 { node / 8 } else { caches }.max(1) as u64;
    let mut levels = Vec::new();
    let mut below = 1;
    for len in [machine.smt, cache, node, machine.cpus] {
        if len > below {
            levels.push(Domain {
                len,
                group_len: below,
                shares_core: len == machine.smt,
                shares_cache: len <= cache,
                numa: len > node,
                numa_tasks,
            });
            below = len;
        }
    }
    levels
}

impl Domain {
    /// The first CPU of the domain of a CPU.
    #[must_use]
    pub fn first(&self, cpu: usize) -> usize {
        cpu / self.len * self.len
    }

    /// The CPUs of the domain of a CPU.
    #[must_use]
    pub fn span(&self, cpu: usize) -> std::ops::Range<usize> {
        let first = self.first(cpu);
        first..first + self.len
    }

    /// The first CPU of the group of a CPU.
    #[must_use]
    pub fn group(&self, cpu: usize) -> usize {
        cpu / self.group_len * self.group_len
    }

    /// SD_PREFER_SIBLING of the level below: whether tasks are spread over groups.
    #[must_use]
    pub fn prefers_sibling(&self) -> bool {
        self.group_len > 1
    }

    /// `adjust_numa_imbalance()`: whether a pair of tasks may stay on one node, because the other
    /// node has few tasks.
    #[must_use]
    pub fn allows_numa_imbalance(&self, imbalance: u64, dst_running: u64) -> bool {
        self.numa && dst_running < self.numa_tasks && imbalance <= 2
    }

    /// `imbalance_pct`.
    #[must_use]
    pub fn imbalance_pct(&self) -> u64 {
        if self.shares_core { 110 } else { 117 }
    }

    /// `cache_nice_tries`: after this many failures, tasks whose data is in the cache are moved,
    /// too.
    #[must_use]
    pub fn cache_nice_tries(&self) -> u32 {
        match self {
            _ if self.shares_core => 0,
            _ if self.numa => 2,
            _ => 1,
        }
    }

    /// `min_interval`. `max_interval` is twice as long.
    #[must_use]
    pub fn interval_ms(&self) -> u64 {
        self.len as u64
    }
}

/// `get_sd_balance_interval()`.
#[must_use]
pub fn interval_ns(k: &Kernel, level: &Level, busy: bool) -> Ns {
    let hz = u64::from(k.machine.hz);
    let ms = if busy { level.interval_ms * BUSY_FACTOR } else { level.interval_ms };
    let mut ticks = (ms * hz).div_ceil(1000);
    if busy {
        ticks = ticks.saturating_sub(1);
    }
    let most = (hz * k.active.len() as u64 / 10).max(1);
    ticks.clamp(1, most) * k.machine.tick_ns()
}

/// `sched_init_domains()`.
pub fn build(k: &mut Kernel) {
    k.fair.domains = levels(&k.machine);
    let domains = k.fair.domains.clone();
    k.fair.hindered =
        domains.iter().map(|domain| vec![false; k.machine.cpus / domain.group_len]).collect();
    for rq in &mut k.rqs {
        let level =
            |domain: &Domain| Level { interval_ms: domain.interval_ms(), ..Level::default() };
        rq.fair.levels = domains.iter().map(level).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_that_add_nothing_are_left_out() {
        let lens =
            |machine: &Machine| levels(machine).iter().map(|level| level.len).collect::<Vec<_>>();
        assert_eq!(lens(&Machine::flat(1)), [0; 0]);
        assert_eq!(lens(&Machine::flat(2)), [2]);
        let large = Machine { smt: 2, caches: 8, nodes: 2, ..Machine::flat(64) };
        assert_eq!(lens(&large), [2, 8, 32, 64]);
        let last = levels(&large)[3];
        assert!(last.numa && !last.shares_cache && last.prefers_sibling());
        assert_eq!((last.span(40), last.group(40)), (0..64, 32));
    }
}
