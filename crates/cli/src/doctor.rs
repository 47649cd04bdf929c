// SPDX-License-Identifier: GPL-2.0-only
//! `paracord doctor`.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use paracord_host::doctor::{self, Check, Status};

use crate::config::load_config;
use crate::exit::{self, Failure};
use crate::output::{print, print_json};

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

/// Prints all checks. The exit code is 5 if the host lacks something that paracord needs.
pub fn doctor(args: &DoctorArgs) -> Result<ExitCode, Failure> {
    let region_dir = load_config(args.config.as_deref())?.region_dir;
    let root = args.root.as_deref().unwrap_or(Path::new("/"));
    let checks = doctor::examine(root, &region_dir);
    let printed = if args.json { print_json(&checks)? } else { print(&render(&checks))? };
    Ok(if doctor::usable(&checks) { printed } else { ExitCode::from(exit::LACKING) })
}

fn render(checks: &[Check]) -> String {
    let mut text = String::new();
    let width = checks.iter().map(|c| c.name.len()).max().unwrap_or(0);
    for c in checks {
        let mark = match c.status {
            Status::Ok => "ok  ",
            Status::Warn => "warn",
            Status::Fail => "FAIL",
            Status::Unknown => "?   ",
        };
        let _ = writeln!(text, "{mark}  {:width$}  {}", c.name, c.found);
        if !c.remedy.is_empty() {
            let _ = writeln!(text, "      {:width$}  -> {}", "", c.remedy);
        }
    }
    let count = |s| checks.iter().filter(|c| c.status == s).count();
    let verdict = match (count(Status::Fail), count(Status::Unknown)) {
        (0, 0) => "this host can boost vCPUs".to_owned(),
        (0, n) => format!("nothing is known to be missing, but {n} could not be checked"),
        _ => "this host cannot boost vCPUs until what is marked FAIL is changed".to_owned(),
    };
    let _ = writeln!(text, "\n{verdict}");
    text
}
