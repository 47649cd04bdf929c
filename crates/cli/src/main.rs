// SPDX-License-Identifier: GPL-2.0-only
//! The `paracord` command.
#![forbid(unsafe_code)]

mod args;
mod attach;
mod clamp;
mod config;
mod control;
mod doctor;
mod exit;
mod journal;
mod log;
mod manual;
mod notify;
mod output;
mod place;
mod region;
mod run;
mod status;
mod top;
mod units;
mod vm;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use args::Query;
use attach::{AttachArgs, LibvirtArgs};
use clamp::ClampArgs;
use config::ConfigArgs;
use control::ControlCommand;
use doctor::DoctorArgs;
use exit::Failure;
use region::RegionArgs;
use run::{RestoreArgs, RunArgs};
use top::TopArgs;
use vm::VmArgs;

const EXIT_CODES: &str = "Exit codes: 0 done, 1 failed, 2 wrong arguments or configuration, \
3 no daemon runs, 4 not permitted, 5 the host lacks something that paracord needs (doctor).";

/// Lets a Linux host and the virtual machines on it schedule together.
#[derive(Debug, Parser)]
#[command(version, after_help = EXIT_CODES, propagate_version = true)]
struct Cli {
    /// What to do.
    #[command(subcommand)]
    command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
enum Command {
    /// Find VMs and boost their vCPUs until paracord is stopped
    Run(RunArgs),
    /// Restore the threads that a killed daemon left changed (the service runs this after each
    /// stop)
    Restore(RestoreArgs),
    /// Show the daemon and its VMs
    Status(Query),
    /// Show VMs, and change their settings while they run
    Vm(VmArgs),
    /// Show and change how much performance threads, control groups and VMs may request (needs
    /// actuator ext)
    Clamp(ClampArgs),
    /// Show VMs and vCPUs live
    Top(TopArgs),
    #[command(flatten)]
    Control(ControlCommand),
    /// Show whether this host has the features that paracord uses, and what to change if it lacks
    /// one
    Doctor(DoctorArgs),
    /// Create, list and remove the files through which guests share their state with the host
    Region(RegionArgs),
    /// Print the QEMU options that give a VM its region
    QemuArgs(AttachArgs),
    /// Print the libvirt XML that gives a VM its region
    LibvirtXml(LibvirtArgs),
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

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => return exit::usage(&e),
    };
    match dispatch(cli) {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}

fn dispatch(cli: Cli) -> Result<ExitCode, Failure> {
    match cli.command {
        Command::Run(a) => run::run(&a),
        Command::Restore(a) => run::restore(&a),
        Command::Status(a) => status::status(&a),
        Command::Top(a) => top::top(&a),
        Command::Vm(a) => vm::vm(&a),
        Command::Clamp(a) => clamp::clamp(&a),
        Command::Control(a) => control::control(&a),
        Command::Doctor(a) => doctor::doctor(&a),
        Command::Region(a) => region::region(&a),
        Command::QemuArgs(a) => attach::qemu_args(&a),
        Command::LibvirtXml(a) => attach::libvirt_xml(&a),
        Command::Config(a) => config::config(&a),
        Command::Completions { shell } => manual::completions(Cli::command(), shell),
        Command::Man { directory } => manual::man(Cli::command(), &directory),
    }
}
