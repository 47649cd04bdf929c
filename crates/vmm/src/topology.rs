// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The host's CPUs as sysfs describes them, and the properties that a vCPU takes from a host CPU.

use std::path::{Path, PathBuf};

use paracord_sys::sysfs::{CpuFiles, SysfsError};

/// Why the host's CPUs could not be read.
#[derive(Debug, thiserror::Error)]
pub enum TopologyError {
    /// A file cannot be read, or its content is not what the kernel writes there.
    #[error(transparent)]
    File(#[from] SysfsError),
    /// No CPU is online according to sysfs.
    #[error("{}: lists no CPU: is sysfs mounted?", .0.display())]
    NoCpus(PathBuf),
}

/// One CPU of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostCpu {
    /// Its number.
    pub cpu: u32,
    /// cpu_capacity; kernels of symmetric machines have none.
    pub capacity: Option<u32>,
    /// Lowest CPU of its cluster, which identifies the cluster. (The kernel's own cluster numbers
    /// are arbitrary.)
    pub cluster: Option<u32>,
    /// Lowest CPU of its cpufreq policy.
    pub policy: Option<u32>,
    /// Frequencies of its policy, ascending. If the driver has no table, only the highest
    /// frequency. Empty without a driver.
    pub frequencies_khz: Vec<u32>,
}

/// Where a vCPU runs, and which kind of CPU the guest sees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VcpuPlan {
    /// CPUs of the host that its thread may run on; empty: all.
    pub affinity: Vec<u32>,
    /// Its capacity in the guest.
    pub capacity: Option<u32>,
    /// Its cluster in the guest.
    pub cluster: Option<u32>,
    /// vCPUs with the same number share a frequency.
    pub policy: Option<u32>,
    /// Capacity on the host's scale at the highest of its frequencies.
    pub speed: Option<u32>,
    /// Frequencies of its performance domain, ascending.
    pub frequencies_khz: Vec<u32>,
}

impl VcpuPlan {
    /// A vCPU that is bound to a CPU of the host and has the properties of this CPU.
    pub fn like(host: &HostCpu) -> VcpuPlan {
        VcpuPlan {
            affinity: vec![host.cpu],
            capacity: host.capacity,
            cluster: host.cluster,
            policy: host.policy,
            speed: host.capacity,
            frequencies_khz: host.frequencies_khz.clone(),
        }
    }

    /// If the vCPU has no frequencies, gives it those of the fastest CPU that it may run on.
    /// Returns whether the vCPU has frequencies now.
    pub fn find_frequencies(&mut self, host: &[HostCpu]) -> bool {
        if self.frequencies_khz.is_empty() {
            let may_run =
                |cpu: &&HostCpu| self.affinity.is_empty() || self.affinity.contains(&cpu.cpu);
            let with_table = host.iter().filter(may_run).filter(|c| !c.frequencies_khz.is_empty());
            if let Some(fastest) = with_table.max_by_key(|cpu| cpu.capacity) {
                self.frequencies_khz.clone_from(&fastest.frequencies_khz);
                self.speed = fastest.capacity;
            }
        }
        !self.frequencies_khz.is_empty()
    }
}

/// The CPUs that are online. `sys` is where sysfs is mounted.
///
/// # Errors
/// [`TopologyError`]. It is not an error if the kernel lacks an optional file.
pub fn host_cpus(sys: &Path) -> Result<Vec<HostCpu>, TopologyError> {
    let cpus = CpuFiles::below(sys);
    let no_cpus = || TopologyError::NoCpus(cpus.path().join("online"));
    let online = cpus.online()?.ok_or_else(no_cpus)?;
    online.iter().map(|cpu| Ok(read_cpu(&cpus, cpu)?)).collect()
}

fn read_cpu(cpus: &CpuFiles, cpu: u32) -> Result<HostCpu, SysfsError> {
    let policy = cpus.policy_of(cpu);
    let mut frequencies_khz = policy.listed_khz()?;
    if frequencies_khz.is_empty() {
        frequencies_khz.extend(policy.max_khz()?);
    }
    frequencies_khz.sort_unstable();
    frequencies_khz.dedup();
    Ok(HostCpu {
        cpu,
        capacity: cpus.capacity(cpu)?,
        cluster: cpus.cluster(cpu)?.and_then(|cluster| cluster.iter().next()),
        policy: policy.related_cpus()?.iter().next(),
        frequencies_khz,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A sysfs with the given files below devices/system/cpu.
    fn tree(name: &str, files: &[(&str, &str)]) -> PathBuf {
        let root = std::env::temp_dir().join(format!("paracord-vmm-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        for (path, content) in files {
            let path = root.join("devices/system/cpu").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        root
    }

    #[test]
    fn a_machine_of_two_clusters() {
        let root = tree(
            "juno",
            &[
                ("online", "0,2\n"),
                ("cpu0/cpu_capacity", "383\n"),
                ("cpu0/topology/cluster_cpus_list", "0-1\n"),
                ("cpu0/cpufreq/related_cpus", "0 1\n"),
                ("cpu0/cpufreq/scaling_available_frequencies", "950000 450000 800000 \n"),
                ("cpu2/cpu_capacity", "1024\n"),
                ("cpu2/topology/cluster_cpus_list", "2-3\n"),
                ("cpu2/cpufreq/related_cpus", "2 3\n"),
                ("cpu2/cpufreq/scaling_available_frequencies", "600000 1200000\n"),
            ],
        );
        let cpus = host_cpus(&root).unwrap();
        assert_eq!(
            cpus[0],
            HostCpu {
                cpu: 0,
                capacity: Some(383),
                cluster: Some(0),
                policy: Some(0),
                frequencies_khz: vec![450_000, 800_000, 950_000],
            }
        );
        assert_eq!((cpus.len(), cpus[1].cpu, cpus[1].cluster), (2, 2, Some(2)));
        assert_eq!(VcpuPlan::like(&cpus[1]).affinity, [2]);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_vcpu_has_the_frequencies_of_the_fastest_cpu_that_it_may_run_on() {
        let cpu = |cpu, capacity, khz: &[u32]| HostCpu {
            cpu,
            capacity: Some(capacity),
            frequencies_khz: khz.to_vec(),
            ..HostCpu::default()
        };
        let host = [cpu(0, 383, &[1, 2]), cpu(1, 1024, &[3]), cpu(2, 1024, &[])];
        let found = |affinity: &[u32]| {
            let mut plan = VcpuPlan { affinity: affinity.to_vec(), ..VcpuPlan::default() };
            plan.find_frequencies(&host).then_some((plan.speed, plan.frequencies_khz))
        };
        assert_eq!(found(&[]), Some((Some(1024), vec![3])));
        assert_eq!(found(&[0, 2]), Some((Some(383), vec![1, 2])));
        assert_eq!(found(&[2]), None);
    }

    #[test]
    fn a_machine_that_says_little() {
        let root = tree("plain", &[("online", "0-1\n"), ("cpu1/topology/cluster_cpus_list", "\n")]);
        let cpus = host_cpus(&root).unwrap();
        assert_eq!(cpus[1], HostCpu { cpu: 1, ..HostCpu::default() });
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn errors_name_the_file() {
        let root = tree("broken", &[("online", "0\n"), ("cpu0/cpu_capacity", "large\n")]);
        let error = host_cpus(&root).unwrap_err().to_string();
        assert!(error.ends_with("cpu0/cpu_capacity: \"large\" is no number"), "{error}");
        fs::remove_dir_all(&root).unwrap();
        assert!(host_cpus(&root).unwrap_err().to_string().contains("cpu/online"));
    }
}
