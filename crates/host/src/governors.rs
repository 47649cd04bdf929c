// SPDX-License-Identifier: GPL-2.0-only
//! Which CPUs' frequency governors listen to the scheduler.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The only governor of the kernel that takes a sched_ext scheduler's requests (kernel/sched/cpufreq_schedutil.c).
const LISTENS: &str = "schedutil";

/// CPUs whose governor listens, below `sys` (`/sys`).
pub fn listening(sys: &Path) -> BTreeSet<u32> {
    let policies = fs::read_dir(sys.join("devices/system/cpu/cpufreq"));
    let mut cpus = BTreeSet::new();
    for policy in policies.into_iter().flatten().flatten() {
        let read = |file| fs::read_to_string(policy.path().join(file)).unwrap_or_default();
        if read("scaling_governor").trim() == LISTENS {
            let affected = read("affected_cpus");
            cpus.extend(affected.split_whitespace().filter_map(|n| n.parse::<u32>().ok()));
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
        for (policy, governor, cpus) in [(0, "schedutil", "0 1\n"), (2, "performance", "2 3\n")] {
            let directory = sys.join(format!("devices/system/cpu/cpufreq/policy{policy}"));
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("scaling_governor"), format!("{governor}\n")).unwrap();
            fs::write(directory.join("affected_cpus"), cpus).unwrap();
        }
        let found = listening(&sys);
        fs::remove_dir_all(&sys).unwrap();
        assert_eq!(found, BTreeSet::from([0, 1]));
        assert!(listening(Path::new("/nowhere")).is_empty());
    }
}
