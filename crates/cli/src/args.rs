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
    /// Find VMs and boost their vCPUs until stopped
    Run(RunArgs),
    /// Restore threads that a killed daemon left boosted (the service runs it after each stop)
    Restore {
        /// Configuration file [default: /etc/paracord/paracord.toml if it exists]
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
    /// Show the daemon and its VMs
    Status(Query),
    /// Look at VMs, and change their settings while they run
    Vm(VmArgs),
    /// Look at what threads, control groups and VMs may ask for, and change it (actuator ext)
    Clamp(ClampArgs),
    /// Watch VMs and vCPUs live
    Top(TopArgs),
    /// Read the configuration file again; boosts in force stay
    Reload(Target),
    /// Change the upper bound of all VMs' modes until the next reload
    Mode(ModeArgs),
    /// Restore every thread and end the daemon
    Stop(Target),
    /// Say what this host can do for paracord, and what to change
    Doctor(DoctorArgs),
    /// Create, list and remove the files through which guests share their state
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
        /// Where the pages go
        directory: PathBuf,
    },
}

/// `paracord run`.
#[derive(Debug, Clone, Args)]
pub struct RunArgs {
    /// Configuration file [default: /etc/paracord/paracord.toml if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Upper bound of all VMs' modes, in place of the file's
    #[arg(long)]
    pub mode: Option<ModeWord>,
    /// Who carries decisions out, in place of the file's
    #[arg(long)]
    pub actuator: Option<ActuatorWord>,
    /// One process only: if it is killed, `paracord restore` must be run
    #[arg(long, visible_alias = "foreground")]
    pub no_supervisor: bool,
    /// Process of the supervisor: run as its daemon
    #[arg(long, hide = true, value_name = "PID", conflicts_with = "no_supervisor")]
    pub daemon_of: Option<u32>,
}

impl RunArgs {
    /// The words that give the daemon the same configuration.
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
    /// ext as long as it keeps all that this host uses of the kernel's scheduler, else rt; `paracord status` says why.
    Auto,
    /// SCHED_RR by system call; the host keeps its own scheduler, and what boosts run is taken from the VM's CPU quota.
    Rt,
    /// paracord's own scheduler for all ordinary tasks of the host (sched_ext); what it does not keep is in docs/ext.md.
    Ext,
    /// Decide and count only.
    Observe,
}

/// Where the daemon listens.
#[derive(Debug, Clone, Args)]
pub struct Target {
    /// Control socket [default: that of the configuration file]
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Configuration file [default: /etc/paracord/paracord.toml if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// A question to the daemon.
#[derive(Debug, Args)]
pub struct Query {
    #[command(flatten)]
    pub source: SnapshotSource,
    /// Print JSON (docs/control-socket.md describes it)
    #[arg(long)]
    pub json: bool,
}

/// Where the state comes from.
#[derive(Debug, Args)]
pub struct SnapshotSource {
    #[command(flatten)]
    pub target: Target,
    /// Read the answer from a file that `status --json` wrote, not from the daemon
    #[arg(long, value_name = "FILE", conflicts_with = "socket")]
    pub from: Option<PathBuf>,
}

/// `paracord top`.
#[derive(Debug, Args)]
pub struct TopArgs {
    #[command(flatten)]
    pub query: SnapshotSource,
    /// Time between two refreshes, ms
    #[arg(long, value_name = "MS", default_value_t = 1000,
        value_parser = clap::value_parser!(u64).range(100..=60_000))]
    pub interval_ms: u64,
    /// Print one table and end, as it does when the output is no terminal
    #[arg(long)]
    pub once: bool,
}

/// `paracord vm`.
#[derive(Debug, Args)]
pub struct VmArgs {
    #[command(subcommand)]
    pub command: VmCommand,
}

/// What to do with VMs.
#[derive(Debug, Subcommand)]
pub enum VmCommand {
    /// One line per VM
    List(Query),
    /// Everything about one VM
    Show {
        /// Name, uuid or process id
        vm: String,
        #[command(flatten)]
        query: Query,
    },
    /// Change keys of `[vm."NAME"]` for a running VM, until the next reload
    Set {
        /// Name, uuid or process id
        vm: String,
        /// KEY=VALUE such as mode=observe, wake.grant_us=500, rt.enabled=false
        #[arg(required = true, value_name = "KEY=VALUE", value_parser = key_value)]
        settings: Vec<(String, String)>,
        #[command(flatten)]
        target: Target,
    },
    /// Show or say on which host CPUs the vCPUs of a running VM run
    Place(PlaceArgs),
}

/// `paracord vm place`.
#[derive(Debug, Args)]
pub struct PlaceArgs {
    /// Name, uuid or process id
    pub vm: String,
    /// VCPU[-VCPU]=CPUS or all=CPUS: a list such as 0-3,8, cluster:N, capacity:max, capacity:min, auto or any; none: show
    #[arg(value_name = "VCPU=CPUS", value_parser = placement)]
    pub place: Vec<String>,
    /// Each vCPU on a CPU of its own, the largest first (all=auto)
    #[arg(long, conflicts_with_all = ["place", "clear"])]
    pub auto: bool,
    /// Give all vCPUs back what they had, those that the configuration places too, until it is read again
    #[arg(long, conflicts_with_all = ["place", "hints"])]
    pub clear: bool,
    /// Only tell the guest; do not bind threads
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

/// What to do with clamps.
#[derive(Debug, Subcommand)]
pub enum ClampCommand {
    /// Set what somebody may ask for; an end that is not given is open
    Set {
        #[command(flatten)]
        whose: Whose,
        /// At least this while runnable, on the scale of the largest CPU at its highest frequency
        #[arg(long, value_name = "0..1024", value_parser = clamp_value(), required_unless_present = "max")]
        min: Option<u32>,
        /// At most this
        #[arg(long, value_name = "0..1024", value_parser = clamp_value())]
        max: Option<u32>,
        #[command(flatten)]
        target: Target,
    },
    /// Show what somebody may ask for, and what of it is in force
    Get {
        #[command(flatten)]
        whose: Whose,
        /// Print JSON (docs/control-socket.md describes it)
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Let somebody ask for anything again
    Clear {
        #[command(flatten)]
        whose: Whose,
        #[command(flatten)]
        target: Target,
    },
    /// Show all that were set and still exist
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

/// Whose clamps.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct Whose {
    /// One thread
    #[arg(long, value_name = "TID")]
    pub task: Option<u32>,
    /// All threads of a process, and those that they start later
    #[arg(long, value_name = "PID")]
    pub process: Option<u32>,
    /// What is in a control group: a directory below /sys/fs/cgroup
    #[arg(long, value_name = "DIRECTORY")]
    pub cgroup: Option<PathBuf>,
    /// All vCPUs of a VM: name, uuid or process id
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
    /// on decides and acts, observe decides and counts, off does neither
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
    /// Neither.
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

/// Number of vCPUs that a region can serve.
pub fn vcpu_count() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=i64::from(PARACORD_SLOTS_MAX))
}

/// `paracord doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Configuration file, which names the region directory [default: /etc/paracord/paracord.toml if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Examine the host whose file system is mounted there
    #[arg(long, value_name = "DIRECTORY", hide = true)]
    pub root: Option<PathBuf>,
}

/// `paracord region`.
#[derive(Debug, Args)]
pub struct RegionArgs {
    /// Configuration file, which names the directory [default: /etc/paracord/paracord.toml if it exists]
    #[arg(long, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,
    #[command(subcommand)]
    pub command: RegionCommand,
}

/// What to do with regions.
#[derive(Debug, Subcommand)]
pub enum RegionCommand {
    /// Create a region and print its path
    Create {
        /// Name of the region, usually the VM's
        name: String,
        /// vCPUs of the VM, hot-pluggable ones included
        #[arg(long, default_value_t = 1, value_parser = vcpu_count())]
        vcpus: u32,
        /// User that the VM runs as: name, UID or UID:GID [default: the caller]
        #[arg(long, value_name = "USER")]
        owner: Option<String>,
        /// Do not let the guest kick when it drops a stale boost
        #[arg(long)]
        no_kick: bool,
        /// Do not follow the guest's preempt_count
        #[arg(long)]
        no_preempt_count: bool,
        /// Do not tell the guest about the host's CPUs and frequencies, nor let it ask for performance
        #[arg(long)]
        no_frequencies: bool,
        /// Let the guest count this host's perf events on its vCPUs, by the daemon (perf stat -e paracord/…/)
        #[arg(long)]
        counters: bool,
        /// Age of a dropped boost that is worth a kick, µs; 0: the guest driver's default
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
    /// vCPUs of the VM, hot-pluggable ones included
    #[arg(long, default_value_t = 1, value_parser = vcpu_count())]
    pub vcpus: u32,
    /// With interrupts from the daemon, for a region with counters that shall sample; QEMU needs the daemon at its start
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

/// What to do with the configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print the effective configuration; defaults are commented out
    Show {
        /// Also print each key's meaning and range
        #[arg(long)]
        explain: bool,
        /// Configuration file [default: /etc/paracord/paracord.toml if it exists]
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
    /// Check a configuration file and say what is wrong
    Check {
        /// The file [default: /etc/paracord/paracord.toml]
        file: Option<PathBuf>,
    },
}
