// SPDX-License-Identifier: GPL-2.0-only
//! The daemon's settings: plain, checked values without a file format.
//!
//! A configuration file is converted to [`Settings`], so the daemon never sees text. Times are in
//! microseconds here. They are converted to nanoseconds once, in `struct pc_boost_config`
//! (policy/boost_types.h).

mod boost;
mod parts;

use std::path::PathBuf;

use crate::config::{Override, PlaceKeys, VmRules, Who};

pub use boost::{BoostConfig, Mode, Reason, ReasonConfig};
pub use parts::{CounterSettings, OwnScheduler, PerfSettings, RtSettings, SupervisorSettings};

/// Default of `vcpus_per_user`: a quarter of all records (`PC_VCPUS_MAX`). Any user who may open
/// /dev/kvm can take one record per vCPU thread.
const VCPUS_PER_USER: u32 = paracord_policy::PC_VCPUS_MAX / 4;

/// All settings of the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Directory of the journal, the lock file and the control socket.
    pub run_dir: PathBuf,
    /// Directory of the region files.
    pub region_dir: PathBuf,
    /// Upper bound of the mode of every VM (observe turns `on` into `observe`).
    pub mode: Mode,
    /// When paracord's own scheduler runs the host's ordinary tasks and carries out boosts
    /// (actuator ext).
    pub own_scheduler: OwnScheduler,
    /// Maximum number of records for the vCPUs of one user other than root. Further vCPUs are left
    /// to stock scheduling.
    pub vcpus_per_user: u32,
    /// The rt actuator.
    pub rt: RtSettings,
    /// The performance policy.
    pub perf: PerfSettings,
    /// Counters for guests.
    pub counters: CounterSettings,
    /// The supervisor.
    pub supervisor: SupervisorSettings,
    /// The settings of VMs, by name.
    pub vm_rules: VmRules,
}

impl Settings {
    /// The configuration of a VM. `overrides` are the changes that `paracord vm set` has made since
    /// the last reload, the oldest first.
    pub fn vm<'a>(&self, who: impl Into<Who<'a>>, overrides: &[Override]) -> BoostConfig {
        let config = self.vm_rules.resolve(who, overrides);
        BoostConfig {
            mode: config.mode.min(self.mode),
            guest_requests: config.guest_requests && self.perf.guest_requests,
            ..config
        }
    }
}

impl Settings {
    /// The configured placement of a VM's vCPUs.
    pub fn place<'a>(&self, who: impl Into<Who<'a>>) -> PlaceKeys {
        self.vm_rules.place(who)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            run_dir: PathBuf::from("/run/paracord"),
            region_dir: PathBuf::from("/dev/shm/paracord"),
            mode: Mode::On,
            own_scheduler: OwnScheduler::WhereKept,
            vcpus_per_user: VCPUS_PER_USER,
            rt: RtSettings::default(),
            perf: PerfSettings::default(),
            counters: CounterSettings::default(),
            supervisor: SupervisorSettings::default(),
            vm_rules: VmRules::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_global_mode_is_an_upper_bound() {
        let settings = Settings { mode: Mode::Observe, ..Settings::default() };
        assert_eq!(settings.vm("any", &[]).mode, Mode::Observe);
        let off = crate::config::parse_override("mode", "off").unwrap();
        assert_eq!(settings.vm("any", &[off]).mode, Mode::Off);
    }

    #[test]
    fn guests_may_ask_where_neither_the_host_nor_the_vm_says_no() {
        let no = crate::config::parse_override("guest_requests", "false").unwrap();
        let asks = |host, overrides: &[Override]| {
            let perf = PerfSettings { guest_requests: host, ..PerfSettings::default() };
            Settings { perf, ..Settings::default() }.vm("any", overrides).guest_requests
        };
        assert!(asks(true, &[]) && !asks(false, &[]) && !asks(true, &[no]));
    }
}
