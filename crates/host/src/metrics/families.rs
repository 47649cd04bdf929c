// SPDX-License-Identifier: GPL-2.0-only
//! Formats a snapshot as OpenMetrics text.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::tables::{
    HOST_COUNTERS, HOST_GAUGES, IO_COUNTERS, NS_PER_S, PMU_COUNTERS, VCPU_COUNTERS, VCPU_GAUGES,
    VM_GAUGES,
};
use crate::settings::Reason;
use crate::snapshot::{Histogram, Snapshot, VcpuSnapshot, VmSnapshot};

type Labels = Vec<(&'static str, String)>;

const INFO: &str = "paracord_build";
const VM_INFO: &str = "paracord_vm";
const BOOSTS: &str = "paracord_vcpu_boosts";
const ACTUATION: &str = "paracord_actuation_latency_seconds";
const WAKEUP: &str = "paracord_vm_wakeup_latency_seconds";

/// Every metric's name as it appears in the output, without `_bucket`, `_sum` and `_count`.
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
    // Names are not unique: two users may start VMs with the same name.
    vec![("vm", vm.name.clone()), ("pid", vm.pid.to_string())]
}

fn vcpu_labels(vm: &VmSnapshot, v: &VcpuSnapshot) -> Labels {
    let mut labels = vm_labels(vm);
    labels.push(("vcpu", v.vcpu_id.to_string()));
    labels
}

/// Returns the sum of a histogram in seconds, and its buckets as pairs of upper bound (in seconds)
/// and count. The encoder makes the counts cumulative. The sensor does not record the sum. The sum
/// is computed from the upper bounds of the buckets, so it is itself an upper bound.
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
        self.encode_host(&mut e)?;
        self.encode_vms(&mut e)?;
        self.encode_wakeups(&mut e)?;
        self.encode_vcpus(&mut e)
    }
}

impl Families {
    fn encode_host(&self, e: &mut DescriptorEncoder) -> fmt::Result {
        let s = &self.0;
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
        let help = "Time from the decision to the end of the system call";
        e.encode_descriptor(ACTUATION, help, None, MetricType::Histogram)?
            .encode_histogram::<NoLabelSet>(sum, s.actuator.actuation_latency.count(), &ends, None)
    }

    fn encode_vms(&self, e: &mut DescriptorEncoder) -> fmt::Result {
        let s = &self.0;
        let mut info = e.encode_descriptor(
            VM_INFO,
            "VMM, region and guest ABI of the VM",
            None,
            MetricType::Info,
        )?;
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
        Ok(())
    }

    fn encode_vcpus(&self, e: &mut DescriptorEncoder) -> fmt::Result {
        let vcpus = || self.0.vms.iter().flat_map(|vm| vm.vcpus.iter().map(move |v| (vm, v)));
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
        let help = "Boosts by reason; a boost with two reasons counts for both";
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

    /// Encodes the wakeup latencies. Each histogram covers all vCPUs of a VM together, because 66
    /// buckets per vCPU would be too many series.
    fn encode_wakeups(&self, e: &mut DescriptorEncoder) -> fmt::Result {
        let help = "Time from wakeup to running, for all vCPUs of the VM";
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

/// Formats a snapshot as OpenMetrics text, for HTTP.
///
/// # Errors
/// None in practice: writing to a `String` does not fail.
pub fn encode(snapshot: Snapshot) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Families(snapshot)));
    let mut out = String::new();
    text::encode(&mut out, &registry)?;
    Ok(out)
}

/// Formats a snapshot in Prometheus' text format, for node_exporter. In this format, the `# HELP`
/// and `# TYPE` lines of a counter contain the name of its samples (with `_total`), and there is no
/// end mark (`# EOF`).
///
/// # Errors
/// As for [`encode`].
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
    use crate::snapshot::{BoostState, PmuSnapshot};

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
