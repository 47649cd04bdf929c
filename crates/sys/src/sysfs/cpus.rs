// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The host's CPUs: which ones exist, their capacities, clusters and cpufreq policies.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::policy::Policy;
use super::{SysfsError, cpu_list, number, numbered};
use crate::affinity::CpuMask;

/// Top of the kernel's capacity scale (SCHED_CAPACITY_SCALE): the capacity of the largest CPU at
/// its highest frequency.
pub const CAPACITY_MAX: u16 = 1024;

/// The directory `devices/system/cpu`.
#[derive(Clone, Debug)]
pub struct CpuFiles(PathBuf);

impl CpuFiles {
    /// The CPUs below `sys` (`/sys`).
    pub fn below(sys: &Path) -> CpuFiles {
        CpuFiles(sys.join("devices/system/cpu"))
    }

    /// The directory's path, for messages.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The numbers of the CPUs, in ascending order, including CPUs that are offline. Empty if sysfs
    /// cannot be read.
    pub fn numbers(&self) -> Vec<u32> {
        numbered(&self.0, "cpu")
    }

    /// The CPUs that the machine has. `None` if the kernel has no such list.
    ///
    /// # Errors
    /// [`SysfsError`].
    pub fn present(&self) -> Result<Option<CpuMask>, SysfsError> {
        cpu_list(&self.0.join("present"))
    }

    /// The CPUs that are online. `None` if the kernel has no such list.
    ///
    /// # Errors
    /// [`SysfsError`].
    pub fn online(&self) -> Result<Option<CpuMask>, SysfsError> {
        cpu_list(&self.0.join("online"))
    }

    /// The capacity of a CPU as the kernel shows it. `None` if the kernel shows none, because all
    /// CPUs are equal.
    ///
    /// # Errors
    /// [`SysfsError`].
    pub fn capacity(&self, cpu: u32) -> Result<Option<u32>, SysfsError> {
        number(&self.cpu(cpu).join("cpu_capacity"))
    }

    /// The capacity of a CPU, 1..=[`CAPACITY_MAX`]. A CPU without a readable capacity counts as one
    /// of the largest CPUs.
    pub fn capacity_or_full(&self, cpu: u32) -> u16 {
        let shown = self.capacity(cpu).ok().flatten().map(u16::try_from);
        shown.and_then(Result::ok).unwrap_or(CAPACITY_MAX).clamp(1, CAPACITY_MAX)
    }

    /// The CPUs of the cluster of a CPU. `None` if the kernel does not know clusters.
    ///
    /// # Errors
    /// [`SysfsError`].
    pub fn cluster(&self, cpu: u32) -> Result<Option<CpuMask>, SysfsError> {
        cpu_list(&self.cpu(cpu).join("topology/cluster_cpus_list"))
    }

    /// The cpufreq policy of a CPU. Without a cpufreq driver, the policy has no files.
    pub fn policy_of(&self, cpu: u32) -> Policy {
        Policy::at(self.cpu(cpu).join("cpufreq"))
    }

    /// All cpufreq policies, by the number N in their directory's name, `policyN`. Empty without a
    /// cpufreq driver.
    pub fn policies(&self) -> BTreeMap<u32, Policy> {
        let directory = self.0.join("cpufreq");
        let policy = |n| (n, Policy::at(directory.join(format!("policy{n}"))));
        numbered(&directory, "policy").into_iter().map(policy).collect()
    }

    fn cpu(&self, cpu: u32) -> PathBuf {
        self.0.join(format!("cpu{cpu}"))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn cpus_of_two_kinds() {
        let sys = tempfile::tempdir().unwrap();
        let put = |file: &str, text: &str| {
            let path = sys.path().join("devices/system/cpu").join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("online", "0,2\n");
        put("present", "0-2,10\n");
        for cpu in [0, 2, 10] {
            put(&format!("cpu{cpu}/uevent"), "");
        }
        put("cpu0/cpu_capacity", "383\n");
        put("cpu1/cpu_capacity", "0\n");
        put("cpu2/cpu_capacity", "70000\n");
        put("cpu0/topology/cluster_cpus_list", "0-1\n");
        put("cpu2/topology/cluster_cpus_list", "\n");
        put("cpuidle/current_driver", "none\n");
        let cpus = CpuFiles::below(sys.path());
        assert_eq!(cpus.numbers(), [0, 1, 2, 10]);
        assert_eq!(cpus.online().unwrap().unwrap().to_string(), "0,2");
        assert_eq!(cpus.present().unwrap().unwrap().to_string(), "0-2,10");
        assert_eq!([0, 1, 10].map(|cpu| cpus.capacity(cpu).unwrap()), [Some(383), Some(0), None]);
        assert_eq!([0, 1, 2, 10].map(|cpu| cpus.capacity_or_full(cpu)), [383, 1, 1024, 1024]);
        assert_eq!(cpus.cluster(0).unwrap().unwrap().to_string(), "0-1");
        assert_eq!(cpus.cluster(2).unwrap(), None);
    }

    #[test]
    fn a_machine_that_shows_nothing() {
        let cpus = CpuFiles::below(Path::new("/nowhere"));
        assert!(cpus.numbers().is_empty() && cpus.policies().is_empty());
        assert_eq!((cpus.online().unwrap(), cpus.present().unwrap()), (None, None));
    }
}
