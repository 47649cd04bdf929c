// SPDX-License-Identifier: GPL-2.0-only
//! Events whose handling was left, of a machine `K`, and who has which lock.

use crate::bpf::{Fiber, Pause};

/// What is under way.
pub struct Races<K> {
    /// Fibers that were left.
    pub under_way: Vec<UnderWay<K>>,
    /// By CPU: which fiber has the run queue's lock, how many times.
    pub locks: Vec<Option<(u64, u32)>>,
    /// The fiber that runs.
    pub running: u64,
    /// Fibers so far.
    pub made: u64,
    /// Points so far.
    pub points: u64,
}

/// A fiber that was left.
pub struct UnderWay<K> {
    pub number: u64,
    pub cpu: usize,
    pub this_cpu: usize,
    pub left: Pause,
    pub fiber: Fiber<K>,
}

impl<K> Races<K> {
    /// None yet, on a machine with so many CPUs.
    pub fn new(cpus: usize) -> Self {
        Races { under_way: Vec::new(), locks: vec![None; cpus], running: 0, made: 0, points: 0 }
    }
}
