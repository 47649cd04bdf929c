// SPDX-License-Identifier: GPL-2.0-only
//! Which CPUs share a cache, as the scheduler needs it: a ring.
//!
//! A CPU that has nothing to run looks at the others along the ring, so those that share
//! its last cache come first, wherever it starts.

use std::{collections::BTreeMap, fs, path::Path};

/// CPUs by the first CPU of those that share their last cache.
pub(crate) type Groups = BTreeMap<usize, Vec<usize>>;

/// First number of a list such as `0-3,8-11`.
fn first(list: &str) -> Option<usize> {
    list.trim().split([',', '-']).next()?.parse().ok()
}

/// The last cache that the kernel describes for a CPU; its own number where there is none.
fn group(cpu: usize, directory: &Path) -> usize {
    (0..=4)
        .rev()
        .find_map(|level| {
            let list = directory.join(format!("cache/index{level}/shared_cpu_list"));
            fs::read_to_string(list).ok().and_then(|list| first(&list))
        })
        .unwrap_or(cpu)
}

/// The host's.
pub(crate) fn read() -> Groups {
    let mut groups = Groups::new();
    for entry in fs::read_dir("/sys/devices/system/cpu").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|n| n.strip_prefix("cpu")).and_then(|n| n.parse().ok());
        if let Some(cpu) = number {
            groups.entry(group(cpu, &entry.path())).or_default().push(cpu);
        }
    }
    for cpus in groups.values_mut() {
        cpus.sort_unstable();
    }
    groups
}

/// Each CPU's successor, of `count` CPUs; those that no group names come last.
pub(crate) fn ring(groups: &Groups, count: usize) -> Vec<u32> {
    let mut order: Vec<usize> =
        groups.values().flatten().copied().filter(|cpu| *cpu < count).collect();
    order.extend((0..count).filter(|cpu| !groups.values().flatten().any(|known| known == cpu)));
    let mut next = vec![0; count];
    for (place, cpu) in order.iter().enumerate() {
        let successor = order[(place + 1) % order.len()];
        next[*cpu] = u32::try_from(successor).unwrap_or(0);
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_passes_every_cpu_once_and_its_own_cache_first() {
        let groups = Groups::from([(0, vec![0, 1, 4, 5]), (2, vec![2, 3])]);
        let next = ring(&groups, 8);
        let mut cpu = 0;
        let mut path = Vec::new();
        for _ in 0..8 {
            path.push(cpu);
            cpu = next[cpu as usize];
        }
        assert_eq!(path, [0, 1, 4, 5, 2, 3, 6, 7]);
        assert_eq!(cpu, 0);
    }

    #[test]
    fn lists_of_cpus() {
        assert_eq!(first("4-7,12\n"), Some(4));
        assert_eq!(first("9"), Some(9));
        assert_eq!(first(""), None);
    }
}
