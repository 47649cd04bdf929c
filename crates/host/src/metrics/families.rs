// SPDX-License-Identifier: GPL-2.0-only
//! A snapshot as OpenMetrics text.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::place::PlaceMode;
use crate::settings::Reason;
use crate::snapshot::{
    BoostState, Histogram, IoTotals, PmuSnapshot, Snapshot, VcpuSnapshot, VmSnapshot,
};

/// A counter or gauge: name, help, value.
type Value<T> = (&'static str, &'static str, fn(&T) -> f64);
type Labels = Vec<(&'static str, String)>;

const NS_PER_S: f64 = 1e9;

const HOST_GAUGES: [Value<Snapshot>; 7] = [
    ("paracord_uptime_seconds", "Time since the daemon started", |s| {
        s.taken_ns.saturating_sub(s.started_ns) as f64 / NS_PER_S
    }),
    ("paracord_mode", "Global mode: 0 off, 1 observe, 2 on", |s| f64::from(s.mode as u8)),
    ("paracord_vms", "VMs that run", |s| s.vms.len() as f64),
    (
        "paracord_vms_refused",
        "VMs left to stock scheduling: too many of their user or in all",
        |s| s.vms_refused as f64,
    ),
    (
        "paracord_groups_unrecorded",
        "Control groups whose tasks paracord's scheduler counts as those of the next group above",
        |s| s.groups_unrecorded as f64,
    ),
    ("paracord_vcpus", "vCPUs of all VMs", |s| {
        s.vms.iter().map(|vm| vm.vcpus.len()).sum::<usize>() as f64
    }),
    ("paracord_boosted_threads", "Threads whose scheduling is changed now", |s| {
        f64::from(s.actuator.boosted_now)
    }),
];

const HOST_COUNTERS: [Value<Snapshot>; 11] = [
    ("paracord_actuator_boosts", "Boosts carried out", |s| s.actuator.boosts as f64),
    ("paracord_actuator_raised", "Boosts for an interrupt that became full ones", |s| {
        s.actuator.raised as f64
    }),
    ("paracord_actuator_unboosts", "Unboosts carried out", |s| s.actuator.unboosts as f64),
    (
        "paracord_actuator_coalesced",
        "Decisions overtaken by a later one before they were carried out",
        |s| s.actuator.coalesced as f64,
    ),
    ("paracord_actuator_gone", "Decisions about threads that had ended", |s| {
        s.actuator.gone as f64
    }),
    (
        "paracord_actuator_refused_rt",
        "Boosts refused because the thread already was real-time or deadline",
        |s| s.actuator.refused_rt as f64,
    ),
    (
        "paracord_actuator_refused_quota",
        "Boosts refused because a control group above the thread has cpu.idle or a CPU quota that cannot be read",
        |s| s.actuator.refused_quota as f64,
    ),
    (
        "paracord_actuator_changed_by_others",
        "Unboosts left out because somebody else had changed the thread",
        |s| s.actuator.changed_by_others as f64,
    ),
    (
        "paracord_vcpus_refused",
        "vCPU threads left to stock scheduling: too many of their user or in all",
        |s| s.vcpus_refused as f64,
    ),
    ("paracord_actuator_errors", "System calls that failed", |s| s.actuator.errors as f64),
    ("paracord_actuator_observed", "Boosts decided for VMs in mode observe", |s| {
        s.actuator.observed as f64
    }),
];

const VM_GAUGES: [Value<VmSnapshot>; 6] = [
    ("paracord_vm_mode", "Mode of the VM: 0 off, 1 observe, 2 on", |vm| f64::from(vm.mode as u8)),
    ("paracord_vm_budget_seconds", "Boosted running time of its vCPUs per period", |vm| {
        vm.budget_ns as f64 / NS_PER_S
    }),
    (
        "paracord_vm_io_budget_seconds",
        "Boosted running time of the VMM's other threads together per period",
        |vm| vm.io_budget_ns as f64 / NS_PER_S,
    ),
    (
        "paracord_vm_io_budget_left_seconds",
        "Boosted running time left to the VMM's other threads in this period; negative: debt",
        |vm| vm.io_budget_left_ns as f64 / NS_PER_S,
    ),
    (
        "paracord_vm_budget_left_seconds",
        "Boosted running time left in this period; negative: debt",
        |vm| vm.budget_left_ns as f64 / NS_PER_S,
    ),
    ("paracord_vm_period_seconds", "Period of the budgets", |vm| vm.period_ns as f64 / NS_PER_S),
];

/// Of the VMM's threads that are no vCPUs.
const IO_COUNTERS: [Value<IoTotals>; 4] = [
    ("paracord_vm_io_boosts", "Boosts of the VMM's other threads", |io| io.boosts as f64),
    ("paracord_vm_io_throttles", "Times that the VMM's other threads exhausted a budget", |io| {
        io.throttles as f64
    }),
    (
        "paracord_vm_io_boosted_seconds",
        "Running time of the VMM's other threads under boost",
        |io| io.boosted_ns as f64 / NS_PER_S,
    ),
    ("paracord_vm_io_running_seconds", "Running time of the VMM's other threads", |io| {
        io.running_ns as f64 / NS_PER_S
    }),
];

/// Of VMs whose perf events the daemon serves.
const PMU_COUNTERS: [Value<PmuSnapshot>; 4] = [
    ("paracord_vm_perf_openings", "perf events opened for the guest", |pmu| pmu.openings as f64),
    ("paracord_vm_perf_reuses", "Times that an open perf event served the guest again", |pmu| {
        pmu.reuses as f64
    }),
    ("paracord_vm_perf_refusals", "Times that the guest was refused a perf event", |pmu| {
        pmu.refusals as f64
    }),
    ("paracord_vm_perf_seconds", "Time that the guest's perf events took of the host", |pmu| {
        pmu.spent_ns as f64 / NS_PER_S
    }),
];

const VCPU_GAUGES: [Value<VcpuSnapshot>; 6] = [
    ("paracord_vcpu_request", "What the guest's governor asks for, of 1024; 0: nothing", |v| {
        v.request.as_ref().map_or(0.0, |asks| f64::from(asks.request))
    }),
    ("paracord_vcpu_boosted", "1 while the policy boosts the vCPU", |v| {
        f64::from(u8::from(v.state == BoostState::Boosted))
    }),
    ("paracord_vcpu_throttled", "1 while a budget of the vCPU is exhausted", |v| {
        f64::from(u8::from(v.state == BoostState::Throttled))
    }),
    (
        "paracord_vcpu_not_boosted",
        "1 while cpu.idle or a CPU quota that cannot be read keeps the vCPU from being boosted",
        |v| f64::from(u8::from(v.not_boosted)),
    ),
    ("paracord_vcpu_cpu", "Host CPU on which the vCPU ran last", |v| f64::from(v.cpu)),
    (
        "paracord_vcpu_placed",
        "0: anywhere, 1: its guest is told where, 2: its thread is bound",
        |v| match v.placement.as_ref().filter(|placement| placement.in_force) {
            Some(placement) => f64::from(1 + u8::from(placement.mode == PlaceMode::Affinity)),
            None => 0.0,
        },
    ),
];

const VCPU_COUNTERS: [Value<VcpuSnapshot>; 11] = [
    ("paracord_vcpu_requests", "Changes of what the guest's governor asks for", |v| {
        v.counters.requests as f64
    }),
    ("paracord_vcpu_exits", "VM exits", |v| v.counters.exits as f64),
    ("paracord_vcpu_wakeups", "Wakeups", |v| v.counters.wakeups as f64),
    ("paracord_vcpu_irqs", "Interrupts or kicks wanted", |v| v.counters.irqs as f64),
    ("paracord_vcpu_unboosts", "Unboosts", |v| v.counters.unboosts as f64),
    ("paracord_vcpu_forced_unboosts", "Unboosts by the end of a grant or budget", |v| {
        v.counters.forced as f64
    }),
    ("paracord_vcpu_throttles", "Budget exhaustions", |v| v.counters.throttles as f64),
    ("paracord_vcpu_boosted_seconds", "Running time under boost", |v| {
        v.counters.boosted_ns as f64 / NS_PER_S
    }),
    ("paracord_vcpu_running_seconds", "Running time", |v| v.counters.running_ns as f64 / NS_PER_S),
    (
        "paracord_vcpu_guest_read_errors",
        "Guest lines that could not be read (page absent, slot out of range)",
        |v| v.counters.guest_read_errors as f64,
    ),
    ("paracord_vcpu_actuations_dropped", "Decisions lost because the ring buffer was full", |v| {
        v.counters.actuations_dropped as f64
    }),
];

const INFO: &str = "paracord_build";
const VM_INFO: &str = "paracord_vm";
const BOOSTS: &str = "paracord_vcpu_boosts";
const ACTUATION: &str = "paracord_actuation_latency_seconds";
const WAKEUP: &str = "paracord_vm_wakeup_latency_seconds";

/// Every name as it appears in the output, without `_bucket`, `_sum` and `_count`.
pub const NAMES: fn() -> Vec<String> = || {
    let mut names = vec![format!("{INFO}_info"), format!("{VM_INFO}_info")];
    names.extend([ACTUATION.to_owned(), WAKEUP.to_owned(), format!("{BOOSTS}_total")]);
    names.extend(HOST_GAUGES.map(|(n, ..)| n.to_owned()));
    names.extend(VM_GAUGES.map(|(n, ..)| n.to_owned()));
    names.extend(IO_COUNTERS.map(|(n, ..)| format!("{n}_total")));
    names.extend(PMU_COUNTERS.map(|(n, ..)| format!("{n}_total")));
    names.extend(VCPU_GAUGES.map(|(n, ..)| n.to_owned()));
    names.extend(HOST_COUNTERS.map(|(n, ..)| format!("{n}_total")));
    names.extend(VCPU_COUNTERS.map(|(n, ..)| format!("{n}_total")));
    names
};

#[derive(Debug)]
struct Families(Snapshot);

fn vm_labels(vm: &VmSnapshot) -> Labels {
    // A name is not unique: two users may start VMs of the same name.
    vec![("vm", vm.name.clone()), ("pid", vm.pid.to_string())]
}

fn vcpu_labels(vm: &VmSnapshot, v: &VcpuSnapshot) -> Labels {
    let mut labels = vm_labels(vm);
    labels.push(("vcpu", v.vcpu_id.to_string()));
    labels
}

/// Cumulative buckets are the encoder's business; upper ends in seconds. The sum is not
/// recorded by the sensor: it is taken from the buckets' upper ends, hence an upper bound.
fn buckets(h: &Histogram) -> (f64, Vec<(f64, u64)>) {
    let mut ends: Vec<(f64, u64)> = h
        .buckets
        .iter()
        .enumerate()
        .map(|(n, &count)| ((n as f64 + 1.0).exp2() / NS_PER_S, count))
        .collect();
    let sum = ends.iter().map(|(end, count)| end * *count as f64).sum();
    ends.push((f64::MAX, 0));
    (sum, ends)
}

fn add(to: &mut Histogram, h: &Histogram) {
    to.buckets.resize(to.buckets.len().max(h.buckets.len()), 0);
    for (sum, count) in to.buckets.iter_mut().zip(&h.buckets) {
        *sum += count;
    }
}

impl Collector for Families {
    fn encode(&self, mut e: DescriptorEncoder) -> fmt::Result {
        let s = &self.0;
        let vcpus = || s.vms.iter().flat_map(|vm| vm.vcpus.iter().map(move |v| (vm, v)));
        e.encode_descriptor(INFO, "Version of the daemon", None, MetricType::Info)?
            .encode_info(&[("version", s.version.as_str())])?;
        for (name, help, value) in HOST_GAUGES {
            e.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value(s))?;
        }
        for (name, help, value) in HOST_COUNTERS {
            e.encode_descriptor(name, help, None, MetricType::Counter)?
                .encode_counter::<NoLabelSet, _, f64>(&value(s), None)?;
        }
        let (sum, ends) = buckets(&s.actuator.actuation_latency);
        let help = "From the decision to the finished system call";
        e.encode_descriptor(ACTUATION, help, None, MetricType::Histogram)?
            .encode_histogram::<NoLabelSet>(
                sum,
                s.actuator.actuation_latency.count(),
                &ends,
                None,
            )?;

        let mut info = e.encode_descriptor(VM_INFO, "The VM", None, MetricType::Info)?;
        for vm in &s.vms {
            let region = vm.region.as_ref();
            let mut labels = vm_labels(vm);
            labels.push(("vmm", vm.vmm.clone()));
            labels.push(("region", region.map_or(String::new(), |r| r.name.clone())));
            labels
                .push(("guest_abi", region.and_then(|r| r.guest_abi.clone()).unwrap_or_default()));
            info.encode_info(&labels)?;
        }
        for (name, help, value) in VM_GAUGES {
            let mut family = e.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for vm in &s.vms {
                family.encode_family(&vm_labels(vm))?.encode_gauge(&value(vm))?;
            }
        }
        for (name, help, value) in IO_COUNTERS {
            let mut family = e.encode_descriptor(name, help, None, MetricType::Counter)?;
            for vm in &s.vms {
                family
                    .encode_family(&vm_labels(vm))?
                    .encode_counter::<NoLabelSet, _, f64>(&value(&vm.io_total), None)?;
            }
        }
        for (name, help, value) in PMU_COUNTERS {
            let mut family = e.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (vm, pmu) in s.vms.iter().filter_map(|vm| vm.pmu.as_ref().map(|pmu| (vm, pmu))) {
                family
                    .encode_family(&vm_labels(vm))?
                    .encode_counter::<NoLabelSet, _, f64>(&value(pmu), None)?;
            }
        }
        self.encode_wakeups(&mut e)?;
        for (name, help, value) in VCPU_GAUGES {
            let mut family = e.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (vm, v) in vcpus() {
                family.encode_family(&vcpu_labels(vm, v))?.encode_gauge(&value(v))?;
            }
        }
        for (name, help, value) in VCPU_COUNTERS {
            let mut family = e.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (vm, v) in vcpus() {
                family
                    .encode_family(&vcpu_labels(vm, v))?
                    .encode_counter::<NoLabelSet, _, f64>(&value(v), None)?;
            }
        }
        let help = "Boosts; one with two reasons counts in both";
        let mut family = e.encode_descriptor(BOOSTS, help, None, MetricType::Counter)?;
        for (vm, v) in vcpus() {
            for r in Reason::ALL {
                let mut labels = vcpu_labels(vm, v);
                labels.push(("reason", r.name().to_owned()));
                family
                    .encode_family(&labels)?
                    .encode_counter::<NoLabelSet, _, f64>(&v.counters.boosts[r as usize], None)?;
            }
        }
        Ok(())
    }
}

impl Families {
    /// All vCPUs of a VM together: 66 series per vCPU would be too many.
    fn encode_wakeups(&self, e: &mut DescriptorEncoder) -> fmt::Result {
        let help = "From wakeup to running, all vCPUs of the VM";
        let mut family = e.encode_descriptor(WAKEUP, help, None, MetricType::Histogram)?;
        for vm in &self.0.vms {
            for boosted in [false, true] {
                let mut all = Histogram::default();
                for v in &vm.vcpus {
                    let part = if boosted {
                        &v.wakeup_latency_boosted
                    } else {
                        &v.wakeup_latency_unboosted
                    };
                    add(&mut all, part);
                }
                let mut labels = vm_labels(vm);
                labels.push(("boosted", boosted.to_string()));
                let (sum, ends) = buckets(&all);
                family.encode_family(&labels)?.encode_histogram::<NoLabelSet>(
                    sum,
                    all.count(),
                    &ends,
                    None,
                )?;
            }
        }
        Ok(())
    }
}

/// A snapshot as OpenMetrics text, for HTTP.
///
/// # Errors
/// None in practice: a `String` takes everything.
pub fn encode(snapshot: Snapshot) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Families(snapshot)));
    let mut out = String::new();
    text::encode(&mut out, &registry)?;
    Ok(out)
}

/// A snapshot in Prometheus' text format, for node_exporter: there a counter is
/// declared under the name of its samples, and there is no end mark.
///
/// # Errors
/// As [`encode`].
pub fn encode_textfile(snapshot: Snapshot) -> Result<String, fmt::Error> {
    let open_metrics = encode(snapshot)?;
    let types: std::collections::BTreeMap<&str, &str> =
        open_metrics.lines().filter_map(|l| l.strip_prefix("# TYPE ")?.split_once(' ')).collect();
    let mut out = String::new();
    for line in open_metrics.lines().filter(|l| *l != "# EOF") {
        let declared = line.strip_prefix("# HELP ").or_else(|| line.strip_prefix("# TYPE "));
        match declared.and_then(|rest| rest.split_once(' ')) {
            None => out.push_str(line),
            Some((name, rest)) => {
                let (suffix, rest) = match (types.get(name), rest) {
                    (Some(&"counter"), rest) => ("_total", rest),
                    (Some(&"info"), "info") => ("_info", "gauge"),
                    (Some(&"info"), rest) => ("_info", rest),
                    (_, rest) => ("", rest),
                };
                out.push_str(&format!("{} {name}{suffix} {rest}", &line[..6]));
            }
        }
        out.push('\n');
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot() -> Snapshot {
        let mut v = VcpuSnapshot { state: BoostState::Boosted, ..Default::default() };
        v.counters.boosts = [1, 2, 3, 4];
        v.counters.boosted_ns = 1_500_000_000;
        v.wakeup_latency_boosted.buckets = vec![0, 5, 1];
        let name = "we\"b\n\\".to_owned();
        let pmu = PmuSnapshot { spent_ns: 1_500_000_000, ..Default::default() };
        let vcpus = vec![v.clone(), v];
        let vm = VmSnapshot { name, pid: 7, vcpus, pmu: Some(pmu), ..Default::default() };
        Snapshot {
            version: "1.2".into(),
            taken_ns: 2_000_000_000,
            vms: vec![vm],
            ..Default::default()
        }
    }

    #[test]
    fn values_and_units() {
        let text = encode(snapshot()).unwrap();
        for line in [
            "paracord_build_info{version=\"1.2\"} 1",
            "paracord_uptime_seconds 2.0",
            "paracord_vcpu_boosts_total{vm=\"we\\\"b\\n\\\\\",pid=\"7\",vcpu=\"0\",reason=\"rt\"} 3",
            "paracord_vcpu_boosted_seconds_total{vm=\"we\\\"b\\n\\\\\",pid=\"7\",vcpu=\"0\"} 1.5",
            "paracord_vm_wakeup_latency_seconds_count{vm=\"we\\\"b\\n\\\\\",pid=\"7\",boosted=\"true\"} 12",
            "paracord_vm_perf_seconds_total{vm=\"we\\\"b\\n\\\\\",pid=\"7\"} 1.5",
            "# EOF",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} not in\n{text}");
        }
    }

    #[test]
    fn every_declared_name_appears_and_no_other() {
        let text = encode_textfile(snapshot()).unwrap();
        let mut declared: Vec<&str> =
            text.lines().filter_map(|l| l.strip_prefix("# TYPE ")?.split(' ').next()).collect();
        let mut names = NAMES();
        declared.sort_unstable();
        names.sort_unstable();
        assert_eq!(declared, names);
        assert!(!text.contains("# EOF"));
        for name in names {
            assert!(text.lines().any(|l| l.starts_with(&name)), "{name} has no sample");
        }
    }

    #[test]
    fn an_empty_daemon_can_be_scraped() {
        assert!(encode(Snapshot::default()).unwrap().ends_with("# EOF\n"));
    }
}
