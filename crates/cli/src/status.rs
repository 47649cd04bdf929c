// SPDX-License-Identifier: GPL-2.0-only
//! `paracord status`: prints a snapshot as text or JSON.

use std::fmt::Write;
use std::process::ExitCode;

use paracord_host::control::Request;
use paracord_host::settings::Reason;
use paracord_host::snapshot::{BoostState, Snapshot, VcpuSnapshot, VmSnapshot};
use paracord_sys::clock::NS_PER_S;

use crate::args::{Query, SnapshotSource};
use crate::control::ask;
use crate::exit::Failure;
use crate::output::{columns, print, print_json, row, word};
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
        units::percentile(&a.actuation_latency, 500),
        units::percentile(&a.actuation_latency, 990)
    );
    text.push('\n');
    text.push_str(&vm_table(&s.vms));
    text
}

/// One row per VM, followed by lines about the problems of VMs.
pub fn vm_table(vms: &[VmSnapshot]) -> String {
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

/// Names the budget that is used up.
pub fn empty_budget(of: Option<&str>) -> String {
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
