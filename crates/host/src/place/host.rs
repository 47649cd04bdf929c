// SPDX-License-Identifier: GPL-2.0-only
//! The host's CPUs, and the names that placements use for them. [`Host`] resolves a placement to
//! CPUs, or reports why it cannot.

use std::cmp::Reverse;
use std::path::Path;

use paracord_sys::affinity::CpuMask;
use paracord_sys::proc::Cpuset;
use paracord_sys::sysfs::CpuFiles;

use super::spec::{Cpus, Placement, Who};
use crate::machine::domains::HostCpus;

/// CPUs of one kind that share a frequency, or equal CPUs that each have a frequency of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// The CPUs, including those that are offline now.
    pub cpus: CpuMask,
    /// Capacity, 1..=1024.
    pub capacity: u16,
    /// Highest frequency; 0: not known.
    pub max_khz: u32,
}

impl Cluster {
    /// Name of the cluster: its first CPU.
    pub fn id(&self) -> u32 {
        self.cpus.iter().next().unwrap_or(0)
    }
}

/// The host's CPUs: which ones exist, and which ones are online.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// The clusters, in order of their first CPUs.
    pub clusters: Vec<Cluster>,
    present: CpuMask,
    online: CpuMask,
}

impl Host {
    /// Reads the host's CPUs from the files below `root` (`/`).
    pub fn read(root: &Path) -> Host {
        let clusters: Vec<Cluster> = HostCpus::read(root)
            .clusters()
            .iter()
            .map(|cluster| Cluster {
                cpus: cluster.cpus.iter().copied().collect(),
                capacity: cluster.capacity,
                max_khz: cluster.max_khz(),
            })
            .collect();
        let known = clusters.iter().fold(CpuMask::default(), |all, one| all.or(&one.cpus));
        let files = CpuFiles::below(&root.join("sys"));
        let present = files.present().ok().flatten().unwrap_or(known);
        // If the kernel shows no list of online CPUs, all present CPUs count as online.
        let online = files.online().ok().flatten().unwrap_or(present);
        Host { clusters, present, online }
    }

    /// Checks that all CPUs in the lists of a placement exist and are online, and that each cluster
    /// or capacity in the placement has a CPU that is online.
    ///
    /// # Errors
    /// One line that names the first part of the placement that fails, and what the host has
    /// instead.
    pub fn check(&self, placement: &Placement) -> Result<(), String> {
        for (who, cpus) in placement.iter() {
            let whom = match who {
                Who::All => "all".to_owned(),
                Who::Vcpu(vcpu_id) => format!("vCPU {vcpu_id}"),
            };
            self.resolve(cpus, 0, None).map_err(|why| format!("{whom}: {why}"))?;
        }
        Ok(())
    }

    /// Returns the CPUs that `cpus` stands for. All returned CPUs are online and in `cpuset`.
    /// `None`: any CPU.
    ///
    /// `rank`: position of the vCPU among those of its VM, for [`Cpus::Auto`]. `cpuset`: the cpuset
    /// of the vCPU's thread.
    ///
    /// # Errors
    /// One line: what is missing, and what to do.
    pub fn resolve(
        &self,
        cpus: Cpus,
        rank: usize,
        cpuset: Option<&Cpuset>,
    ) -> Result<Option<CpuMask>, String> {
        let capacities = || self.clusters.iter().map(|cluster| cluster.capacity);
        let meant = match cpus {
            Cpus::Any => return Ok(None),
            Cpus::Auto => return self.auto(rank, cpuset).map(Some),
            Cpus::List(cpus) => cpus,
            // Offline CPUs of a cluster or of a capacity are skipped. An offline CPU is an error
            // only in a list, because a list names exactly the wanted CPUs.
            Cpus::Cluster(id) => {
                let named = self.clusters.iter().find(|cluster| cluster.id() == id);
                let cluster = named.ok_or_else(|| self.no_cluster(id))?;
                self.usable(cluster.cpus).ok_or(format!("all CPUs of cluster {id} are offline"))?
            }
            Cpus::Largest => self.of_capacity(capacities().max())?,
            Cpus::Smallest => self.of_capacity(capacities().min())?,
        };
        self.check_there(&meant)?;
        if let Some(cpuset) = cpuset {
            check_inside(&meant, cpuset)?;
        }
        Ok(Some(meant))
    }

    /// The cluster that contains all of `cpus`.
    pub fn cluster_around(&self, cpus: &CpuMask) -> Option<&Cluster> {
        self.clusters.iter().find(|cluster| cpus.is_subset(&cluster.cpus))
    }

    fn usable(&self, cpus: CpuMask) -> Option<CpuMask> {
        Some(cpus.and(&self.online)).filter(|cpus| !cpus.is_empty())
    }

    fn of_capacity(&self, capacity: Option<u16>) -> Result<CpuMask, String> {
        let equal = self.clusters.iter().filter(|cluster| Some(cluster.capacity) == capacity);
        let all = equal.fold(CpuMask::default(), |all, cluster| all.or(&cluster.cpus));
        self.usable(all).ok_or_else(|| "all CPUs of that capacity are offline".to_owned())
    }

    /// The CPUs in the order in which `auto` assigns them: the largest first.
    fn by_size(&self) -> Vec<u32> {
        let mut cpus: Vec<_> = self
            .clusters
            .iter()
            .flat_map(|one| {
                one.cpus.iter().map(move |cpu| (Reverse((one.capacity, one.max_khz)), cpu))
            })
            .filter(|(_, cpu)| self.online.contains(*cpu))
            .collect();
        cpus.sort_unstable();
        cpus.into_iter().map(|(_, cpu)| cpu).collect()
    }

    fn auto(&self, rank: usize, cpuset: Option<&Cpuset>) -> Result<CpuMask, String> {
        let mut cpus = self.by_size();
        cpus.retain(|cpu| cpuset.is_none_or(|set| set.cpus.contains(*cpu)));
        // After the last CPU, the assignment starts again with the largest CPU.
        let cpu = cpus.get(rank % cpus.len().max(1));
        cpu.map(|cpu| CpuMask::from_iter([*cpu])).ok_or_else(|| "no CPU is left to it".to_owned())
    }

    fn check_there(&self, cpus: &CpuMask) -> Result<(), String> {
        let missing = cpus.minus(&self.present);
        if !missing.is_empty() {
            return Err(format!(
                "this host has no {}: it has CPUs {}",
                name(&missing),
                self.present
            ));
        }
        let offline = cpus.minus(&self.online);
        if let Some(first) = offline.iter().next() {
            let are = if offline.count() > 1 { "are" } else { "is" };
            return Err(format!(
                "{} {are} offline: echo 1 > /sys/devices/system/cpu/cpu{first}/online, or choose among {}",
                name(&offline),
                self.online
            ));
        }
        Ok(())
    }

    fn no_cluster(&self, id: u32) -> String {
        let there: Vec<_> = self
            .clusters
            .iter()
            .map(|one| format!("{} ({}, capacity {})", one.id(), name(&one.cpus), one.capacity))
            .collect();
        format!("this host has no cluster {id}: it has cluster {}", there.join(", "))
    }
}

fn check_inside(cpus: &CpuMask, cpuset: &Cpuset) -> Result<(), String> {
    let outside = cpus.minus(&cpuset.cpus);
    if outside.is_empty() {
        return Ok(());
    }
    let are = if outside.count() > 1 { "are" } else { "is" };
    Err(format!(
        "{} {are} outside the cpuset of control group {}: widen its cpuset.cpus, or choose among {}",
        name(&outside),
        cpuset.group,
        cpuset.cpus
    ))
}

/// Name of these CPUs in messages: `CPU 4`, `CPUs 4-5`.
pub fn name(cpus: &CpuMask) -> String {
    format!("CPU{} {cpus}", if cpus.count() == 1 { "" } else { "s" })
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    /// A sysfs tree that is removed when this value is dropped.
    pub(crate) struct Root(pub PathBuf);

    impl Root {
        /// Makes CPUs with these capacities; 0: the kernel shows no capacity.
        pub(crate) fn new(name: &str, capacities: &[u32]) -> Root {
            let name = format!("paracord-hosts-{name}-{}", std::process::id());
            let root = Root(std::env::temp_dir().join(name));
            let _ = fs::remove_dir_all(&root.0);
            for (cpu, capacity) in capacities.iter().enumerate() {
                root.put(&format!("cpu{cpu}/topology/core_id"), "0");
                if *capacity > 0 {
                    root.put(&format!("cpu{cpu}/cpu_capacity"), &capacity.to_string());
                }
            }
            let all = format!("0-{}", capacities.len() - 1);
            root.put("present", &all);
            root.put("online", &all);
            root
        }

        pub(crate) fn put(&self, file: &str, text: &str) {
            let file = self.0.join("sys/devices/system/cpu").join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, format!("{text}\n")).unwrap();
        }

        pub(crate) fn policy(&self, cpus: &str, khz: &str) {
            let policy = format!("cpufreq/policy{}", cpus.split(' ').next().unwrap());
            self.put(&format!("{policy}/related_cpus"), cpus);
            self.put(&format!("{policy}/affected_cpus"), cpus);
            self.put(&format!("{policy}/scaling_governor"), "schedutil");
            self.put(&format!("{policy}/scaling_available_frequencies"), khz);
        }

        /// Arm's Juno r2: four small CPUs and two large ones.
        pub(crate) fn juno(name: &str) -> Root {
            let root = Root::new(name, &[383, 383, 383, 383, 1024, 1024]);
            root.policy("0 1 2 3", "450000 950000");
            root.policy("4 5", "600000 1200000");
            root
        }

        pub(crate) fn read(&self) -> Host {
            Host::read(&self.0)
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn clusters(host: &Host) -> Vec<(u32, String, u16)> {
        host.clusters.iter().map(|one| (one.id(), one.cpus.to_string(), one.capacity)).collect()
    }

    fn means(host: &Host, cpus: &str, rank: usize) -> String {
        let placement: Placement = format!("0={cpus}").parse().unwrap();
        match host.resolve(placement.of(0).unwrap(), rank, None) {
            Ok(meant) => meant.map_or("anywhere".into(), |cpus| cpus.to_string()),
            Err(why) => why,
        }
    }

    #[test]
    fn two_clusters() {
        let host = Root::juno("juno").read();
        assert_eq!(clusters(&host), [(0, "0-3".into(), 383), (4, "4-5".into(), 1024)]);
        for (cpus, meant) in [
            ("any", "anywhere"),
            ("1,4", "1,4"),
            ("cluster:0", "0-3"),
            ("cluster:4", "4-5"),
            ("capacity:max", "4-5"),
            ("capacity:min", "0-3"),
        ] {
            assert_eq!(means(&host, cpus, 0), meant);
        }
        // Each vCPU gets its own CPU, the largest CPU first. When no CPU is left, vCPUs share CPUs.
        let auto: Vec<_> = (0..8).map(|rank| means(&host, "auto", rank)).collect();
        assert_eq!(auto, ["4", "5", "0", "1", "2", "3", "4", "5"]);
        let around = |list: &str| host.cluster_around(&list.parse().unwrap()).map(Cluster::id);
        assert_eq!((around("1-2"), around("5"), around("3-4")), (Some(0), Some(4), None));
    }

    #[test]
    fn equal_cpus_with_frequencies_of_their_own_are_one_cluster() {
        let root = Root::new("pstates", &[0; 4]);
        for cpu in ["0", "1", "2", "3"] {
            root.policy(cpu, "1200000 2600000");
        }
        let host = root.read();
        assert_eq!(clusters(&host), [(0, "0-3".into(), 1024)]);
        assert_eq!(means(&host, "capacity:min", 0), "0-3");
        assert_eq!(means(&host, "auto", 2), "2");
    }

    #[test]
    fn without_cpufreq_all_are_one_cluster() {
        let host = Root::new("none", &[0; 3]).read();
        assert_eq!(clusters(&host), [(0, "0-2".into(), 1024)]);
        assert_eq!(means(&host, "cluster:0", 0), "0-2");
        assert_eq!(Host::read(Path::new("/nowhere")).clusters, []);
    }

    #[test]
    fn a_hybrid_hosts_kinds_are_told_by_their_frequencies() {
        let root = Root::new("hybrid", &[0; 6]);
        for cpu in ["0", "1"] {
            root.policy(cpu, "800000 5000000");
        }
        for cpu in ["2", "3", "4", "5"] {
            root.policy(cpu, "800000 3800000");
        }
        let host = root.read();
        assert_eq!(clusters(&host), [(0, "0-1".into(), 1024), (2, "2-5".into(), 1024)]);
        assert_eq!(means(&host, "auto", 2), "2");
        assert_eq!(means(&host, "cluster:2", 0), "2-5");
    }

    #[test]
    fn what_is_missing_is_named_with_what_there_is() {
        let root = Root::juno("missing");
        root.put("online", "0-2,4");
        let host = root.read();
        for (cpus, line) in [
            ("4-7", "this host has no CPUs 6-7: it has CPUs 0-5"),
            (
                "cluster:1",
                "this host has no cluster 1: it has cluster 0 (CPUs 0-3, capacity 383), 4 (CPUs 4-5, capacity 1024)",
            ),
            (
                "4-5",
                "CPU 5 is offline: echo 1 > /sys/devices/system/cpu/cpu5/online, or choose among 0-2,4",
            ),
            // For a cluster or a capacity, only the online CPUs count.
            ("cluster:4", "4"),
            ("capacity:min", "0-2"),
        ] {
            assert_eq!(means(&host, cpus, 0), line);
        }
        let refused = host.check(&"0=0 3=5".parse().unwrap()).unwrap_err();
        assert!(refused.starts_with("vCPU 3: CPU 5 is offline"), "{refused}");
        root.put("online", "0-3");
        assert_eq!(means(&root.read(), "cluster:4", 0), "all CPUs of cluster 4 are offline");
        assert_eq!(means(&root.read(), "capacity:max", 0), "all CPUs of that capacity are offline");
    }

    #[test]
    fn a_cpuset_is_not_left() {
        let host = Root::juno("cpuset").read();
        let set = Cpuset { group: "/machine.slice".into(), cpus: "0-1,4".parse().unwrap() };
        let line = host.resolve(Cpus::Cluster(4), 0, Some(&set)).unwrap_err();
        assert_eq!(
            line,
            "CPU 5 is outside the cpuset of control group /machine.slice: widen its cpuset.cpus, or choose among 0-1,4"
        );
        let auto = |rank| host.resolve(Cpus::Auto, rank, Some(&set)).unwrap().unwrap().to_string();
        assert_eq!([0, 1, 2, 3].map(auto), ["4", "0", "1", "4"]);
    }
}
