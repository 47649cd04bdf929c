// SPDX-License-Identifier: GPL-2.0-only
//! `paracord vm place`: the host CPUs on which the vCPUs of a VM run.

use std::fmt::Write;
use std::process::ExitCode;

use clap::Args;
use paracord_host::control::Request;
use paracord_host::place::{PlaceMode, PlaceReport, Placement};
use paracord_host::snapshot::PlacementSnapshot;

use crate::args::Target;
use crate::control::ask;
use crate::exit::Failure;
use crate::output::{columns, print, print_json};

/// `paracord vm place`.
#[derive(Debug, Args)]
pub struct PlaceArgs {
    /// Name, UUID or process ID
    pub vm: String,
    /// VCPU[-VCPU]=CPUS or all=CPUS. CPUS is a list such as 0-3,8, or cluster:N, capacity:max,
    /// capacity:min, auto or any. Without a placement, the command shows the vCPUs
    #[arg(value_name = "VCPU=CPUS", value_parser = placement)]
    pub place: Vec<String>,
    /// Place each vCPU on a CPU of its own, the largest CPUs first (all=auto)
    #[arg(long, conflicts_with_all = ["place", "clear"])]
    pub auto: bool,
    /// Remove all placements of the VM and restore the affinity that the vCPUs had before. A
    /// placement in the configuration is suspended until the configuration is read again
    #[arg(long, conflicts_with_all = ["place", "hints"])]
    pub clear: bool,
    /// Only inform the guest, and do not bind the vCPUs' threads
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

/// Carries out `paracord vm place`.
pub fn place(args: &PlaceArgs) -> Result<ExitCode, Failure> {
    let (request, is_question) = request(args)?;
    let report: PlaceReport = serde_json::from_value(ask(&args.target, &request)?)
        .map_err(|e| Failure::new(format!("the daemon's answer is of another version: {e}")))?;
    match (args.json, is_question) {
        (true, _) => print_json(&report),
        (false, true) => print(&table(&report)),
        (false, false) => print(&notes(&report)),
    }
}

/// The request to send, and whether it only asks for the current state.
fn request(args: &PlaceArgs) -> Result<(Request, bool), Failure> {
    let vm = args.vm.clone();
    let place = if args.auto { "auto".to_owned() } else { args.place.join(" ") };
    if args.clear {
        return Ok((Request::VmPlaceClear { vm }, false));
    }
    if place.is_empty() {
        return match args.hints {
            true => Err(Failure::usage("--hints needs placements such as 0=4-5, or --auto")),
            false => Ok((Request::VmPlaceGet { vm }, true)),
        };
    }
    // The command line parser has checked each word separately, but not whether two words place the
    // same vCPU.
    place.parse::<Placement>().map_err(|e| Failure::usage(e.to_string()))?;
    let mode = if args.hints { PlaceMode::Hints } else { PlaceMode::Affinity };
    Ok((Request::VmPlace { vm, place, mode }, false))
}

/// A placement such as `cluster:4 (hints)`, or `-` without a placement.
pub fn placed(placement: Option<&PlacementSnapshot>) -> String {
    let Some(placement) = placement else { return "-".to_owned() };
    let mode = match placement.mode {
        PlaceMode::Affinity => "",
        PlaceMode::Hints => " (hints)",
    };
    let lost = if placement.in_force { "" } else { " (changed by others)" };
    format!("{}{mode}{lost}", placement.wanted)
}

fn notes(report: &PlaceReport) -> String {
    let mut text = String::new();
    for note in &report.notes {
        let _ = writeln!(text, "{note}");
    }
    text
}

fn table(report: &PlaceReport) -> String {
    let head = ["VCPU", "TID", "CPU", "PLACED", "MEANS", "BY", "MAY RUN ON"].map(str::to_owned);
    let mut rows = vec![head.to_vec()];
    rows.extend(report.vcpus.iter().map(|vcpu| {
        let placement = vcpu.placement.as_ref();
        let by = match placement.map(|placement| placement.configured) {
            Some(true) => "configuration",
            Some(false) => "command",
            None => "-",
        };
        vec![
            vcpu.vcpu_id.to_string(),
            vcpu.tid.to_string(),
            vcpu.cpu.to_string(),
            placed(placement),
            placement.map_or("-".to_owned(), |placement| placement.cpus.clone()),
            by.to_owned(),
            vcpu.allowed.clone(),
        ]
    }));
    let mut text = columns(&rows);
    if let Some(why) = &report.refused {
        let _ = writeln!(text, "not placed: {why}");
    }
    text + &notes(report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use paracord_host::place::VcpuPlace;

    #[test]
    fn a_row_per_vcpu_and_what_is_worth_knowing_below() {
        let placement = PlacementSnapshot {
            wanted: "cluster:4".into(),
            mode: PlaceMode::Hints,
            cpus: "4-5".into(),
            configured: true,
            in_force: true,
        };
        let vcpu = VcpuPlace { tid: 77, cpu: 3, allowed: "0-5".into(), ..VcpuPlace::default() };
        let placed = VcpuPlace { vcpu_id: 1, placement: Some(placement), ..vcpu.clone() };
        let report = PlaceReport {
            vcpus: vec![vcpu, placed],
            refused: Some("no".into()),
            notes: vec!["3 vCPUs share CPU 4: they take turns".into()],
            ..PlaceReport::default()
        };
        let text = table(&report);
        let lines: Vec<Vec<&str>> = text.lines().map(|l| l.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["0", "77", "3", "-", "-", "-", "0-5"]);
        let second = ["1", "77", "3", "cluster:4", "(hints)", "4-5", "configuration", "0-5"];
        assert_eq!(lines[2], second);
        assert!(text.ends_with("not placed: no\n3 vCPUs share CPU 4: they take turns\n"), "{text}");
    }
}
