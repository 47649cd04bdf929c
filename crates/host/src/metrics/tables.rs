// SPDX-License-Identifier: GPL-2.0-only
//! Counters and gauges with one value per host, VM or vCPU.

use paracord_sys::clock;

use crate::place::PlaceMode;
use crate::snapshot::{BoostState, IoTotals, PmuSnapshot, Snapshot, VcpuSnapshot, VmSnapshot};

/// A counter or gauge: its name, its help text, and the function for its value.
pub(super) type Value<T> = (&'static str, &'static str, fn(&T) -> f64);

pub(super) const NS_PER_S: f64 = clock::NS_PER_S as f64;

pub(super) const HOST_GAUGES: [Value<Snapshot>; 7] = [
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

pub(super) const HOST_COUNTERS: [Value<Snapshot>; 11] = [
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

pub(super) const VM_GAUGES: [Value<VmSnapshot>; 6] = [
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

/// Counters of the VMM's threads that are not vCPUs.
pub(super) const IO_COUNTERS: [Value<IoTotals>; 4] = [
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

/// Counters of VMs whose perf events the daemon serves.
pub(super) const PMU_COUNTERS: [Value<PmuSnapshot>; 4] = [
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

pub(super) const VCPU_GAUGES: [Value<VcpuSnapshot>; 6] = [
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

pub(super) const VCPU_COUNTERS: [Value<VcpuSnapshot>; 11] = [
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
