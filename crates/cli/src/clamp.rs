// SPDX-License-Identifier: GPL-2.0-only
//! `paracord clamp`: how much performance threads, control groups and VMs may ask for.

use std::process::ExitCode;

use paracord_host::control::Request;
use paracord_host::scheduler::clamps::{ClampReport, ClampTarget};

use crate::args::{ClampCommand, Target, Whose};
use crate::control::ask;
use crate::exit::Failure;
use crate::output::{columns, print, print_json};

/// `paracord clamp`.
pub fn clamp(command: &ClampCommand) -> Result<ExitCode, Failure> {
    match command {
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
    use paracord_host::scheduler::clamps::Clamp;

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
