// SPDX-License-Identifier: GPL-2.0-only

use std::fs;
use std::path::PathBuf;

use super::*;

const CPUS: &str = "sys/devices/system/cpu";

/// A root directory that is removed when this value is dropped.
struct Root(PathBuf);

impl Root {
    /// Makes CPUs with these capacities; `None`: the kernel shows no capacity.
    fn new(name: &str, capacities: &[Option<u32>]) -> Root {
        let root =
            std::env::temp_dir().join(format!("paracord-domains-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        for (cpu, capacity) in capacities.iter().enumerate() {
            let directory = root.join(format!("{CPUS}/cpu{cpu}"));
            fs::create_dir_all(&directory).unwrap();
            if let Some(capacity) = capacity {
                fs::write(directory.join("cpu_capacity"), format!("{capacity}\n")).unwrap();
            }
        }
        Root(root)
    }

    fn policy(self, cpus: &[u32], files: &[(&str, &str)]) -> Root {
        let directory = self.0.join(format!("{CPUS}/cpufreq/policy{}", cpus[0]));
        fs::create_dir_all(&directory).unwrap();
        let list: Vec<String> = cpus.iter().map(u32::to_string).collect();
        fs::write(directory.join("related_cpus"), list.join(" ") + "\n").unwrap();
        for (file, text) in files {
            fs::write(directory.join(file), format!("{text}\n")).unwrap();
        }
        self
    }

    fn read(&self) -> HostCpus {
        HostCpus::read(&self.0)
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const LISTED: &str = "scaling_available_frequencies";

fn juno(name: &str) -> Root {
    let capacities = [383, 383, 383, 383, 1024, 1024].map(Some);
    Root::new(name, &capacities)
        .policy(&[0, 1, 2, 3], &[(LISTED, "450000 800000 950000 ")])
        .policy(&[4, 5], &[(LISTED, "600000 1000000 1200000 ")])
}

#[test]
fn two_clusters_and_any_cpu() {
    let host = juno("juno").read();
    let table = host.table();
    let shown: Vec<_> = table.iter().map(|d| (d.capacity, d.max_khz, d.shared)).collect();
    assert_eq!(shown, [(1024, 1_200_000, false), (383, 950_000, true), (1024, 1_200_000, true)]);
    assert_eq!(table[0].levels, [182, 323, 383, 512, 854, 1024]);
    assert_eq!(table[1].levels, [486, 863, 1024]);
    assert_eq!(host.lacking(), None);
    let domain = |cpus: &[u32]| host.domain_of(&cpus.iter().copied().collect());
    assert_eq!(domain(&[1, 2]), Some(1));
    assert_eq!(domain(&[5]), Some(2));
    assert_eq!((domain(&[3, 4]), domain(&[]), domain(&[77])), (Some(0), Some(0), Some(0)));
    // CPUs 6 and 7 do not exist, but the kernel's masks may include CPUs that do not exist.
    assert_eq!((domain(&[4, 5, 6, 7]), host.domain_of(&CpuMask::ALL)), (Some(2), Some(0)));
    assert_eq!(host.cluster_of(5).map(|c| (c.id(), c.capacity)), Some((4, 1024)));
    assert_eq!(host.cluster_of(6), None);
}

#[test]
fn equal_cpus_with_frequencies_of_their_own_are_one_domain() {
    let host = Root::new("pstates", &[None, None])
        .policy(&[0], &[(LISTED, "2600000 1200000 2000000")])
        .policy(&[1], &[(LISTED, "2600000 1200000 2000000")])
        .read();
    assert_eq!(host.table().len(), 1);
    assert_eq!(host.table()[0].levels, [473, 788, 1024]);
    assert_eq!(host.domain_of(&CpuMask::from_iter([1])), Some(0));
    assert_eq!(host.cluster_of(1).map(Cluster::id), Some(0));
}

#[test]
fn a_driver_that_lists_nothing_has_even_steps() {
    let limits = [("cpuinfo_min_freq", "800000"), ("cpuinfo_max_freq", "4700000")];
    let host = Root::new("pstate", &[None]).policy(&[0], &limits).read();
    let levels = &host.table()[0].levels;
    assert_eq!((levels.len(), levels[0], levels[31]), (STEPS as usize, 175, 1024));
}

#[test]
fn boost_frequencies_count_while_the_hardware_may_use_them() {
    for (name, max, expected) in [("on", "3000000", 3_000_000), ("off", "2000000", 2_000_000)] {
        let files = [
            (LISTED, "1000000 2000000"),
            ("scaling_boost_frequencies", "3000000"),
            ("cpuinfo_max_freq", max),
        ];
        let host = Root::new(name, &[None]).policy(&[0], &files).read();
        assert_eq!(host.table()[0].max_khz, expected);
    }
}

#[test]
fn without_cpufreq_capacities_are_known_and_nothing_can_be_asked_for() {
    let host = Root::new("none", &[Some(400), Some(1024), Some(400)]).read();
    assert!(host.table().is_empty());
    assert_eq!(host.domain_of(&CpuMask::from_iter([0])), None);
    assert!(host.lacking().unwrap().contains("cannot ask for performance"));
    assert_eq!(host.cluster_of(2).map(|c| (c.id(), c.capacity, c.max_khz())), Some((0, 400, 0)));
    assert_eq!(HostCpus::read(Path::new("/nowhere")), HostCpus::default());
}

#[test]
fn what_the_table_cannot_hold_is_folded_or_left_to_any_cpu() {
    let cpus = [Some(1024); 40];
    let shared = (0..20).fold(Root::new("many", &cpus), |root, n| {
        root.policy(&[2 * n, 2 * n + 1], &[(LISTED, "1000000 2000000")])
    });
    // Twenty equal clusters are one kind of CPU.
    let host = shared.read();
    assert_eq!((host.table().len(), host.table()[0].shared, host.lacking()), (1, false, None));
    let differ = (0..20).fold(Root::new("differ", &cpus), |root, n| {
        root.policy(&[2 * n, 2 * n + 1], &[(LISTED, &format!("1000000 {}", 2_000_000 + n))])
    });
    let host = differ.read();
    assert_eq!(host.table().len(), layout::PARACORD_DOMAINS_MAX as usize);
    assert_eq!(host.domain_of(&CpuMask::from_iter([28, 29])), Some(15));
    assert_eq!(host.domain_of(&CpuMask::from_iter([30])), Some(0));
    assert!(host.lacking().unwrap().starts_with("5 of 20 kinds"));
}
