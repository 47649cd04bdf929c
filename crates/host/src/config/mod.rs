// SPDX-License-Identifier: GPL-2.0-only
//! The daemon's configuration: turns a TOML file into a checked [`Config`].
//!
//! Every key is described once, in [`keys`]. The parser, `paracord config show`, `paracord vm set`
//! and the test of the documentation use these descriptions. The defaults of `[boost]` are those of
//! the policy (`pc_boost_defaults`).

mod boost;
mod error;
pub mod keys;
mod lookup;
mod overrides;
mod parse;
mod place;
mod region;
mod rules;
mod show;
mod value;

pub use boost::{BoostKeys, ReasonKeys};
pub use error::ConfigError;
pub use lookup::{parse_override, vm_keys, vm_kind};
pub use overrides::Override;
pub(crate) use overrides::say;
pub use parse::{load, load_for, parse, parse_for};
pub use place::PlaceKeys;
pub use region::{RegionKeys, RegionSection};
pub use rules::{VmRules, VmSection, Who};
pub use show::show;
pub use value::{Given, Kind, Share, Value};

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::settings::{
    CounterSettings, Mode, OwnScheduler, PerfSettings, RtSettings, Settings, SupervisorSettings,
};

/// Path of the configuration that `paracord run` reads if no other path is given.
pub const DEFAULT_PATH: &str = "/etc/paracord/paracord.toml";

/// What carries out the policy's decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actuator {
    /// [`Actuator::Ext`] as long as paracord's scheduler provides every feature of the kernel's
    /// scheduler that the host uses. Otherwise [`Actuator::Rt`].
    Auto,
    /// A system call makes the vCPU thread `SCHED_RR`.
    Rt,
    /// paracord's own scheduler (sched_ext).
    Ext,
    /// Nothing carries out decisions: the mode of every VM is at most [`Mode::Observe`].
    Observe,
}

/// The control socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// Path of the unix stream socket.
    pub socket: PathBuf,
    /// Besides root, members of this group may use the socket. If the name is empty, only root may
    /// use the socket.
    pub group: String,
}

/// Destinations of the metrics. A destination that is `None` is switched off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metrics {
    /// Loopback TCP address, for example `127.0.0.1:9095`.
    pub listen: Option<SocketAddr>,
    /// Unix stream socket that answers HTTP.
    pub socket: Option<PathBuf>,
    /// File for node_exporter's textfile collector.
    pub textfile: Option<PathBuf>,
    /// Seconds between two writes of the textfile.
    pub textfile_interval_s: u32,
}

/// A checked configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Upper bound on every VM's mode.
    pub mode: Mode,
    /// What carries out decisions.
    pub actuator: Actuator,
    /// `SCHED_RR` priority of a boosted vCPU thread.
    pub rt_priority: u32,
    /// `SCHED_FIFO` priority of the thread that carries out decisions.
    pub actuator_priority: u32,
    /// Interval of the housekeeping ticks while any thread is boosted, ms.
    pub housekeeping_ms: u32,
    /// Maximum number of vCPU records that one user other than root may have.
    pub vcpus_per_user: u32,
    /// Directory of the journals and the lock file.
    pub run_dir: PathBuf,
    /// Directory of the shared regions.
    pub region_dir: PathBuf,
    /// Control socket.
    pub control: Control,
    /// Metrics.
    pub metrics: Metrics,
    /// The performance policy of paracord's scheduler.
    pub perf: PerfSettings,
    /// Counters for guests.
    pub counters: CounterSettings,
    /// Whether to start the daemon again when it dies without having been told to end.
    pub restart: bool,
    /// The supervisor gives up after this many restarts, if the daemon never ran for a minute
    /// between two of them.
    pub restarts_max: u32,
    /// `[boost]` and the sections of VMs.
    pub vm_rules: VmRules,
    /// The regions that the daemon creates, in the order of the file.
    pub regions: Vec<RegionSection>,
}

impl Default for Config {
    /// The defaults of [`Settings`] and of the policy. The control socket is served, but the
    /// metrics are not.
    fn default() -> Self {
        let settings = Settings::default();
        Config {
            mode: settings.mode,
            actuator: Actuator::Auto,
            rt_priority: settings.rt.vcpu_priority,
            actuator_priority: settings.rt.actuator_priority,
            vcpus_per_user: settings.vcpus_per_user,
            housekeeping_ms: u32::try_from(settings.rt.tick.as_millis()).unwrap_or(u32::MAX),
            control: Control {
                socket: settings.run_dir.join("control.sock"),
                group: "paracord".into(),
            },
            run_dir: settings.run_dir,
            region_dir: settings.region_dir,
            metrics: Metrics {
                listen: None,
                socket: None,
                textfile: None,
                textfile_interval_s: 15,
            },
            perf: settings.perf,
            counters: settings.counters,
            restart: settings.supervisor.restart,
            restarts_max: settings.supervisor.restarts_max,
            vm_rules: settings.vm_rules,
            regions: Vec::new(),
        }
    }
}

impl From<&Config> for Settings {
    fn from(c: &Config) -> Self {
        Settings {
            run_dir: c.run_dir.clone(),
            region_dir: c.region_dir.clone(),
            // With actuator `observe`, the mode is at most `Mode::Observe`: decisions are made and
            // counted, but not carried out.
            mode: match c.actuator {
                Actuator::Observe => c.mode.min(Mode::Observe),
                Actuator::Auto | Actuator::Rt | Actuator::Ext => c.mode,
            },
            own_scheduler: match c.actuator {
                Actuator::Auto => OwnScheduler::WhereKept,
                Actuator::Rt | Actuator::Observe => OwnScheduler::Never,
                Actuator::Ext => OwnScheduler::Always,
            },
            vcpus_per_user: c.vcpus_per_user,
            rt: RtSettings {
                vcpu_priority: c.rt_priority,
                actuator_priority: c.actuator_priority,
                tick: Duration::from_millis(c.housekeeping_ms.into()),
            },
            perf: c.perf,
            counters: c.counters,
            supervisor: SupervisorSettings { restart: c.restart, restarts_max: c.restarts_max },
            vm_rules: c.vm_rules.clone(),
        }
    }
}

impl Config {
    /// Checks rules that involve more than one key.
    ///
    /// # Errors
    /// An error names the key to change and the reason, but no position in a file.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.actuator_priority <= self.rt_priority {
            return Err(ConfigError::new(
                "actuator_priority",
                format!(
                    "{} is not above rt_priority = {}: a boosted vCPU could keep paracord from unboosting it",
                    self.actuator_priority, self.rt_priority
                ),
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_gives_the_default_settings() {
        assert_eq!(Settings::from(&Config::default()), Settings::default());
    }

    #[test]
    fn observing_actuator_never_leaves_a_vm_in_mode_on() {
        let text = "actuator = \"observe\"\n[vm.a]\nmode = \"on\"\n[vm.b]\nmode = \"off\"\n";
        let settings = Settings::from(&parse(text, "f".as_ref()).unwrap());
        assert_eq!(settings.vm("a", &[]).mode, Mode::Observe);
        assert_eq!(settings.vm("b", &[]).mode, Mode::Off);
    }

    #[test]
    fn each_actuator_says_when_paracord_schedules_the_host() {
        use OwnScheduler::{Always, Never, WhereKept};
        let words = [("auto", WhereKept), ("rt", Never), ("observe", Never), ("ext", Always)];
        for (word, own) in words {
            let config = parse(&format!("actuator = \"{word}\"\n"), "f".as_ref()).unwrap();
            assert_eq!(Settings::from(&config).own_scheduler, own, "{word}");
        }
    }

    #[test]
    fn actuator_must_outrank_what_it_boosts() {
        let e = parse("rt_priority = 60\n", "f".as_ref()).unwrap_err();
        assert!(e.to_string().contains("actuator_priority"), "{e}");
    }
}
