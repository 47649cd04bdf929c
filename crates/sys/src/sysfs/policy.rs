// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! cpufreq policies: CPUs that share one frequency.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::{SysfsError, number, numbers, text};
use crate::affinity::CpuMask;

/// Size of a buffer that is large enough for any number of kHz.
const NUMBER_BYTES: usize = 32;

/// The directory of a policy. Each method reads one file at the time of the call. A policy whose
/// CPUs are all offline has files that cannot be read.
#[derive(Clone, Debug)]
pub struct Policy(PathBuf);

impl Policy {
    pub(super) fn at(directory: PathBuf) -> Policy {
        Policy(directory)
    }

    /// All CPUs of the policy, including CPUs that are offline; empty if the file does not exist.
    ///
    /// # Errors
    /// [`SysfsError`].
    pub fn related_cpus(&self) -> Result<CpuMask, SysfsError> {
        cpus(&self.0.join("related_cpus"))
    }

    /// The CPUs of the policy that are online; empty if the file does not exist.
    ///
    /// # Errors
    /// [`SysfsError`].
    pub fn affected_cpus(&self) -> Result<CpuMask, SysfsError> {
        cpus(&self.0.join("affected_cpus"))
    }

    /// Name of the driver.
    ///
    /// # Errors
    /// [`SysfsError::Io`].
    pub fn driver(&self) -> Result<Option<String>, SysfsError> {
        text(&self.0.join("scaling_driver"))
    }

    /// Name of the governor.
    ///
    /// # Errors
    /// [`SysfsError::Io`].
    pub fn governor(&self) -> Result<Option<String>, SysfsError> {
        text(&self.0.join("scaling_governor"))
    }

    /// Lowest frequency of the hardware.
    ///
    /// # Errors
    /// [`SysfsError`].
    pub fn min_khz(&self) -> Result<Option<u32>, SysfsError> {
        number(&self.0.join("cpuinfo_min_freq"))
    }

    /// Highest frequency of the hardware. Boost frequencies count only while they are switched on.
    ///
    /// # Errors
    /// [`SysfsError`].
    pub fn max_khz(&self) -> Result<Option<u32>, SysfsError> {
        number(&self.0.join("cpuinfo_max_freq"))
    }

    /// The frequencies that the driver lists, without boost frequencies, in the driver's order.
    /// Empty if the driver accepts any frequency.
    ///
    /// # Errors
    /// [`SysfsError`].
    pub fn listed_khz(&self) -> Result<Vec<u32>, SysfsError> {
        numbers(&self.0.join("scaling_available_frequencies"))
    }

    /// The boost frequencies that the driver lists, including those that are switched off.
    ///
    /// # Errors
    /// [`SysfsError`].
    pub fn boost_khz(&self) -> Result<Vec<u32>, SysfsError> {
        numbers(&self.0.join("scaling_boost_frequencies"))
    }

    /// Opens the file with the current frequency. `None` without a cpufreq driver.
    pub fn current(&self) -> Option<CurrentFrequency> {
        File::open(self.0.join("scaling_cur_freq")).ok().map(CurrentFrequency)
    }
}

/// The current frequency of a policy. The file stays open, so that reading it again is cheap. If
/// the policy's last CPU goes offline and online again, the open file can no longer be read.
#[derive(Debug)]
pub struct CurrentFrequency(File);

impl CurrentFrequency {
    /// The current frequency. `None` if the kernel does not know it.
    pub fn khz(&self) -> Option<u32> {
        let mut bytes = [0; NUMBER_BYTES];
        let read = self.0.read_at(&mut bytes, 0).ok()?;
        std::str::from_utf8(&bytes[..read]).ok()?.trim().parse().ok()
    }
}

/// The CPUs that a file lists, separated by spaces. CPUs that do not fit into a mask are ignored.
fn cpus(path: &Path) -> Result<CpuMask, SysfsError> {
    Ok(numbers::<u32>(path)?.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::CpuFiles;

    #[test]
    fn every_file_of_a_policy() {
        let sys = tempfile::tempdir().unwrap();
        let base = sys.path().join("devices/system/cpu/cpufreq");
        for (policy, file, text) in [
            ("policy10", "related_cpus", "10\n"),
            ("policy2", "related_cpus", "2 3\n"),
            ("policy2", "affected_cpus", "3\n"),
            ("policy2", "scaling_driver", "cpufreq-dt\n"),
            ("policy2", "scaling_governor", "schedutil\n"),
            ("policy2", "cpuinfo_min_freq", "600000\n"),
            ("policy2", "cpuinfo_max_freq", "1200000\n"),
            ("policy2", "scaling_available_frequencies", "1000000 600000 \n"),
            ("policy2", "scaling_boost_frequencies", "1200000 \n"),
            ("policy2", "scaling_cur_freq", "600000\n"),
            ("schedutil", "rate_limit_us", "1000\n"),
        ] {
            fs::create_dir_all(base.join(policy)).unwrap();
            fs::write(base.join(policy).join(file), text).unwrap();
        }
        let policies = CpuFiles::below(sys.path()).policies();
        assert_eq!(policies.keys().copied().collect::<Vec<_>>(), [2, 10]);
        let policy = &policies[&2];
        assert_eq!(policy.related_cpus().unwrap().to_string(), "2-3");
        assert_eq!(policy.affected_cpus().unwrap().to_string(), "3");
        assert_eq!(policy.driver().unwrap().as_deref(), Some("cpufreq-dt"));
        assert_eq!(policy.governor().unwrap().as_deref(), Some("schedutil"));
        assert_eq!(
            policy.min_khz().unwrap().zip(policy.max_khz().unwrap()),
            Some((600_000, 1_200_000))
        );
        assert_eq!(policy.listed_khz().unwrap(), [1_000_000, 600_000]);
        assert_eq!(policy.boost_khz().unwrap(), [1_200_000]);
        let current = policy.current().unwrap();
        assert_eq!(current.khz(), Some(600_000));
        fs::write(base.join("policy2/scaling_cur_freq"), "<unknown>\n").unwrap();
        assert_eq!(current.khz(), None);
        let bare = &policies[&10];
        assert!(bare.affected_cpus().unwrap().is_empty() && bare.listed_khz().unwrap().is_empty());
        assert!(bare.current().is_none() && bare.governor().unwrap().is_none());
        fs::write(base.join("policy10/related_cpus"), "10 x\n").unwrap();
        let error = bare.related_cpus().unwrap_err().to_string();
        assert!(error.ends_with("policy10/related_cpus: \"x\" is no number"), "{error}");
    }

    #[test]
    fn the_policy_of_a_cpu_is_found_through_its_own_directory() {
        let sys = tempfile::tempdir().unwrap();
        let policy = sys.path().join("devices/system/cpu/cpu1/cpufreq");
        fs::create_dir_all(&policy).unwrap();
        fs::write(policy.join("cpuinfo_max_freq"), "950000\n").unwrap();
        let cpus = CpuFiles::below(sys.path());
        assert_eq!(cpus.policy_of(1).max_khz().unwrap(), Some(950_000));
        assert_eq!(cpus.policy_of(0).max_khz().unwrap(), None);
    }
}
