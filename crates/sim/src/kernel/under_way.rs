// SPDX-License-Identifier: GPL-2.0-only
//! Fibers that were paused while they handled events on a machine `K`, and the owners of locks.

use crate::bpf::{Fiber, Pause};

/// The state of races.
pub struct Races<K> {
    /// Fibers that are paused.
    pub under_way: Vec<UnderWay<K>>,
    /// For each CPU, the fiber that holds the run queue's lock, and how many times.
    pub locks: Vec<Option<(u64, u32)>>,
    /// Number of the running fiber.
    pub running: u64,
    /// Number of fibers so far.
    pub made: u64,
    /// Number of points so far.
    pub points: u64,
}

/// A paused fiber.
pub struct UnderWay<K> {
    pub number: u64,
    pub cpu: usize,
    pub this_cpu: usize,
    pub left: Pause,
    pub fiber: Fiber<K>,
}

impl<K> Races<K> {
    /// The state of a machine with this many CPUs, without fibers.
    pub fn new(cpus: usize) -> Self {
        Races { under_way: Vec::new(), locks: vec![None; cpus], running: 0, made: 0, points: 0 }
    }
}
