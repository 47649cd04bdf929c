// SPDX-License-Identifier: GPL-2.0-only
//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use paracord_abi::layout::PARACORD_SLOTS_MAX;
use paracord_host::place::Placement;
use paracord_host::scheduler::clamps::Clamp;
use paracord_host::settings::Mode;

const EXIT_CODES: &str = "Exit codes: 0 done, 1 failed, 2 wrong arguments or configuration, \
3 no daemon runs, 4 not permitted, 5 the host lacks something that paracord needs (doctor).";

/// Lets a Linux host and the virtual machines on it schedule together.
#[derive(Debug, Parser)]
#[command(version, after_help = EXIT_CODES, propagate_version = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Find VMs and boost their vCPUs until paracord is stopped
    Run(RunArgs),
    /// Restore the threads that a killed daemon left changed (the service runs this after each
    /// stop)
    Restore {
        /// Configuration file [default: /etc/paracord/paracord.toml if it exists]
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
    /// Show the daemon and its VMs
    Status(Query),
    /// Show VMs, and change their settings while they run
    Vm(VmArgs),
    /// Show and change how much performance threads, control groups and VMs may ask for (actuator
    /// ext)
    Clamp(ClampArgs),
    /// Show VMs and vCPUs live
    Top(TopArgs),
    /// Read the configuration file again; active boosts continue
    Reload(Target),
    /// Set the upper bound of all VMs' modes until the next reload
    Mode(ModeArgs),
    /// Restore every thread and end the daemon
    Stop(Target),
    /// Show whether this host has the features that paracord uses, and what to change
    Doctor(DoctorArgs),
    /// Create, list and remove the files through which guests share their state with the host
    Region(RegionArgs),
    /// Print the QEMU options that give a VM its region
    QemuArgs(AttachArgs),
    /// Print the libvirt XML that gives a VM its region
    LibvirtXml(AttachArgs),
    /// Show or check the configuration
    Config(ConfigArgs),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages into a directory
    #[command(hide = true)]
    Man {
        /// Directory for the pages
        directory: PathBuf,
    },
}

/// `paracord run`.
#[derive(Debug, Clone, Args)]
pub struct RunArgs {
    /// Configuration file [default: /etc/paracord/paracord.toml if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Upper bound of all VMs' modes; overrides the configuration file
    #[arg(long)]
    pub mode: Option<ModeWord>,
    /// What carries decisions out; overrides the configuration file
    #[arg(long)]
    pub actuator: Option<ActuatorWord>,
    /// Run as a single process; if it is killed, run `paracord restore`
    #[arg(long, visible_alias = "foreground")]
    pub no_supervisor: bool,
    /// Run as the daemon of the supervisor with this process ID
    #[arg(long, hide = true, value_name = "PID", conflicts_with = "no_supervisor")]
    pub daemon_of: Option<u32>,
}

impl RunArgs {
    /// The arguments that give the daemon the same configuration.
    pub fn as_words(&self) -> Vec<std::ffi::OsString> {
        let mut words: Vec<std::ffi::OsString> = Vec::new();
        let mut push = |option: &str, value: &std::ffi::OsStr| {
            words.push(option.into());
            words.push(value.to_owned());
        };
        if let Some(file) = &self.config {
            push("--config", file.as_os_str());
        }
        if let Some(word) = self.mode.and_then(|m| m.to_possible_value()) {
            push("--mode", word.get_name().as_ref());
        }
        if let Some(word) = self.actuator.and_then(|a| a.to_possible_value()) {
            push("--actuator", word.get_name().as_ref());
        }
        words
    }
}

/// An actuator on the command line.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum ActuatorWord {
    /// ext as long as it provides every feature of the kernel's scheduler that this host uses, rt
    /// otherwise; `paracord status` shows the reason.
    Auto,
    /// The daemon makes boosted threads SCHED_RR. The host keeps its own scheduler, and boosted
    /// time counts against the VM's CPU quota.
    Rt,
    /// paracord's own scheduler (sched_ext) runs all ordinary tasks of the host; docs/ext.md lists
    /// the features that it lacks.
    Ext,
    /// paracord makes its decisions and counts them, but changes nothing.
    Observe,
}

/// The socket on which the daemon listens.
#[derive(Debug, Clone, Args)]
pub struct Target {
    /// Control socket [default: the socket that the configuration file names]
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Configuration file [default: /etc/paracord/paracord.toml if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// A question to the daemon about its state.
#[derive(Debug, Args)]
pub struct Query {
    #[command(flatten)]
    pub source: SnapshotSource,
    /// Print JSON (docs/control-socket.md describes it)
    #[arg(long)]
    pub json: bool,
}

/// The source of the state.
#[derive(Debug, Args)]
pub struct SnapshotSource {
    #[command(flatten)]
    pub target: Target,
    /// Read the state from a file that `status --json` wrote, and not from the daemon
    #[arg(long, value_name = "FILE", conflicts_with = "socket")]
    pub from: Option<PathBuf>,
}

/// `paracord top`.
#[derive(Debug, Args)]
pub struct TopArgs {
    #[command(flatten)]
    pub query: SnapshotSource,
    /// Time between two refreshes in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1000,
        value_parser = clap::value_parser!(u64).range(100..=60_000))]
    pub interval_ms: u64,
    /// Print one table and end; this is the default if the output is not a terminal
    #[arg(long)]
    pub once: bool,
}

/// `paracord vm`.
#[derive(Debug, Args)]
pub struct VmArgs {
    #[command(subcommand)]
    pub command: VmCommand,
}

/// The commands about VMs.
#[derive(Debug, Subcommand)]
pub enum VmCommand {
    /// Show one line per VM
    List(Query),
    /// Show everything about one VM
    Show {
        /// Name, UUID or process ID
        vm: String,
        #[command(flatten)]
        query: Query,
    },
    /// Change keys of `[vm."NAME"]` for a running VM, until the next reload
    Set {
        /// Name, UUID or process ID
        vm: String,
        /// KEY=VALUE such as mode=observe, wake.grant_us=500, rt.enabled=false
        #[arg(required = true, value_name = "KEY=VALUE", value_parser = key_value)]
        settings: Vec<(String, String)>,
        #[command(flatten)]
        target: Target,
    },
    /// Show or set the host CPUs on which the vCPUs of a running VM run
    Place(PlaceArgs),
}

/// `paracord vm place`.
#[derive(Debug, Args)]
pub struct PlaceArgs {
    /// Name, UUID or process ID
    pub vm: String,
    /// VCPU[-VCPU]=CPUS or all=CPUS. CPUS is a list such as 0-3,8, or cluster:N, capacity:max,
    /// capacity:min, auto or any. Without a placement, the vCPUs are shown
    #[arg(value_name = "VCPU=CPUS", value_parser = placement)]
    pub place: Vec<String>,
    /// Place each vCPU on a CPU of its own, the largest CPUs first (all=auto)
    #[arg(long, conflicts_with_all = ["place", "clear"])]
    pub auto: bool,
    /// Remove all placements and restore the CPUs that the vCPUs had before. This includes
    /// placements from the configuration, until the configuration is read again
    #[arg(long, conflicts_with_all = ["place", "hints"])]
    pub clear: bool,
    /// Only inform the guest, and do not bind threads
    #[arg(long)]
    pub hints: bool,
    /// Print JSON (docs/control-socket.md describes it)
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub target: Target,
}

fn placement(word: &str) -> Result<String, String> {
    word.parse::<Placement>().map(|_| word.to_owned()).map_err(|e| e.to_string())
}

/// `paracord clamp`.
#[derive(Debug, Args)]
pub struct ClampArgs {
    #[command(subcommand)]
    pub command: ClampCommand,
}

/// The commands about clamps.
#[derive(Debug, Subcommand)]
pub enum ClampCommand {
    /// Set the least and the most performance that threads may ask for; a bound that is not given
    /// is removed
    Set {
        #[command(flatten)]
        whose: Whose,
        /// Least performance while runnable; 1024 is the largest CPU at its highest frequency
        #[arg(long, value_name = "0..1024", value_parser = clamp_value(), required_unless_present = "max")]
        min: Option<u32>,
        /// Most performance, on the same scale
        #[arg(long, value_name = "0..1024", value_parser = clamp_value())]
        max: Option<u32>,
        #[command(flatten)]
        target: Target,
    },
    /// Show the clamps that are set, and the clamps in force
    Get {
        #[command(flatten)]
        whose: Whose,
        /// Print JSON (docs/control-socket.md describes it)
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Remove the clamps
    Clear {
        #[command(flatten)]
        whose: Whose,
        #[command(flatten)]
        target: Target,
    },
    /// Show all clamps that are set
    List {
        /// Print JSON (docs/control-socket.md describes it)
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        target: Target,
    },
}

fn clamp_value() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(0..=i64::from(Clamp::NONE.max))
}

/// The threads whose clamps a command is about.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct Whose {
    /// One thread, by its thread ID
    #[arg(long, value_name = "TID")]
    pub task: Option<u32>,
    /// All threads of a process, and the threads that they start later
    #[arg(long, value_name = "PID")]
    pub process: Option<u32>,
    /// The threads in a control group, which is a directory below /sys/fs/cgroup
    #[arg(long, value_name = "DIRECTORY")]
    pub cgroup: Option<PathBuf>,
    /// All vCPUs of a VM, by its name, UUID or process ID
    #[arg(long, value_name = "VM")]
    pub vm: Option<String>,
}

fn key_value(word: &str) -> Result<(String, String), String> {
    let (key, value) = word.split_once('=').ok_or("write KEY=VALUE")?;
    paracord_host::config::parse_override(key, value).map_err(|e| e.to_string())?;
    Ok((key.to_owned(), value.to_owned()))
}

/// `paracord mode`.
#[derive(Debug, Args)]
pub struct ModeArgs {
    /// on: decide and act; observe: decide and count; off: neither
    pub mode: ModeWord,
    #[command(flatten)]
    pub target: Target,
}

/// A mode on the command line.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum ModeWord {
    /// Decide and act.
    On,
    /// Decide and count.
    Observe,
    /// Neither decide nor act.
    Off,
}

impl From<ModeWord> for Mode {
    fn from(word: ModeWord) -> Mode {
        match word {
            ModeWord::On => Mode::On,
            ModeWord::Observe => Mode::Observe,
            ModeWord::Off => Mode::Off,
        }
    }
}

/// Returns the parser for the number of vCPUs of a region.
pub fn vcpu_count() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=i64::from(PARACORD_SLOTS_MAX))
}

/// `paracord doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Configuration file, which names the region directory [default: /etc/paracord/paracord.toml
    /// if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Examine the host whose file system is mounted in this directory
    #[arg(long, value_name = "DIRECTORY", hide = true)]
    pub root: Option<PathBuf>,
}

/// `paracord region`.
#[derive(Debug, Args)]
pub struct RegionArgs {
    /// Configuration file, which names the region directory [default: /etc/paracord/paracord.toml
    /// if it exists]
    #[arg(long, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,
    #[command(subcommand)]
    pub command: RegionCommand,
}

/// The commands about regions.
#[derive(Debug, Subcommand)]
pub enum RegionCommand {
    /// Create a region and print its path
    Create {
        /// Name of the region, usually the name of the VM
        name: String,
        /// Number of vCPUs of the VM, including hot-pluggable vCPUs
        #[arg(long, default_value_t = 1, value_parser = vcpu_count())]
        vcpus: u32,
        /// User as which the VM runs: name, UID or UID:GID [default: the caller]
        #[arg(long, value_name = "USER")]
        owner: Option<String>,
        /// Do not let the guest kick the host when the guest no longer needs a boost
        #[arg(long)]
        no_kick: bool,
        /// Do not follow the guest's preempt_count
        #[arg(long)]
        no_preempt_count: bool,
        /// Do not inform the guest about the host's CPUs and frequencies, and do not let the guest
        /// ask for performance
        #[arg(long)]
        no_frequencies: bool,
        /// Let the guest count this host's perf events on its vCPUs with the daemon's help (perf
        /// stat -e paracord/…/)
        #[arg(long)]
        counters: bool,
        /// Age in microseconds from which a boost that the guest no longer needs is worth a kick;
        /// 0: the default of the guest's driver
        #[arg(long, value_name = "US", default_value_t = 0)]
        kick_us: u32,
    },
    /// Print the regions
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove a region
    Remove {
        /// Name of the region
        name: String,
    },
}

/// `paracord qemu-args`, `paracord libvirt-xml`.
#[derive(Debug, Args)]
pub struct AttachArgs {
    /// Name of the region, as in `paracord region create`
    pub name: String,
    /// Number of vCPUs of the VM, including hot-pluggable vCPUs
    #[arg(long, default_value_t = 1, value_parser = vcpu_count())]
    pub vcpus: u32,
    /// Add interrupts from the daemon, which the guest needs in order to sample with counters. QEMU
    /// then starts only while the daemon runs
    #[arg(long)]
    pub counters: bool,
    #[command(flatten)]
    pub target: Target,
}

/// `paracord config`.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    #[command(subcommand)]
    pub command: ConfigCommand,
}

/// The commands about the configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print the effective configuration; keys that have their default value are commented out
    Show {
        /// Also print each key's meaning and range
        #[arg(long)]
        explain: bool,
        /// Configuration file [default: /etc/paracord/paracord.toml if it exists]
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
    /// Check a configuration file and say what is wrong with it
    Check {
        /// Configuration file [default: /etc/paracord/paracord.toml]
        file: Option<PathBuf>,
    },
}
