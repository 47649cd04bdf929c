// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! How the host's frequency governor treats a clamp.

use std::fs;
use std::path::Path;

use paracord_sys::sysfs::CpuFiles;

/// Whether the host's governor adds its 25 % headroom to a clamp.
///
/// The guest's governor has already added 25 %. Before Linux 6.8 ("sched/cpufreq: Rework schedutil
/// governor performance estimation"), schedutil added another 25 % to the clamped value, so that
/// the frequency was 25 % too high. Since 6.8, schedutil adds its headroom first and then applies
/// the clamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Headroom {
    /// The governor uses the clamp unchanged.
    AsAsked,
    /// The governor adds 25 %, so 20 % is subtracted from the clamp first.
    Added,
}

impl Headroom {
    /// Reads the host's kernel release and governor; `root` is `/`. If the release cannot be read,
    /// the kernel counts as 6.8 or newer.
    pub fn of_host(root: &Path) -> Headroom {
        let release = fs::read_to_string(root.join("proc/sys/kernel/osrelease"));
        let numbers: Vec<u32> = release
            .unwrap_or_default()
            .split(|c: char| !c.is_ascii_digit())
            .take(2)
            .filter_map(|word| word.parse().ok())
            .collect();
        match numbers[..] {
            [major, minor] if (major, minor) < (6, 8) && governor_listens(root) => Headroom::Added,
            _ => Headroom::AsAsked,
        }
    }

    pub(super) fn clamp_for(self, util: u32) -> u32 {
        match self {
            Headroom::AsAsked => util,
            Headroom::Added => util * 4 / 5,
        }
    }
}

/// Whether the frequency of any host CPU follows clamps, which is the case only with the governor
/// schedutil. If the result is false, the requests of guests have no effect on frequencies, and a
/// VMM should report this once. `root` is `/`.
pub fn governor_listens(root: &Path) -> bool {
    let policies = CpuFiles::below(&root.join("sys")).policies();
    policies.values().any(|policy| {
        policy.governor().is_ok_and(|governor| governor.as_deref() == Some("schedutil"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_is_taken_off_where_the_governor_adds_it() {
        let root = std::env::temp_dir().join(format!("paracord-headroom-{}", std::process::id()));
        let policy = root.join("sys/devices/system/cpu/cpufreq/policy0");
        fs::create_dir_all(root.join("proc/sys/kernel")).unwrap();
        fs::create_dir_all(&policy).unwrap();
        let of = |release: &str, governor: &str| {
            fs::write(root.join("proc/sys/kernel/osrelease"), release).unwrap();
            fs::write(policy.join("scaling_governor"), governor).unwrap();
            (Headroom::of_host(&root), governor_listens(&root))
        };
        assert_eq!(of("6.7.12-amd64\n", "schedutil\n"), (Headroom::Added, true));
        assert_eq!(of("5.15.0\n", "schedutil\n"), (Headroom::Added, true));
        assert_eq!(of("5.15.0\n", "ondemand\n"), (Headroom::AsAsked, false));
        assert_eq!(of("6.8.0\n", "schedutil\n"), (Headroom::AsAsked, true));
        assert_eq!(of("7.2.12+deb13\n", "performance\n"), (Headroom::AsAsked, false));
        assert_eq!(of("unknown\n", "schedutil\n"), (Headroom::AsAsked, true));
        fs::remove_dir_all(&root).unwrap();
        assert!(!governor_listens(&root), "a host without cpufreq");
        assert_eq!(Headroom::Added.clamp_for(1024) * 5 / 4, 1023);
        assert_eq!(Headroom::AsAsked.clamp_for(300), 300);
    }
}
