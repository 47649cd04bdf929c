// SPDX-License-Identifier: GPL-2.0-only
//! The host's topology, from sysfs: the NUMA node and the last-level cache of each CPU.

use std::{fs, path::Path};

use paracord_policy::topology::Place;
use paracord_sys::affinity::CpuMask;
use paracord_sys::sysfs::cpu_list;

/// The CPUs that a sysfs file lists. Empty if the file does not exist or lists no CPU. (Some
/// kernels write `(null)` for an empty list.)
fn list(file: &Path) -> CpuMask {
    cpu_list(file).ok().flatten().unwrap_or_default()
}

/// The last-level cache of a CPU, identified by the number of the first CPU that shares it. If the
/// kernel describes no cache, this is the CPU's own number.
fn cache(cpu: usize, directory: &Path) -> usize {
    (0..=4)
        .rev()
        .find_map(|level| {
            let shared = directory.join(format!("cache/index{level}/shared_cpu_list"));
            list(&shared).iter().next()
        })
        .map_or(cpu, |first| first as usize)
}

/// The NUMA node of a CPU. A kernel without NUMA has one node, and sysfs does not name it.
fn node(directory: &Path) -> usize {
    let names =
        fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let mut nodes = names.filter_map(|name| name.to_str()?.strip_prefix("node")?.parse().ok());
    nodes.next().unwrap_or(0)
}

/// CPUs whose tick the kernel stops when it can (`nohz_full=`).
pub(crate) fn tickless() -> CpuMask {
    list(Path::new("/sys/devices/system/cpu/nohz_full"))
}

/// The places of `count` CPUs, including CPUs that are offline or may be added later.
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
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("nohz_full");
        for (text, cpus) in
            [("1-3,7\n", vec![1, 2, 3, 7]), ("9", vec![9]), ("(null)\n", vec![]), ("\n", vec![])]
        {
            fs::write(&file, text).unwrap();
            assert_eq!(list(&file).iter().collect::<Vec<_>>(), cpus, "{text:?}");
        }
        assert!(list(&directory.path().join("absent")).is_empty());
    }
}
