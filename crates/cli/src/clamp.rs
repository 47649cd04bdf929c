// SPDX-License-Identifier: GPL-2.0-only
//! `paracord clamp`: how much performance threads, control groups and VMs may ask for.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use paracord_host::control::Request;
use paracord_host::scheduler::clamp_order::{Clamp, ClampReport, ClampTarget};

use crate::args::Target;
use crate::control::ask;
use crate::exit::Failure;
use crate::output::{columns, print, print_json};

/// `paracord clamp`.
#[derive(Debug, Args)]
pub struct ClampArgs {
    #[command(subcommand)]
    pub command: ClampCommand,
}

/// The commands about clamps.
#[derive(Debug, Subcommand)]
pub enum ClampCommand {
    /// Set the minimum and the maximum of the performance that threads request; a bound that is not
    /// given is removed
    Set {
        #[command(flatten)]
        whose: Whose,
        /// Minimum performance while a thread is runnable; 1024 is the largest CPU at its highest
        /// frequency
        #[arg(long, value_name = "0..1024", value_parser = clamp_value(), required_unless_present = "max")]
        min: Option<u32>,
        /// Maximum performance, on the same scale
        #[arg(long, value_name = "0..1024", value_parser = clamp_value())]
        max: Option<u32>,
        #[command(flatten)]
        target: Target,
    },
    /// Show the clamps that are set, and the clamps that are effective
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

/// Carries out `paracord clamp`.
pub fn clamp(args: &ClampArgs) -> Result<ExitCode, Failure> {
    match &args.command {
        ClampCommand::Set { whose, min, max, target } => {
            let set = Request::ClampSet { target: whose.target()?, min: *min, max: *max };
            reports(target, &set).map(|_| ExitCode::SUCCESS)
        }
        ClampCommand::Clear { whose, target } => {
            let set = Request::ClampSet { target: whose.target()?, min: None, max: None };
            reports(target, &set).map(|_| ExitCode::SUCCESS)
        }
        ClampCommand::Get { whose, json, target } => {
            show(&reports(target, &Request::ClampGet { target: whose.target()? })?, *json)
        }
        ClampCommand::List { json, target } => {
            show(&reports(target, &Request::ClampList {})?, *json)
        }
    }
}

impl Whose {
    fn target(&self) -> Result<ClampTarget, Failure> {
        let Whose { task, process, cgroup, vm } = self;
        None.or_else(|| task.map(ClampTarget::Task))
            .or_else(|| process.map(ClampTarget::Process))
            .or_else(|| cgroup.clone().map(ClampTarget::Cgroup))
            .or_else(|| vm.clone().map(ClampTarget::Vm))
            .ok_or_else(|| Failure::usage("say whose: --task, --process, --cgroup or --vm"))
    }
}

fn reports(target: &Target, request: &Request) -> Result<Vec<ClampReport>, Failure> {
    serde_json::from_value(ask(target, request)?)
        .map_err(|e| Failure::new(format!("the daemon's answer is of another version: {e}")))
}

fn show(reports: &[ClampReport], json: bool) -> Result<ExitCode, Failure> {
    if json { print_json(&reports) } else { print(&table(reports)) }
}

fn table(reports: &[ClampReport]) -> String {
    if reports.is_empty() {
        return "no clamps are set\n".to_owned();
    }
    let head = ["WHOSE", "MIN", "MAX", "MIN IN FORCE", "MAX IN FORCE"].map(str::to_owned);
    let mut rows = vec![head.to_vec()];
    rows.extend(reports.iter().map(|r| {
        let whose = match &r.target {
            ClampTarget::Task(tid) => format!("task {tid}"),
            ClampTarget::Process(pid) => format!("process {pid}"),
            ClampTarget::Cgroup(path) => format!("cgroup {}", path.display()),
            ClampTarget::Vm(name) => format!("vm {name}"),
        };
        let ends = [r.own.min, r.own.max, r.effective.min, r.effective.max];
        std::iter::once(whose).chain(ends.map(|end| end.to_string())).collect()
    }));
    columns(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_per_report() {
        let own = Clamp { min: 0, max: 200 };
        let target = ClampTarget::Cgroup("web".into());
        let report = ClampReport { target, own, effective: Clamp { min: 0, max: 100 } };
        let text = table(&[report]);
        let words: Vec<&str> = text.lines().nth(1).unwrap_or("").split_whitespace().collect();
        assert_eq!(words, ["cgroup", "web", "0", "200", "0", "100"]);
        assert_eq!(table(&[]), "no clamps are set\n");
    }
}
