// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The host's CPUs as sysfs describes them, and what a vCPU takes over of one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::cpu_list::{self, CpuListError};

/// Why the host's CPUs could not be read.
#[derive(Debug, thiserror::Error)]
pub enum TopologyError {
    /// A file that every kernel has is missing or unreadable.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A list of CPUs that is none.
    #[error("{}: {source}", path.display())]
    CpuList {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: CpuListError,
    },
    /// A number that is none.
    #[error("{}: {value:?} is no number", path.display())]
    Number {
        /// The file.
        path: PathBuf,
        /// What it holds.
        value: String,
    },
}

/// One CPU of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostCpu {
    /// Its number.
    pub cpu: u32,
    /// cpu_capacity; kernels of symmetric machines have none.
    pub capacity: Option<u32>,
    /// Lowest CPU of its cluster: the kernel's own cluster numbers are arbitrary.
    pub cluster: Option<u32>,
    /// Lowest CPU of its cpufreq policy.
    pub policy: Option<u32>,
    /// Frequencies of its policy, ascending: the highest alone where the driver has no table, none
    /// without a driver.
    pub frequencies_khz: Vec<u32>,
}

/// Where a vCPU runs, and as what kind of CPU the guest sees it.
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
    /// A vCPU that is bound to a CPU of the host and looks like it.
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

    /// Gives a vCPU that has none the frequencies of the fastest CPU that it may run on. Returns whether it
    /// has some now.
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
/// [`TopologyError`]; what a kernel may lack is not one.
pub fn host_cpus(sys: &Path) -> Result<Vec<HostCpu>, TopologyError> {
    let cpus = sys.join("devices/system/cpu");
    let online = cpus.join("online");
    let text = fs::read_to_string(&online)
        .map_err(|source| TopologyError::Io { path: online.clone(), source })?;
    let online = parse_list(&online, &text)?;
    online.into_iter().map(|cpu| read_cpu(&cpus.join(format!("cpu{cpu}")), cpu)).collect()
}

fn read_cpu(directory: &Path, cpu: u32) -> Result<HostCpu, TopologyError> {
    let policy = directory.join("cpufreq");
    let mut frequencies_khz = numbers(&policy.join("scaling_available_frequencies"))?;
    if frequencies_khz.is_empty() {
        frequencies_khz = numbers(&policy.join("cpuinfo_max_freq"))?;
    }
    frequencies_khz.sort_unstable();
    frequencies_khz.dedup();
    Ok(HostCpu {
        cpu,
        capacity: numbers(&directory.join("cpu_capacity"))?.first().copied(),
        cluster: first_cpu(&directory.join("topology/cluster_cpus_list"))?,
        policy: numbers(&policy.join("related_cpus"))?.first().copied(),
        frequencies_khz,
    })
}

/// Content of a file that need not exist.
fn read(path: &Path) -> Result<Option<String>, TopologyError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(TopologyError::Io { path: path.to_owned(), source }),
    }
}

fn numbers(path: &Path) -> Result<Vec<u32>, TopologyError> {
    let text = read(path)?.unwrap_or_default();
    let number = |word: &str| {
        word.parse()
            .map_err(|_| TopologyError::Number { path: path.to_owned(), value: word.to_owned() })
    };
    text.split_whitespace().map(number).collect()
}

fn first_cpu(path: &Path) -> Result<Option<u32>, TopologyError> {
    let text = read(path)?.filter(|text| !text.trim().is_empty());
    text.map_or(Ok(None), |text| Ok(parse_list(path, &text)?.first().copied()))
}

fn parse_list(path: &Path, text: &str) -> Result<Vec<u32>, TopologyError> {
    cpu_list::parse(text).map_err(|source| TopologyError::CpuList { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
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
