// SPDX-License-Identifier: GPL-2.0-only
//! Finds the CPUs whose frequency governor follows the scheduler's requests.

use std::collections::BTreeMap;
use std::path::Path;

use paracord_sys::sysfs::CpuFiles;

/// The only governor of the kernel that follows the requests of a sched_ext scheduler
/// (kernel/sched/cpufreq_schedutil.c).
const LISTENS: &str = "schedutil";

/// Whether a CPU shares its frequency with other CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frequency {
    /// The CPU has a frequency of its own.
    Own,
    /// The CPU shares its frequency with other CPUs.
    Shared,
}

/// CPUs that share one frequency, and the governor that chooses this frequency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The CPUs, in ascending order.
    pub cpus: Vec<u32>,
    /// Name of the governor, as the kernel shows it.
    pub governor: String,
}

impl Policy {
    fn listens(&self) -> bool {
        self.governor == LISTENS
    }
}

/// The policies below `sys` (`/sys`), in order of their first CPUs; empty without cpufreq.
pub fn policies(sys: &Path) -> Vec<Policy> {
    let found = CpuFiles::below(sys).policies();
    let mut policies: Vec<_> = found
        .values()
        .filter_map(|policy| {
            // The kernel refuses to show the files of a policy whose CPUs are all offline.
            let affected = policy.affected_cpus().ok().filter(|cpus| !cpus.is_empty())?;
            let governor = policy.governor().ok().flatten()?;
            Some(Policy { cpus: affected.iter().collect(), governor })
        })
        .collect();
    policies.sort_by(|a, b| a.cpus.cmp(&b.cpus));
    policies
}

/// The CPUs whose governor follows the scheduler's requests.
pub fn listening(policies: &[Policy]) -> BTreeMap<u32, Frequency> {
    let mut cpus = BTreeMap::new();
    for policy in policies.iter().filter(|policy| policy.listens()) {
        let frequency = if policy.cpus.len() > 1 { Frequency::Shared } else { Frequency::Own };
        cpus.extend(policy.cpus.iter().map(|cpu| (*cpu, frequency)));
    }
    cpus
}

/// Describes in one line whether frequencies follow the requests of tasks, and what to do if they
/// do not.
pub fn summary(policies: &[Policy]) -> String {
    if policies.is_empty() {
        return "no frequencies are asked for: this host's kernel does not set them (no cpufreq)"
            .into();
    }
    let mut deaf: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for policy in policies.iter().filter(|policy| !policy.listens()) {
        let cpus = policy.cpus.iter().map(u32::to_string);
        deaf.entry(&policy.governor).or_default().extend(cpus);
    }
    if deaf.is_empty() {
        return "frequencies follow what tasks need".into();
    }
    let parts: Vec<_> = deaf
        .iter()
        .map(|(governor, cpus)| format!("governor {governor} on CPUs {}", cpus.join(",")))
        .collect();
    format!(
        "frequencies follow what tasks need only under {LISTENS} (cpupower frequency-set -g {LISTENS}): this host has {}",
        parts.join(" and ")
    )
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn cpus_of_policies_that_listen() {
        let sys = std::env::temp_dir().join(format!("paracord-governors-{}", std::process::id()));
        for (policy, governor, cpus) in
            [(0, "schedutil", "0 1\n"), (2, "performance", "2 3\n"), (4, "schedutil", "4\n")]
        {
            let directory = sys.join(format!("devices/system/cpu/cpufreq/policy{policy}"));
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("scaling_governor"), format!("{governor}\n")).unwrap();
            fs::write(directory.join("affected_cpus"), cpus).unwrap();
        }
        let policies = policies(&sys);
        let found = listening(&policies);
        fs::remove_dir_all(&sys).unwrap();
        assert_eq!(
            found,
            BTreeMap::from([(0, Frequency::Shared), (1, Frequency::Shared), (4, Frequency::Own)])
        );
        let line = summary(&policies);
        assert!(line.ends_with("this host has governor performance on CPUs 2,3"), "{line}");
        assert_eq!(summary(&policies[2..]), "frequencies follow what tasks need");
        assert!(summary(&super::policies(Path::new("/nowhere"))).contains("no cpufreq"));
    }
}
