// SPDX-License-Identifier: GPL-2.0-only
//! Statistics about where tasks were put: moves between caches and nodes, cores that were crowded
//! while other cores were idle, and waits after wakeups.

use crate::{machine::Machine, time::Ns};

/// Each power of two is divided into this many buckets, so the error of a wait is at most an
/// eighth.
const PARTS: u32 = 8;

/// A histogram of waits, the shortest first.
#[derive(Clone, Debug, Default)]
pub struct Waits {
    counts: Vec<u64>,
    total: u64,
}

impl Waits {
    fn add(&mut self, waited_ns: Ns) {
        let bucket = bucket(waited_ns);
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.total += 1;
    }

    /// The time that is not exceeded by this many per mille of the waits.
    #[must_use]
    pub fn permille_ns(&self, permille: u64) -> Option<Ns> {
        let wanted = (self.total * permille).div_ceil(1000);
        let mut seen = 0;
        let mut reaches = |count: &u64| {
            seen += count;
            seen >= wanted
        };
        self.counts.iter().position(&mut reaches).map(most)
    }
}

fn bucket(ns: Ns) -> usize {
    let ns = ns.max(u64::from(PARTS));
    let octave = ns.ilog2();
    let part = (ns >> (octave - PARTS.ilog2())) - u64::from(PARTS);
    ((octave * PARTS) as usize) + usize::try_from(part).unwrap_or(0)
}

/// The longest wait that belongs to a bucket.
fn most(bucket: usize) -> Ns {
    let (octave, part) = (bucket as u64 / u64::from(PARTS), bucket as u64 % u64::from(PARTS));
    ((part + 1 + u64::from(PARTS)) << octave >> PARTS.ilog2()) - 1
}

/// The statistics since the end of the warm-up.
#[derive(Clone, Debug, Default)]
pub struct Placement {
    /// Moves of tasks from one node to another.
    pub node_moves: u64,
    /// Moves from one last-level cache to another, including moves between nodes.
    pub cache_moves: u64,
    /// Sum over all cores of the time in which two threads of a core were busy. A core counts only
    /// if another core was idle for it.
    pub crowded_ns: Ns,
    /// Times from wakeup to running, by kind: tasks in the order of the mix, then VMs.
    pub wakeups: Vec<Waits>,
    busy_threads: Vec<u32>,
    crowded: u64,
    idle: u64,
    since: Ns,
}

impl Placement {
    pub(super) fn new(machine: &Machine, kinds: usize) -> Self {
        let cores = machine.cpus / machine.smt;
        Self {
            wakeups: vec![Waits::default(); kinds],
            busy_threads: vec![0; cores],
            idle: cores as u64,
            ..Self::default()
        }
    }

    /// Begins the statistics. Earlier events do not count.
    pub(super) fn begin(&mut self, now: Ns) {
        (self.node_moves, self.cache_moves, self.crowded_ns, self.since) = (0, 0, 0, now);
        self.wakeups.fill(Waits::default());
    }

    pub(super) fn up_to(&mut self, now: Ns) {
        self.crowded_ns += (now - self.since) * self.crowded.min(self.idle);
        self.since = now;
    }

    /// A thread of a core becomes busy or idle.
    pub(super) fn thread_changes(&mut self, now: Ns, core: usize, busy: bool) {
        self.up_to(now);
        let was = self.busy_threads[core];
        let is = if busy { was + 1 } else { was - 1 };
        self.busy_threads[core] = is;
        self.idle = self.idle + u64::from(is == 0) - u64::from(was == 0);
        self.crowded = self.crowded + u64::from(is > 1) - u64::from(was > 1);
    }

    pub(super) fn moved(&mut self, machine: &Machine, from: usize, to: usize) {
        self.cache_moves += u64::from(machine.cache(from) != machine.cache(to));
        self.node_moves += u64::from(machine.node(from) != machine.node(to));
    }

    pub(super) fn woken_ran(&mut self, kind: usize, waited_ns: Ns) {
        if let Some(waits) = self.wakeups.get_mut(kind) {
            waits.add(waited_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_says_no_less_than_what_is_in_it() {
        for ns in (0..100).chain([1000, 1023, 1024, 12_345_678, 3_600_000_000_000]) {
            let said = most(bucket(ns));
            assert!(said >= ns && said <= ns.max(8) * 9 / 8, "{ns}: {said}");
        }
    }

    #[test]
    fn of_a_thousand() {
        let mut waits = Waits::default();
        assert_eq!(waits.permille_ns(990), None);
        for _ in 0..99 {
            waits.add(1000);
        }
        waits.add(1_000_000);
        assert!(waits.permille_ns(990) < Some(1200));
        assert!(waits.permille_ns(995) > Some(900_000));
    }

    #[test]
    fn cores_are_crowded_while_others_are_idle() {
        let machine = Machine { smt: 2, ..Machine::flat(4) };
        let mut placement = Placement::new(&machine, 0);
        placement.thread_changes(0, 0, true);
        placement.thread_changes(0, 0, true);
        placement.thread_changes(30, 1, true);
        placement.up_to(100);
        assert_eq!(placement.crowded_ns, 30);
    }
}
