// SPDX-License-Identifier: GPL-2.0-only
//! The arguments.

use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};
use paracord_sim::mix::{self, KernelVersion, Mix, Scheduler};

use super::exit::Failure;

const EXIT_CODES: &str = "Exit codes: 0 nothing went wrong, 1 a fault (what must never happen \
has happened), 2 wrong arguments, a bad mix, or a file that cannot be written, 130 interrupted.";

/// Runs paracord's scheduler on simulated machines, beside a model of the kernel's own.
#[derive(Debug, Parser)]
#[command(name = "paracord-sim", version, after_help = EXIT_CODES, propagate_version = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a mix and print what each task got
    Run(RunArgs),
    /// Run a mix under both schedulers and show the differences
    Compare(CompareArgs),
    /// Measure the promises of the kernel's own scheduler, under both schedulers
    Contract(ContractArgs),
    /// Draw mixes from seeds, run them, and look for faults
    Random(RandomArgs),
    /// Only check whether files are valid mixes
    Check(CheckArgs),
    /// Write a mix as a plan for pc_play, which plays it on a real kernel in the lab
    Plan(Source),
}

/// A mix, and what the command line changes in it.
#[derive(Debug, Args)]
pub struct Source {
    /// The mix; docs/simulator.md describes the format
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Seed of all random numbers, instead of the file's
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Kernel version for the scheduler, instead of the file's
    #[arg(long, value_name = "VERSION")]
    pub kernel: Option<KernelWord>,
}

impl Source {
    /// Loads the mix and applies the options.
    ///
    /// # Errors
    /// The file is not a valid mix.
    pub fn load(&self) -> Result<Mix, Failure> {
        let mut mix = mix::load(&self.file)?;
        mix.seed = self.seed.unwrap_or(mix.seed);
        mix.kernel = self.kernel.map_or(mix.kernel, KernelWord::version);
        Ok(mix)
    }

    /// Name of the mix: the file name without its suffix.
    pub fn name(&self) -> String {
        let stem = self.file.file_stem().unwrap_or(self.file.as_os_str());
        stem.to_string_lossy().escape_debug().to_string()
    }
}

/// The files that a run writes.
#[derive(Debug, Args)]
pub struct Files {
    /// Write a trace for ui.perfetto.dev
    #[arg(long, value_name = "FILE.pftrace")]
    pub trace: Option<PathBuf>,
    /// Write results.json as the lab does; -: to standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write results.json and the mix as it ran into a directory
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

impl Files {
    /// Whether JSON is printed instead of the table.
    pub fn json_to_stdout(&self) -> bool {
        self.json.as_deref() == Some(Path::new("-"))
    }
}

/// `paracord-sim run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub source: Source,
    /// Scheduler, instead of the file's
    #[arg(long)]
    pub scheduler: Option<SchedulerWord>,
    /// Let operations of several CPUs overlap, as the seed decides
    #[arg(long)]
    pub races: bool,
    #[command(flatten)]
    pub files: Files,
}

/// `paracord-sim compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    #[command(flatten)]
    pub source: Source,
    #[command(flatten)]
    pub files: Files,
}

/// `paracord-sim contract`.
#[derive(Debug, Args)]
pub struct ContractArgs {
    /// Numbers of CPUs of the machines, which have a node per 64 CPUs and at most 8 nodes
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "2,8",
        value_parser = clap::value_parser!(u32).range(2..=512))]
    pub cpus: Vec<u32>,
    /// Run only these cases; docs/simulator.md lists them
    #[arg(long, value_name = "CASE,…", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Make longer runs, and draw 40 mixes instead of 8
    #[arg(long)]
    pub long: bool,
    /// First seed of the random mixes
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Measure no mix for longer than this
    #[arg(long, value_name = "S", default_value_t = 600,
        value_parser = clap::value_parser!(u64).range(2..=600))]
    pub seconds: u64,
    /// Simulate nothing, but write the mixes into a directory as CASE-N-CPUS.mix
    #[arg(long, value_name = "DIR", conflicts_with_all = ["played", "json"])]
    pub write: Option<PathBuf>,
    /// Simulate nothing, but judge the results of pc_play (lab/programs) for these mixes:
    /// CASE-N-CPUS.ext.json and CASE-N-CPUS.stock.json in a directory
    #[arg(long, value_name = "DIR")]
    pub played: Option<PathBuf>,
    /// Write the verdicts as the lab's results.json; -: to standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// `paracord-sim random`.
#[derive(Debug, Args)]
pub struct RandomArgs {
    /// Seed of the first mix
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// CPUs of the machine
    #[arg(long, value_name = "N", default_value_t = 8,
        value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub cpus: u32,
    /// Number of mixes to draw, from consecutive seeds
    #[arg(long, value_name = "K", default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..))]
    pub count: u64,
    /// Scheduler
    #[arg(long, default_value = "ext")]
    pub scheduler: SchedulerWord,
    /// Let operations of several CPUs overlap, as the seed decides
    #[arg(long)]
    pub races: bool,
    /// Write the mix to a file. If there are several mixes, write the first one that fails
    #[arg(long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// Reduce the first failing mix to what its fault needs, and write the result [to:
    /// seed-N-cpus-N.mix]
    #[arg(long)]
    pub shrink: bool,
}

/// `paracord-sim check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The files to check
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
}

/// A scheduler on the command line.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum SchedulerWord {
    /// paracord's scheduler, bpf/ext.bpf.c.
    Ext,
    /// A model of the kernel's own scheduler.
    Stock,
}

impl SchedulerWord {
    /// The scheduler.
    pub fn scheduler(self) -> Scheduler {
        match self {
            Self::Ext => Scheduler::Ext,
            Self::Stock => Scheduler::Stock,
        }
    }
}

/// A kernel on the command line.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum KernelWord {
    /// The oldest kernel with sched_ext.
    #[value(name = "6.12")]
    V6_12,
    /// The newest kernel that the lab runs.
    #[value(name = "7.3")]
    V7_3,
}

impl KernelWord {
    /// The kernel.
    fn version(self) -> KernelVersion {
        match self {
            Self::V6_12 => KernelVersion::V6_12,
            Self::V7_3 => KernelVersion::V7_3,
        }
    }
}
