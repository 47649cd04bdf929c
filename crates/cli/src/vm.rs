// SPDX-License-Identifier: GPL-2.0-only
//! `paracord vm`: shows VMs in detail, and changes their settings.

use std::fmt::Write;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use paracord_host::control::Request;
use paracord_host::settings::Reason;
use paracord_host::snapshot::{
    AnnouncementsSnapshot, BoostState, HostLinesSnapshot, IoThreadSnapshot, PmuSnapshot,
    RegionSnapshot, Snapshot, VcpuSnapshot, VmSnapshot,
};
use paracord_host::vms::names::{self, Called};

use crate::args::{Query, Target};
use crate::control::ask;
use crate::exit::Failure;
use crate::output::{columns, print, print_json, row, word};
use crate::place::{PlaceArgs, place, placed};
use crate::status::{asks, empty_budget, fetch, speed, vm_table, why};
use crate::units;

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
        /// Keys and their new values, such as mode=observe, wake.grant_us=500 or rt.enabled=false
        #[arg(required = true, value_name = "KEY=VALUE", value_parser = key_value)]
        settings: Vec<(String, String)>,
        #[command(flatten)]
        target: Target,
    },
    /// Show or set the host CPUs for the vCPUs of a running VM
    Place(PlaceArgs),
}

fn key_value(word: &str) -> Result<(String, String), String> {
    let (key, value) = word.split_once('=').ok_or("write KEY=VALUE")?;
    paracord_host::config::parse_override(key, value).map_err(|e| e.to_string())?;
    Ok((key.to_owned(), value.to_owned()))
}

/// Carries out `paracord vm`.
pub fn vm(args: &VmArgs) -> Result<ExitCode, Failure> {
    match &args.command {
        VmCommand::List(query) => {
            let vms = fetch(&query.source)?.vms;
            if query.json { print_json(&vms) } else { print(&vm_table(&vms)) }
        }
        VmCommand::Show { vm, query } => {
            let snapshot = fetch(&query.source)?;
            let found = find(&snapshot, vm)?;
            if query.json { print_json(found) } else { print(&vm_details(found)) }
        }
        VmCommand::Set { vm, settings, target } => {
            let set = settings.iter().cloned().collect();
            ask(target, &Request::VmSet { vm: vm.clone(), set })?;
            Ok(ExitCode::SUCCESS)
        }
        VmCommand::Place(args) => place(args),
    }
}

fn find<'s>(snapshot: &'s Snapshot, vm: &str) -> Result<&'s VmSnapshot, Failure> {
    let called = |v: &'s VmSnapshot| Called { pid: v.pid, name: &v.name, uuid: v.uuid.as_deref() };
    names::find(vm, snapshot.vms.iter(), called).map_err(|error| Failure::new(error.to_string()))
}

fn vm_details(vm: &VmSnapshot) -> String {
    let mut text = format!("name    {}\n", vm.name);
    let mut line = |key: &str, value: String| {
        let _ = writeln!(text, "{key:<7} {value}");
    };
    line("uuid", vm.uuid.clone().unwrap_or_else(|| "none".into()));
    line("pid", format!("{} ({}, uid {})", vm.pid, vm.vmm, vm.uid));
    line("mode", word(&vm.mode));
    let budget = |left_ns: i64, of_ns: u64| {
        format!(
            "{}{} left of {} per {}",
            if left_ns < 0 { "-" } else { "" },
            units::duration(left_ns.unsigned_abs()),
            units::duration(of_ns),
            units::duration(vm.period_ns)
        )
    };
    line("budget", budget(vm.budget_left_ns, vm.budget_ns));
    line("I/O budget", budget(vm.io_budget_left_ns, vm.io_budget_ns));
    match (&vm.region, &vm.region_refused) {
        (Some(r), _) => line(
            "region",
            format!(
                "{}, {} slots, {} bytes, guest driver {}, features {}",
                r.name,
                r.slots,
                r.bytes,
                r.guest_abi.as_deref().unwrap_or("none"),
                if r.features.is_empty() { "none".into() } else { r.features.join(" ") }
            ),
        ),
        (None, Some(why)) => line("region", format!("refused: {why}")),
        (None, None) => line("region", "none: boosted by what the host sees alone".into()),
    }
    if let Some(slow) = vm.region.as_ref().and_then(slow_accesses) {
        line("region I/O", slow);
    }
    if let Some(lines) = vm.region.as_ref().and_then(|region| region.host_lines) {
        let HostLinesSnapshot { writes, errors, left_alone } = lines;
        line(
            "host lines",
            format!(
                "{writes} written; {errors} failed; {left_alone} left alone, as changed by others"
            ),
        );
    }
    let AnnouncementsSnapshot { all, ignored, unreadable } = vm.announcements;
    if ignored > 0 || unreadable > 0 {
        line(
            "announced",
            format!("{all} times; {ignored} ignored, as too fast; {unreadable} not readable"),
        );
    }
    if let Some(why) = &vm.place_refused {
        line("place", format!("refused: {why}"));
    }
    if let Some(why) = &vm.not_boosted {
        line("boosts", format!("none for {why}"));
    } else if let Some(quota) = vm.vcpus.iter().find_map(|vcpu| vcpu.cpu_quota.as_deref()) {
        line("boosts", format!("out of what is left of {quota}"));
    }
    if let Some(pmu) = &vm.pmu {
        line("perf", perf_events(pmu));
    }
    text.push('\n');
    text += &columns(&vcpu_rows(&vm.vcpus));
    if !vm.io_threads.is_empty() {
        text.push('\n');
        text += &columns(&io_rows(&vm.io_threads));
    }
    text
}

/// Describes the slow accesses to a region. `None` if there were none.
fn slow_accesses(region: &RegionSnapshot) -> Option<String> {
    let RegionSnapshot { slow_accesses, left_out_ns, .. } = *region;
    (slow_accesses > 0).then(|| {
        let now = match left_out_ns {
            0 => "in use again".to_owned(),
            left_ns => format!("left out for {}", units::duration(left_ns)),
        };
        format!("{slow_accesses} accesses took too long; {now}")
    })
}

/// Table of the vCPUs in detail.
fn vcpu_rows(vcpus: &[VcpuSnapshot]) -> Vec<Vec<String>> {
    let mut heading = row(&["VCPU", "TID", "CPU", "PLACED", "SPEED", "ASKS", "STATE", "WHY"]);
    heading.extend(Reason::ALL.map(|reason| reason.name().to_uppercase()));
    heading.extend(row(&["THROTTLES", "EXITS", "P99 OFF", "P99 ON"]));
    let mut rows = vec![heading];
    for v in vcpus {
        let mut cells = vec![
            v.vcpu_id.to_string(),
            v.tid.to_string(),
            v.cpu.to_string(),
            placed(v.placement.as_ref()),
            speed(v),
            asks(v),
            word(&v.state),
            why(v),
        ];
        cells.extend(v.counters.boosts.iter().map(ToString::to_string));
        cells.push(v.counters.throttles.to_string());
        cells.push(units::count(v.counters.exits));
        cells.push(units::percentile(&v.wakeup_latency_unboosted, 990));
        cells.push(units::percentile(&v.wakeup_latency_boosted, 990));
        rows.push(cells);
    }
    rows
}

/// Table of the VMM's threads that run no vCPU.
fn io_rows(threads: &[IoThreadSnapshot]) -> Vec<Vec<String>> {
    let mut rows = vec![row(&[
        "VMM THREAD",
        "TID",
        "CPU",
        "STATE",
        "WHY",
        "WAKEUPS",
        "BOOSTS",
        "THROTTLES",
        "BOOSTED",
        "RUN",
        "P99 OFF",
        "P99 ON",
    ])];
    for t in threads {
        let why = match (t.state, &t.throttle_cause) {
            (BoostState::Throttled, cause) => empty_budget(cause.as_deref()),
            (BoostState::Off, _) if t.not_boosted => "CPU limit or io = false".into(),
            _ => "-".into(),
        };
        rows.push(vec![
            t.name.clone(),
            t.tid.to_string(),
            t.cpu.to_string(),
            word(&t.state),
            why,
            units::count(t.wakeups),
            units::count(t.did.boosts),
            t.did.throttles.to_string(),
            units::duration(t.did.boosted_ns),
            units::duration(t.did.running_ns),
            units::percentile(&t.wakeup_latency_unboosted, 990),
            units::percentile(&t.wakeup_latency_boosted, 990),
        ]);
    }
    rows
}

/// One line about the guest's perf events.
fn perf_events(pmu: &PmuSnapshot) -> String {
    let mut text = format!(
        "{}, {} events open, {} opened, {} used again, {} of the host's time",
        if pmu.interrupts { "counts and samples" } else { "counts" },
        pmu.open,
        units::count(pmu.openings),
        units::count(pmu.reuses),
        units::duration(pmu.spent_ns)
    );
    if let (refusals @ 1.., Some(why)) = (pmu.refusals, &pmu.refused) {
        let _ = write!(text, "; {} not served, the last: {why}", units::count(refusals));
    }
    text
}
