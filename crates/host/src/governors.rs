// SPDX-License-Identifier: GPL-2.0-only
//! Which CPUs' frequency governors listen to the scheduler.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The only governor of the kernel that takes a sched_ext scheduler's requests (kernel/sched/cpufreq_schedutil.c).
const LISTENS: &str = "schedutil";

/// How a CPU has its frequency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frequency {
    /// For itself.
    Own,
    /// With others.
    Shared,
}

/// CPUs whose governor listens, below `sys` (`/sys`).
pub fn listening(sys: &Path) -> BTreeMap<u32, Frequency> {
    let policies = fs::read_dir(sys.join("devices/system/cpu/cpufreq"));
    let mut cpus = BTreeMap::new();
    for policy in policies.into_iter().flatten().flatten() {
        let read = |file| fs::read_to_string(policy.path().join(file)).unwrap_or_default();
        if read("scaling_governor").trim() == LISTENS {
            let affected = read("affected_cpus");
            let members: Vec<u32> =
                affected.split_whitespace().filter_map(|n| n.parse().ok()).collect();
            let frequency = if members.len() > 1 { Frequency::Shared } else { Frequency::Own };
            cpus.extend(members.into_iter().map(|cpu| (cpu, frequency)));
        }
    }
    cpus
}

#[cfg(test)]
mod tests {
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
        let found = listening(&sys);
        fs::remove_dir_all(&sys).unwrap();
        assert_eq!(
            found,
            BTreeMap::from([(0, Frequency::Shared), (1, Frequency::Shared), (4, Frequency::Own)])
        );
        assert!(listening(Path::new("/nowhere")).is_empty());
    }
}
