// SPDX-License-Identifier: GPL-2.0-only
//! `paracord status` and `paracord vm`: print a snapshot as text or JSON.

use std::fmt::Write;
use std::process::ExitCode;

use paracord_host::control::Request;
use paracord_host::settings::Reason;
use paracord_host::snapshot::{
    AnnouncementsSnapshot, BoostState, Histogram, HostLinesSnapshot, IoThreadSnapshot, PmuSnapshot,
    RegionSnapshot, Snapshot, VcpuSnapshot, VmSnapshot,
};
use paracord_host::vms::names::{self, Called};
use paracord_sys::clock::NS_PER_S;

use crate::args::{Query, SnapshotSource, VmArgs, VmCommand};
use crate::control::ask;
use crate::exit::Failure;
use crate::output::{columns, print, print_json};
use crate::place::{place, placed};
use crate::units;

/// Reads a snapshot of the whole state from the daemon or from a file.
///
/// # Errors
/// If no daemon runs, if the caller has no permission, or if the file is not a snapshot.
pub fn fetch(query: &SnapshotSource) -> Result<Snapshot, Failure> {
    match &query.from {
        None => {
            let value = ask(&query.target, &Request::Status {})?;
            serde_json::from_value(value).map_err(|e| {
                Failure::new(format!("the daemon's status is of another version: {e}"))
            })
        }
        Some(file) => {
            let fail = |reason: String| Failure::new(format!("{}: {reason}", file.display()));
            let text = std::fs::read_to_string(file).map_err(|e| fail(e.to_string()))?;
            serde_json::from_str(&text)
                .map_err(|e| fail(format!("not written by `paracord status --json`: {e}")))
        }
    }
}

/// `paracord status`.
pub fn status(query: &Query) -> Result<ExitCode, Failure> {
    let snapshot = fetch(&query.source)?;
    if query.json { print_json(&snapshot) } else { print(&render(&snapshot)) }
}

/// `paracord vm`.
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

fn render(s: &Snapshot) -> String {
    let up_s = s.taken_ns.saturating_sub(s.started_ns) / NS_PER_S;
    let a = &s.actuator;
    let mut text = format!(
        "paracord {}, pid {}, up {}, mode {}, actuator {}\n",
        s.version,
        s.pid,
        units::uptime(up_s),
        word(&s.mode),
        a.kind
    );
    for condition in &s.conditions {
        let _ = writeln!(text, "condition: {condition}");
    }
    for lacking in s.capabilities.iter().filter(|c| !c.available) {
        let _ = writeln!(text, "lacking {}: {}", lacking.name, lacking.detail);
    }
    let _ = writeln!(
        text,
        "boosted now {}, boosts {}, unboosts {}, errors {}, actuation p50 {} p99 {}",
        a.boosted_now,
        a.boosts,
        a.unboosts,
        a.errors,
        percentile(&a.actuation_latency, 500),
        percentile(&a.actuation_latency, 990)
    );
    text.push('\n');
    text.push_str(&vm_table(&s.vms));
    text
}

fn vm_table(vms: &[VmSnapshot]) -> String {
    if vms.is_empty() {
        return "no VM runs\n".to_owned();
    }
    let mut rows = vec![row(&[
        "NAME",
        "PID",
        "VMM",
        "VCPUS",
        "MODE",
        "REGION",
        "GUEST",
        "BOOSTED",
        "BOOSTS",
        "THROTTLES",
    ])];
    for vm in vms {
        let total = |f: fn(&VcpuSnapshot) -> u64| vm.vcpus.iter().map(f).sum::<u64>().to_string();
        let region = vm.region.as_ref();
        rows.push(vec![
            vm.name.clone(),
            vm.pid.to_string(),
            vm.vmm.clone(),
            vm.vcpus.len().to_string(),
            word(&vm.mode),
            region.map_or_else(
                || if vm.region_refused.is_some() { "refused" } else { "none" }.to_owned(),
                |r| r.name.clone(),
            ),
            region.and_then(|r| r.guest_abi.clone()).unwrap_or_else(|| "none".to_owned()),
            total(|v| u64::from(v.state == BoostState::Boosted)),
            total(|v| v.counters.boosts.iter().sum()),
            total(|v| v.counters.throttles),
        ]);
    }
    let mut text = columns(&rows);
    for vm in vms {
        if let Some(why) = &vm.region_refused {
            let _ = writeln!(text, "{}: region refused: {why}", vm.name);
        }
        if let Some(why) = &vm.place_refused {
            let _ = writeln!(text, "{}: not placed: {why}", vm.name);
        }
        if let Some(why) = &vm.not_boosted {
            let _ = writeln!(text, "{}: not boosted: {why}", vm.name);
        }
    }
    text
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

/// Describes the accesses to a region that took too long. `None` if there were none.
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
        cells.push(percentile(&v.wakeup_latency_unboosted, 990));
        cells.push(percentile(&v.wakeup_latency_boosted, 990));
        rows.push(cells);
    }
    rows
}

/// Table of the VMM's threads that are not vCPUs.
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
            percentile(&t.wakeup_latency_unboosted, 990),
            percentile(&t.wakeup_latency_boosted, 990),
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

/// The reason why a vCPU is boosted, is throttled, or must not be boosted. `-` if the vCPU could be
/// boosted but is not.
pub fn why(v: &VcpuSnapshot) -> String {
    match v.state {
        BoostState::Off if v.not_boosted => "CPU limit".into(),
        BoostState::Off => "-".into(),
        BoostState::Boosted => {
            v.reasons.iter().map(|r| Reason::name(*r)).collect::<Vec<_>>().join("+")
        }
        BoostState::Throttled => empty_budget(v.throttle_cause.as_deref()),
    }
}

fn empty_budget(of: Option<&str>) -> String {
    format!("{} budget", of.unwrap_or("a"))
}

/// Capacity of the vCPU's host CPU at its current frequency, on a scale of 0 to 1024. `-` if the
/// frequency is not known or the guest is not told where the vCPU runs.
pub fn speed(v: &VcpuSnapshot) -> String {
    let known = v.place.as_ref().filter(|place| place.frequency != 0);
    known.map_or_else(
        || "-".into(),
        |place| (u32::from(place.capacity) * u32::from(place.frequency) / 1024).to_string(),
    )
}

/// The performance that the guest's governor requests, and the guest's upper limit if it has one.
pub fn asks(v: &VcpuSnapshot) -> String {
    match &v.request {
        None => "-".into(),
        Some(asks) if asks.limit == 0 => asks.request.to_string(),
        Some(asks) => format!("{}/{}", asks.request, asks.limit),
    }
}

fn row(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|c| (*c).to_owned()).collect()
}

fn percentile(h: &Histogram, permille: u32) -> String {
    h.percentile_ns(permille).map_or_else(|| "-".to_owned(), units::duration)
}

/// The word that stands in JSON for a value of an enumeration.
fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => "?".to_owned(),
    }
}
