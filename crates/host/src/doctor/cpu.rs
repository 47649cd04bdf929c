// SPDX-License-Identifier: GPL-2.0-only
//! Frequency, utilisation clamps and performance counters.

use paracord_sys::sysfs::{CpuFiles, Policy};

use super::check::{Check, Status};
use super::files::Tree;
use crate::place::host::{Cluster, Host, name};

pub fn uclamp(t: &Tree) -> Check {
    if t.exists("/proc/sys/kernel/sched_util_clamp_min") {
        return Check::ok("uclamp", "available");
    }
    Check::new(
        "uclamp",
        Status::Warn,
        "not in this kernel",
        "nothing to do for boosting; with actuator rt, what guests ask for needs a kernel with CONFIG_UCLAMP_TASK=y",
    )
}

/// Lists the kinds of CPUs, with the names that `paracord vm place` uses.
pub fn clusters(t: &Tree) -> Check {
    let host = Host::read(&t.at("/"));
    let one = |cluster: &Cluster| {
        let mhz = cluster.max_khz / 1000;
        let speed = if mhz > 0 { format!(", {mhz} MHz") } else { String::new() };
        let cpus = name(&cluster.cpus);
        format!("cluster {} ({cpus}, capacity {}{speed})", cluster.id(), cluster.capacity)
    };
    let found: Vec<String> = host.clusters.iter().map(one).collect();
    if found.is_empty() {
        return Check::new("clusters", Status::Unknown, "CPUs are not visible", "mount /sys");
    }
    Check::ok("clusters", found.join(", "))
}

/// Whether cpufreq driver `driver` chooses frequencies in hardware or firmware and ignores the
/// scheduler's requests.
fn ignores_requests(t: &Tree, driver: &str) -> bool {
    match driver {
        "intel_pstate" => t
            .text("/sys/devices/system/cpu/intel_pstate/status")
            .is_none_or(|mode| mode == "active"),
        "amd-pstate-epp" | "intel_pstate_epp" => true,
        _ => false,
    }
}

pub fn cpufreq(t: &Tree) -> Check {
    let name = "cpufreq";
    let policies = CpuFiles::below(&t.at("/sys")).policies();
    let Some(first) = policies.values().next() else {
        return Check::new(
            name,
            Status::Warn,
            "no frequency driver",
            "nothing to do for boosting; on bare metal, load the CPU's cpufreq driver",
        );
    };
    let known = |name: Result<Option<String>, _>| name.ok().flatten().unwrap_or_default();
    let (driver, governor) = (known(first.driver()), known(first.governor()));
    if ignores_requests(t, &driver) {
        return Check::new(
            name,
            Status::Warn,
            format!("{driver} in active mode ignores the scheduler's frequency requests"),
            "boot with intel_pstate=passive or amd_pstate=passive, then use the schedutil governor",
        );
    }
    let is_other = |policy: &Policy| {
        policy.governor().is_ok_and(|name| name.is_some_and(|name| name != "schedutil"))
    };
    let other = policies.iter().find(|(_, policy)| is_other(policy));
    match other {
        None => Check::ok(name, format!("{driver}, {governor}")),
        Some((number, _)) => Check::new(
            name,
            Status::Warn,
            format!("policy{number} uses a governor other than schedutil"),
            "nothing to do for boosting; `cpupower frequency-set -g schedutil` lets frequencies follow vCPUs",
        ),
    }
}

pub fn pmu(t: &Tree) -> Check {
    let found = t
        .names("/sys/bus/event_source/devices")
        .into_iter()
        .find(|d| d == "cpu" || d == "cpu_core" || d.starts_with("armv8"));
    match found {
        Some(device) => Check::ok("pmu", device),
        None => Check::new(
            "pmu",
            Status::Warn,
            "no hardware performance counters",
            "nothing to do for boosting; guests count clocks and faults only. In a VM, let the outer host expose its PMU",
        ),
    }
}

pub fn perf_event_paranoid(t: &Tree) -> Check {
    let name = "perf_event_paranoid";
    match t.number("/proc/sys/kernel/perf_event_paranoid") {
        // With level 3 (Debian) or 4 (Ubuntu), users without CAP_PERFMON may not use perf. Root is
        // not affected.
        Some(level) if level > 2 => Check::new(
            name,
            Status::Warn,
            format!("{level}: users may not use perf"),
            "nothing to do for the daemon; sysctl kernel.perf_event_paranoid=1 for `paracord-vmm --pmu` as a user",
        ),
        Some(level) => Check::ok(name, level.to_string()),
        None => Check::new(
            name,
            Status::Warn,
            "no perf events in this kernel",
            "use a kernel with CONFIG_PERF_EVENTS=y",
        ),
    }
}
