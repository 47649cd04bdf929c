// SPDX-License-Identifier: GPL-2.0-only
//! The host's shape, from sysfs: the node and the last cache of each CPU.

use std::{fs, path::Path};

use paracord_policy::topology::Place;

/// First number of a list such as `0-3,8-11`.
fn first(list: &str) -> Option<usize> {
    list.trim().split([',', '-']).next()?.parse().ok()
}

/// The last cache that the kernel describes for a CPU, by the first CPU that shares it; its own number where there is none.
fn cache(cpu: usize, directory: &Path) -> usize {
    (0..=4)
        .rev()
        .find_map(|level| {
            let list = directory.join(format!("cache/index{level}/shared_cpu_list"));
            fs::read_to_string(list).ok().and_then(|list| first(&list))
        })
        .unwrap_or(cpu)
}

/// A kernel without NUMA has one node, and no names for it.
fn node(directory: &Path) -> usize {
    let names =
        fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let mut nodes = names.filter_map(|name| name.to_str()?.strip_prefix("node")?.parse().ok());
    nodes.next().unwrap_or(0)
}

/// CPUs that the kernel leaves without a tick where it can (`nohz_full=`).
pub(crate) fn tickless() -> Vec<usize> {
    let text = fs::read_to_string("/sys/devices/system/cpu/nohz_full").unwrap_or_default();
    list(&text)
}

/// The numbers of a list such as `0-3,8`; none of `(null)`, which some kernels write for nothing.
fn list(text: &str) -> Vec<usize> {
    let span = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    text.trim().split(',').filter_map(span).flatten().collect()
}

/// Of `count` CPUs, those included that are offline or may come later.
pub(crate) fn read(count: usize) -> Vec<Place> {
    read_from(Path::new("/sys/devices/system/cpu"), count)
}

fn read_from(cpus: &Path, count: usize) -> Vec<Place> {
    let place = |cpu: usize| {
        let directory = cpus.join(format!("cpu{cpu}"));
        Place { node: node(&directory), cache: cache(cpu, &directory) }
    };
    (0..count).map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_and_caches_of_a_host() {
        let directory = tempfile::tempdir().unwrap();
        for (cpu, node, shared) in [(0, 0, Some("0-1\n")), (1, 0, Some("0-1\n")), (2, 1, None)] {
            let cpu = directory.path().join(format!("cpu{cpu}"));
            fs::create_dir_all(cpu.join(format!("node{node}"))).unwrap();
            for (level, text) in [(0, "9\n"), (3, shared.unwrap_or_default())] {
                let index = cpu.join(format!("cache/index{level}"));
                fs::create_dir_all(&index).unwrap();
                if shared.is_some() {
                    fs::write(index.join("shared_cpu_list"), text).unwrap();
                }
            }
        }
        let places = read_from(directory.path(), 4);
        let places: Vec<_> = places.iter().map(|place| (place.node, place.cache)).collect();
        assert_eq!(places, [(0, 0), (0, 0), (1, 2), (0, 3)]);
    }

    #[test]
    fn lists_of_cpus() {
        assert_eq!(first("4-7,12\n"), Some(4));
        assert_eq!(first("9"), Some(9));
        assert_eq!(first(""), None);
        assert_eq!(list("1-3,7\n"), [1, 2, 3, 7]);
        assert_eq!(list("(null)\n"), [0; 0]);
        assert_eq!(list("\n"), [0; 0]);
    }
}
