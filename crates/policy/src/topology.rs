// SPDX-License-Identifier: GPL-2.0-only
//! The distances between CPUs, in the form that the scheduler needs (`pc_near`): rings of CPUs, and
//! the node and the cache of each CPU.
//!
//! A ring visits each of its CPUs once. The CPUs of a node are consecutive, and within a node the
//! CPUs of a last-level cache are consecutive. So a search along a ring visits near CPUs first.

use std::collections::BTreeMap;

use crate::{
    PC_CACHES_MAX, PC_NEAR_CACHE, PC_NEAR_LEVELS, PC_NEAR_NODE, PC_NO_CACHE, PC_NO_NODE,
    PC_NODES_MAX, pc_near,
};

/// The place of a CPU in the topology. Any numbers that distinguish nodes and caches are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The node.
    pub node: usize,
    /// The last-level cache. It lies in one node.
    pub cache: usize,
}

/// One record per CPU, in the order of `places`.
#[must_use]
pub fn near(places: &[Place]) -> Vec<pc_near> {
    let nodes = numbers(places.iter().map(|place| place.node));
    let caches = numbers(places.iter().map(|place| (place.node, place.cache)));
    let node = |cpu: usize| nodes[&places[cpu].node].min(PC_NODES_MAX as usize - 1);
    let cache = |cpu: usize| caches[&(places[cpu].node, places[cpu].cache)];
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by_key(|cpu| (node(*cpu), cache(*cpu), *cpu));
    let rings = [
        ring(&order, |cpu| (node(cpu), cache(cpu))),
        ring(&order, |cpu| (node(cpu), 0)),
        ring(&order, |_| (0, 0)),
    ];
    let tells_caches = caches.len() <= PC_CACHES_MAX as usize;
    (0..places.len())
        .map(|cpu| {
            let mut record =
                pc_near { next: [0; PC_NEAR_LEVELS as usize], within: 0, node: 0, cache: 0 };
            let lengths = rings.each_ref().map(|ring| ring[cpu].1);
            for (level, ring) in rings.iter().enumerate() {
                let adds = level == 0 || lengths[level] > lengths[level - 1];
                record.next[level] = short(if adds { ring[cpu].0 } else { cpu });
            }
            let (in_cache, in_node, all) = (lengths[0], lengths[1], lengths[2]);
            let widest = if in_node > in_cache { PC_NEAR_NODE } else { PC_NEAR_CACHE };
            record.within = short(widest as usize);
            record.node = short(if in_node < all { node(cpu) } else { PC_NO_NODE as usize });
            record.cache = if tells_caches && in_cache < in_node {
                short(cache(cpu))
            } else {
                PC_NO_CACHE as u16
            };
            record
        })
        .collect()
}

/// Numbers the distinct keys from 0, in ascending order.
fn numbers<T: Ord>(of: impl Iterator<Item = T>) -> BTreeMap<T, usize> {
    let mut numbers: BTreeMap<T, usize> = of.map(|key| (key, 0)).collect();
    numbers.values_mut().enumerate().for_each(|(number, value)| *value = number);
    numbers
}

/// For each CPU, its successor in its group and the size of the group. The CPUs of a group are
/// consecutive in `order`.
fn ring(order: &[usize], group: impl Fn(usize) -> (usize, usize)) -> Vec<(usize, usize)> {
    let mut ring = vec![(0, 0); order.len()];
    for cpus in order.chunk_by(|one, other| group(*one) == group(*other)) {
        for (place, cpu) in cpus.iter().enumerate() {
            ring[*cpu] = (cpus[(place + 1) % cpus.len()], cpus.len());
        }
    }
    ring
}

/// Converts the number of a CPU, a node or a cache. All these numbers are below `u16::MAX`.
fn short(number: usize) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CACHE: usize = PC_NEAR_CACHE as usize;
    const NODE: usize = PC_NEAR_NODE as usize;
    const ALL: usize = crate::PC_NEAR_ALL as usize;

    fn places(of: &[(usize, usize)]) -> Vec<Place> {
        of.iter().map(|(node, cache)| Place { node: *node, cache: *cache }).collect()
    }

    /// The CPUs of a ring, starting with `first`.
    fn path(near: &[pc_near], first: usize, ring: usize) -> Vec<usize> {
        let mut path = vec![first];
        loop {
            let next = usize::from(near[path[path.len() - 1]].next[ring]);
            if next == first {
                return path;
            }
            path.push(next);
        }
    }

    #[test]
    fn a_ring_passes_every_cpu_once_and_what_is_near_first() {
        // Two nodes whose CPU numbers alternate. The first node has two caches.
        let near = near(&places(&[(0, 0), (3, 5), (0, 0), (3, 5), (0, 4), (3, 5), (0, 4), (3, 5)]));
        assert_eq!(path(&near, 0, CACHE), [0, 2]);
        assert_eq!(path(&near, 0, NODE), [0, 2, 4, 6]);
        assert_eq!(path(&near, 0, ALL), [0, 2, 4, 6, 1, 3, 5, 7]);
        assert_eq!(path(&near, 1, CACHE), [1, 3, 5, 7]);
        assert_eq!(path(&near, 1, NODE), [1], "the node is one cache");
        assert_eq!((near[0].within, near[1].within), (NODE as u16, CACHE as u16));
        assert_eq!((near[0].node, near[1].node), (0, 1));
        assert_eq!((near[4].cache, near[1].cache), (1, PC_NO_CACHE as u16));
    }

    #[test]
    fn one_node_is_left_by_nobody() {
        for of in [vec![(0, 0); 4], vec![(0, 0), (0, 0), (0, 1), (0, 1)], vec![(7, 1)]] {
            let near = near(&places(&of));
            assert!(near.iter().all(|near| u32::from(near.node) == PC_NO_NODE), "{of:?}");
            assert_eq!(path(&near, 0, near[0].within.into()).len(), of.len(), "{of:?}");
        }
    }

    #[test]
    fn more_nodes_than_there_are_records_for() {
        let near = near(&places(&(0..200).map(|cpu| (cpu, cpu)).collect::<Vec<_>>()));
        assert!(near.iter().all(|near| u32::from(near.node) < PC_NODES_MAX));
        assert_eq!(path(&near, 0, ALL).len(), 200);
        assert_eq!(path(&near, 199, NODE).len(), 137, "the last one has the rest");
    }
}
