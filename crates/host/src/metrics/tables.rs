// SPDX-License-Identifier: GPL-2.0-only
//! Counters and gauges with one value per host, VM or vCPU.

use paracord_sys::clock;

use crate::place::PlaceMode;
use crate::snapshot::{BoostState, IoTotals, PmuSnapshot, Snapshot, VcpuSnapshot, VmSnapshot};

/// A counter or gauge: its name, its help text, and the function for its value.
pub(super) type Value<T> = (&'static str, &'static str, fn(&T) -> f64);

pub(super) const NS_PER_S: f64 = clock::NS_PER_S as f64;

pub(super) const HOST_GAUGES: [Value<Snapshot>; 8] = [
    ("paracord_uptime_seconds", "Time since the daemon started, in seconds", |s| {
        s.taken_ns.saturating_sub(s.started_ns) as f64 / NS_PER_S
    }),
    ("paracord_mode", "Global mode: 0 off, 1 observe, 2 on", |s| f64::from(s.mode as u8)),
    (
        "paracord_vms",
        "Number of VMs that run, without those that paracord_vms_refused counts",
        |s| s.vms.len() as f64,
    ),
    (
        "paracord_vms_refused",
        "Number of VMs left to stock scheduling now because their user or the host already has the maximum number of VMs",
        |s| s.vms_refused as f64,
    ),
    (
        "paracord_groups_unrecorded",
        "Number of control groups without a record in paracord's scheduler; their tasks are accounted to the nearest ancestor group that has a record",
        |s| s.groups_unrecorded as f64,
    ),
    (
        "paracord_vcpus",
        "Number of vCPUs of the VMs in paracord_vms, without vCPUs left to stock scheduling",
        |s| s.vms.iter().map(|vm| vm.vcpus.len()).sum::<usize>() as f64,
    ),
    (
        "paracord_boosted_threads",
        "Number of threads (vCPUs and other threads of VMMs) that are boosted now",
        |s| f64::from(s.actuator.boosted_now),
    ),
    (
        "paracord_actuator_observed",
        "Number of boosts decided for the vCPUs of VMs that are in mode observe now; paracord carries out no boost in this mode; a boost with two reasons counts twice",
        |s| s.actuator.observed as f64,
    ),
];

pub(super) const HOST_COUNTERS: [Value<Snapshot>; 10] = [
    (
        "paracord_actuator_boosts",
        "Number of boosts carried out, of vCPUs and of other threads of VMMs",
        |s| s.actuator.boosts as f64,
    ),
    (
        "paracord_actuator_raised",
        "Number of boosts for an interrupt that actuator rt raised to full boosts",
        |s| s.actuator.raised as f64,
    ),
    (
        "paracord_actuator_unboosts",
        "Number of unboosts carried out, of vCPUs and of other threads of VMMs",
        |s| s.actuator.unboosts as f64,
    ),
    (
        "paracord_actuator_coalesced",
        "Number of decisions that a later decision about the same thread replaced before they were carried out",
        |s| s.actuator.coalesced as f64,
    ),
    ("paracord_actuator_gone", "Number of decisions about threads that had already ended", |s| {
        s.actuator.gone as f64
    }),
    (
        "paracord_actuator_refused_rt",
        "Number of boosts refused because the thread already was real-time or deadline",
        |s| s.actuator.refused_rt as f64,
    ),
    (
        "paracord_actuator_refused_quota",
        "Number of boosts refused because the thread's control group or an ancestor of it has cpu.idle or a CPU quota that cannot be read",
        |s| s.actuator.refused_quota as f64,
    ),
    (
        "paracord_actuator_changed_by_others",
        "Number of unboosts skipped because another program had changed the thread",
        |s| s.actuator.changed_by_others as f64,
    ),
    (
        "paracord_vcpus_refused",
        "Number of vCPU threads left to stock scheduling until they end because their user or the host already had the maximum number of vCPUs",
        |s| s.vcpus_refused as f64,
    ),
    (
        "paracord_actuator_errors",
        "Number of system calls of the actuator that failed although the thread had not ended",
        |s| s.actuator.errors as f64,
    ),
];

pub(super) const VM_GAUGES: [Value<VmSnapshot>; 6] = [
    ("paracord_vm_mode", "Mode of the VM: 0 off, 1 observe, 2 on", |vm| f64::from(vm.mode as u8)),
    (
        "paracord_vm_budget_seconds",
        "Boosted running time that all vCPUs of the VM together may use per period, in seconds",
        |vm| vm.budget_ns as f64 / NS_PER_S,
    ),
    (
        "paracord_vm_io_budget_seconds",
        "Boosted running time that the VMM's threads other than vCPUs together may use per period, in seconds",
        |vm| vm.io_budget_ns as f64 / NS_PER_S,
    ),
    (
        "paracord_vm_io_budget_left_seconds",
        "The part of paracord_vm_io_budget_seconds that is left in this period, in seconds; negative: debt",
        |vm| vm.io_budget_left_ns as f64 / NS_PER_S,
    ),
    (
        "paracord_vm_budget_left_seconds",
        "The part of paracord_vm_budget_seconds that is left in this period, in seconds; negative: debt",
        |vm| vm.budget_left_ns as f64 / NS_PER_S,
    ),
    ("paracord_vm_period_seconds", "Length of the period of the budgets, in seconds", |vm| {
        vm.period_ns as f64 / NS_PER_S
    }),
];

/// Counters for those threads of the VMM that are not vCPUs.
pub(super) const IO_COUNTERS: [Value<IoTotals>; 4] = [
    (
        "paracord_vm_io_boosts",
        "Number of boosts of the VMM's threads other than vCPUs, including threads that have ended",
        |io| io.boosts as f64,
    ),
    (
        "paracord_vm_io_throttles",
        "Number of times that an exhausted budget throttled one of the VMM's threads other than vCPUs, including threads that have ended",
        |io| io.throttles as f64,
    ),
    (
        "paracord_vm_io_boosted_seconds",
        "Boosted running time of the VMM's threads other than vCPUs, including threads that have ended, in seconds",
        |io| io.boosted_ns as f64 / NS_PER_S,
    ),
    (
        "paracord_vm_io_running_seconds",
        "Running time of the VMM's threads other than vCPUs, including threads that have ended, in seconds",
        |io| io.running_ns as f64 / NS_PER_S,
    ),
];

/// Counters of the perf events that the daemon opens for a VM's guest.
pub(super) const PMU_COUNTERS: [Value<PmuSnapshot>; 4] = [
    (
        "paracord_vm_perf_openings",
        "Number of perf events opened for the vCPUs that exist now",
        |pmu| pmu.openings as f64,
    ),
    (
        "paracord_vm_perf_reuses",
        "Number of times that an open perf event was reused for the vCPUs that exist now",
        |pmu| pmu.reuses as f64,
    ),
    (
        "paracord_vm_perf_refusals",
        "Number of times that a vCPU that exists now was refused a perf event",
        |pmu| pmu.refusals as f64,
    ),
    (
        "paracord_vm_perf_seconds",
        "Time that the host has spent on the guest's perf events, in seconds",
        |pmu| pmu.spent_ns as f64 / NS_PER_S,
    ),
];

pub(super) const VCPU_GAUGES: [Value<VcpuSnapshot>; 6] = [
    (
        "paracord_vcpu_request",
        "Performance that the guest's governor requests, on a scale from 0 to 1024 (the largest CPU at its highest frequency); 0: no request",
        |v| v.request.as_ref().map_or(0.0, |asks| f64::from(asks.request)),
    ),
    (
        "paracord_vcpu_boosted",
        "1 while the policy boosts the vCPU; in mode observe, the boost is not carried out",
        |v| f64::from(u8::from(v.state == BoostState::Boosted)),
    ),
    (
        "paracord_vcpu_throttled",
        "1 while the vCPU is throttled because a budget was exhausted",
        |v| f64::from(u8::from(v.state == BoostState::Throttled)),
    ),
    (
        "paracord_vcpu_not_boosted",
        "1 while the vCPU may not be boosted because of cpu.idle or, with actuator rt, because of a CPU quota that cannot be read",
        |v| f64::from(u8::from(v.not_boosted)),
    ),
    ("paracord_vcpu_cpu", "Host CPU on which the vCPU ran last", |v| f64::from(v.cpu)),
    (
        "paracord_vcpu_placed",
        "Placement of the vCPU: 0 not placed, or another program has bound the thread to other CPUs since; 1 only the guest is informed; 2 the thread is bound",
        |v| match v.placement.as_ref().filter(|placement| placement.in_force) {
            Some(placement) => f64::from(1 + u8::from(placement.mode == PlaceMode::Affinity)),
            None => 0.0,
        },
    ),
];

pub(super) const VCPU_COUNTERS: [Value<VcpuSnapshot>; 11] = [
    (
        "paracord_vcpu_requests",
        "Number of changes of the guest's performance request that paracord has seen",
        |v| v.counters.requests as f64,
    ),
    ("paracord_vcpu_exits", "Number of VM exits", |v| v.counters.exits as f64),
    ("paracord_vcpu_wakeups", "Number of times that the vCPU began to run after a sleep", |v| {
        v.counters.wakeups as f64
    }),
    (
        "paracord_vcpu_irqs",
        "Number of kicks of the vCPU by KVM, for example for an interrupt; on hosts on which the hardware posts interrupts, wakeups by KVM also count, and one kick may count twice",
        |v| v.counters.irqs as f64,
    ),
    ("paracord_vcpu_unboosts", "Number of unboosts that the policy has decided", |v| {
        v.counters.unboosts as f64
    }),
    (
        "paracord_vcpu_forced_unboosts",
        "Number of unboosts although a reason for the boost still held, because a budget was exhausted or the grant of a hint was used up",
        |v| v.counters.forced as f64,
    ),
    (
        "paracord_vcpu_throttles",
        "Number of times that an exhausted budget throttled the vCPU",
        |v| v.counters.throttles as f64,
    ),
    ("paracord_vcpu_boosted_seconds", "Boosted running time, in seconds", |v| {
        v.counters.boosted_ns as f64 / NS_PER_S
    }),
    ("paracord_vcpu_running_seconds", "Running time, in seconds", |v| {
        v.counters.running_ns as f64 / NS_PER_S
    }),
    (
        "paracord_vcpu_guest_read_errors",
        "Number of failed reads of the region, and of failed writes of answers for the guest's counters, for example because a page was absent",
        |v| v.counters.guest_read_errors as f64,
    ),
    (
        "paracord_vcpu_actuations_dropped",
        "Number of messages to the daemon lost because the ring buffer was full; a lost boost or unboost is reported again at the vCPU's next event",
        |v| v.counters.actuations_dropped as f64,
    ),
];
