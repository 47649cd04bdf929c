// SPDX-License-Identifier: GPL-2.0-only
//! The visible state of the daemon: plain values for status, top and metrics.
//!
//! A snapshot is read from memory that the BPF programs write concurrently, so the values of one
//! vCPU may be a few events apart. Counters never decrease while a vCPU exists. A consumer computes
//! rates from two snapshots and [`Snapshot::taken_ns`]. Times are nanoseconds of CLOCK_MONOTONIC.

mod histogram;
mod place;
mod region;

use paracord_policy::pc_vcpu_counters;
use serde::{Deserialize, Serialize};

use crate::settings::{Mode, Reason};

pub use histogram::{HISTOGRAM_BUCKETS, Histogram};
pub use place::{HostPlaceSnapshot, PlacementSnapshot};
pub use region::{AnnouncementsSnapshot, HostLinesSnapshot, RegionSnapshot};

/// Version of this structure as it appears in JSON. The version increases when a field is removed
/// or changes its meaning, but not when a field is added.
pub const SNAPSHOT_SCHEMA: u32 = 1;

/// The state of the whole daemon at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// [`SNAPSHOT_SCHEMA`].
    pub schema: u32,
    /// Version of paracord.
    pub version: String,
    /// Process ID of the daemon.
    pub pid: u32,
    /// Time of the snapshot, CLOCK_MONOTONIC.
    pub taken_ns: u64,
    /// Start of the daemon, CLOCK_MONOTONIC.
    pub started_ns: u64,
    /// The global mode.
    pub mode: Mode,
    /// What the daemon waits for or lacks (for example "kvm is not loaded"), and what paracord's
    /// scheduler does not preserve, one line each.
    pub conditions: Vec<String>,
    /// What this host can do, as found when the daemon started.
    pub capabilities: Vec<Capability>,
    /// The actuator.
    pub actuator: ActuatorSnapshot,
    /// Number of vCPU threads that were left to stock scheduling since the daemon started. Their
    /// user already had `vcpus_per_user` vCPUs, or the host already had 4096.
    #[serde(default)]
    pub vcpus_refused: u64,
    /// Number of VMs that are left to stock scheduling now. Their user already has a quarter of
    /// `vcpus_per_user` (at least 256) VMs, or the host already has 1024.
    #[serde(default)]
    pub vms_refused: u64,
    /// Number of existing control groups for which paracord's scheduler has no record. Their tasks
    /// count as tasks of the nearest ancestor group that has a record. At most 8191 groups can have
    /// records, down to level 32.
    #[serde(default)]
    pub groups_unrecorded: u64,
    /// The VMs, in the order in which they were found.
    pub vms: Vec<VmSnapshot>,
}

/// One capability that a host has or lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capability {
    /// Short fixed name: `btf`, `kvm_tracepoints`, `kick_probe`, …
    pub name: String,
    /// Whether the host has the capability.
    pub available: bool,
    /// What was found, or the remedy.
    pub detail: String,
}

/// The thread that carries out decisions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActuatorSnapshot {
    /// `rt` or `ext`.
    pub kind: String,
    /// Number of threads that are boosted now.
    pub boosted_now: u32,
    /// Number of boosts carried out.
    pub boosts: u64,
    /// Boosts for an interrupt that were raised to full boosts.
    pub raised: u64,
    /// Number of unboosts carried out.
    pub unboosts: u64,
    /// Decisions that were not carried out because a later decision about the same vCPU replaced
    /// them.
    pub coalesced: u64,
    /// Decisions that arrived after their threads had ended, which is normal.
    pub gone: u64,
    /// Boosts refused because the thread already was real-time or deadline.
    pub refused_rt: u64,
    /// Boosts refused because a control group above the thread has `cpu.idle`, or a CPU quota whose
    /// consumption is not known (actuator rt).
    #[serde(default)]
    pub refused_quota: u64,
    /// Unboosts that were not carried out because another program had changed the thread in the
    /// meantime.
    pub changed_by_others: u64,
    /// System calls that failed for another reason.
    pub errors: u64,
    /// Boosts decided for VMs in mode observe.
    pub observed: u64,
    /// Number of times that a guest's request was set as the utilisation clamps of its vCPU's
    /// thread (actuator rt).
    #[serde(default)]
    pub requests: u64,
    /// Number of threads that have such clamps now.
    #[serde(default)]
    pub requests_now: u32,
    /// Time from the decision in BPF to the end of the system call.
    pub actuation_latency: Histogram,
}

/// One virtual machine: a process with KVM vCPU threads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VmSnapshot {
    /// The name that the VMM was given, or `comm-pid` if it was given none.
    pub name: String,
    /// The UUID that the VMM was given, if any.
    pub uuid: Option<String>,
    /// Process ID.
    pub pid: u32,
    /// Name of the VMM's process (comm).
    pub vmm: String,
    /// User that the process runs as.
    pub uid: u32,
    /// Effective mode: the lower of the global mode and the VM's own mode.
    pub mode: Mode,
    /// The shared region, if the VM maps one.
    pub region: Option<RegionSnapshot>,
    /// Announcements of a region in the guest's own memory.
    #[serde(default)]
    pub announcements: AnnouncementsSnapshot,
    /// Why paracord does not use the VM's region, one line. The VM maps this region, or its guest
    /// has announced it.
    pub region_refused: Option<String>,
    /// Why vCPUs are not placed although they should be, one line.
    #[serde(default)]
    pub place_refused: Option<String>,
    /// Which vCPUs are not boosted although the VM's mode is on, and why, one line.
    #[serde(default)]
    pub not_boosted: Option<String>,
    /// The guest's perf events, if the daemon serves them.
    #[serde(default)]
    pub pmu: Option<PmuSnapshot>,
    /// The vCPUs, in order of KVM vcpu_id.
    pub vcpus: Vec<VcpuSnapshot>,
    /// The VMM's other threads, in order of thread ID.
    #[serde(default)]
    pub io_threads: Vec<IoThreadSnapshot>,
    /// Totals of the VMM's other threads, including those that have ended.
    #[serde(default)]
    pub io_total: IoTotals,
    /// Running time that is left in the budget of the VM's vCPUs; negative: debt.
    pub budget_left_ns: i64,
    /// Budget of the VM's vCPUs per period.
    pub budget_ns: u64,
    /// Running time that is left in the budget of the VMM's other threads together; negative: debt.
    #[serde(default)]
    pub io_budget_left_ns: i64,
    /// Budget of the VMM's other threads together per period.
    #[serde(default)]
    pub io_budget_ns: u64,
    /// Period of the budgets.
    pub period_ns: u64,
}

/// The perf events of a guest (docs/pmu.md), summed over the vCPUs that exist now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PmuSnapshot {
    /// Whether the guest can sample. Sampling requires that its QEMU gets interrupts from the
    /// daemon.
    pub interrupts: bool,
    /// Number of perf events that are open on the host.
    pub open: u64,
    /// Number of perf events that were opened.
    pub openings: u64,
    /// Number of times that an already open event served a counter.
    pub reuses: u64,
    /// Number of times that a counter was not served, for example because the VM's budget was used
    /// up or because there is no such event.
    pub refusals: u64,
    /// Why a counter was last not served, one line.
    pub refused: Option<String>,
    /// Time that the host has spent on the guest's perf events.
    pub spent_ns: u64,
}

/// One vCPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VcpuSnapshot {
    /// KVM vcpu_id.
    pub vcpu_id: u32,
    /// Thread ID.
    pub tid: u32,
    /// Last host CPU.
    pub cpu: u32,
    /// Whether the vCPU is on a host CPU now.
    pub running: bool,
    /// The placement of the vCPU, if it has one (docs/placement.md).
    #[serde(default)]
    pub placement: Option<PlacementSnapshot>,
    /// What the policy decided.
    pub state: BoostState,
    /// The reasons of the boost, while boosted.
    pub reasons: Vec<Reason>,
    /// The CPU quota (`cpu.max`) or `cpu.idle` of a control group above the thread, or why this
    /// limit is not known.
    #[serde(default)]
    pub cpu_quota: Option<String>,
    /// Whether the limit in `cpu_quota` keeps the vCPU from being boosted. `cpu.idle` always does.
    /// With actuator rt, so does a quota whose consumption is not known.
    #[serde(default)]
    pub not_boosted: bool,
    /// Whether paracord has changed the thread's scheduling (always false in mode observe).
    pub actuated: bool,
    /// While the vCPU is throttled: the exhausted budget (`reason`, `vcpu`, `vm` or `cpu`).
    pub throttle_cause: Option<String>,
    /// End of the throttle; 0: not throttled.
    pub throttled_until_ns: u64,
    /// Number of exhaustions of a budget that are not forgiven yet.
    pub strikes: u32,
    /// Running time that is left in the vCPU's budget; negative: debt.
    pub budget_left_ns: i64,
    /// The request of the guest's frequency governor; `None` while the request does not count.
    #[serde(default)]
    pub request: Option<RequestSnapshot>,
    /// Where the vCPU runs according to its host line; `None` if the guest is not told where.
    #[serde(default)]
    pub place: Option<HostPlaceSnapshot>,
    /// Counters.
    pub counters: VcpuCounters,
    /// Time from wakeup to running, while unboosted.
    pub wakeup_latency_unboosted: Histogram,
    /// Time from wakeup to running, while boosted.
    pub wakeup_latency_boosted: Histogram,
}

/// Totals of one or more VMM threads that are not vCPUs, since these threads were found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoTotals {
    /// Number of boosts.
    pub boosts: u64,
    /// Number of times that a budget was exhausted.
    pub throttles: u64,
    /// Running time while boosted.
    pub boosted_ns: u64,
    /// Running time.
    pub running_ns: u64,
}

impl IoTotals {
    /// The totals of one thread.
    pub fn of(c: &pc_vcpu_counters) -> IoTotals {
        IoTotals {
            boosts: c.boosts.iter().sum(),
            throttles: c.throttles,
            boosted_ns: c.boosted_ns,
            running_ns: c.running_ns,
        }
    }

    /// The sum of `self` and `other`.
    pub fn plus(self, other: IoTotals) -> IoTotals {
        IoTotals {
            boosts: self.boosts + other.boosts,
            throttles: self.throttles + other.throttles,
            boosted_ns: self.boosted_ns + other.boosted_ns,
            running_ns: self.running_ns + other.running_ns,
        }
    }
}

/// A thread of the VMM that is not a vCPU and that works for the VM: the main loop, an I/O thread,
/// a worker, or a vhost thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IoThreadSnapshot {
    /// Name of the thread when it was found.
    pub name: String,
    /// Thread ID.
    pub tid: u32,
    /// Last host CPU.
    pub cpu: u32,
    /// Whether the thread is on a host CPU now.
    pub running: bool,
    /// What the policy decided.
    pub state: BoostState,
    /// Whether a control group above the thread, or the configuration, prevents boosts of the
    /// thread.
    pub not_boosted: bool,
    /// While the thread is throttled: the exhausted budget (`reason`, `vcpu`, `vm` or `cpu`; `vcpu`
    /// is the thread's own budget).
    pub throttle_cause: Option<String>,
    /// Number of times that the thread ran after a sleep.
    pub wakeups: u64,
    /// The totals of the thread.
    #[serde(flatten)]
    pub did: IoTotals,
    /// Time from wakeup to running, while unboosted.
    pub wakeup_latency_unboosted: Histogram,
    /// Time from wakeup to running, while boosted.
    pub wakeup_latency_boosted: Histogram,
}

/// The request of a guest's frequency governor, as the guest has written it. 1024 is the largest
/// CPU at its highest frequency.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestSnapshot {
    /// Minimum performance while the vCPU is runnable.
    pub request: u16,
    /// Maximum performance; 0: no limit.
    pub limit: u16,
}

/// What the policy decided about a vCPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BoostState {
    /// Not boosted.
    #[default]
    Off,
    /// Boosted.
    Boosted,
    /// A budget is exhausted. The vCPU is not boosted until the throttle ends.
    Throttled,
}

/// Counters of one vCPU since it was found (`struct pc_vcpu_counters`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VcpuCounters {
    /// VM exits.
    pub exits: u64,
    /// Number of times that the vCPU ran after a sleep.
    pub wakeups: u64,
    /// Kicks of the vCPU by KVM, for example for an interrupt. On hosts on which the hardware posts
    /// interrupts, KVM's wakeups of the vCPU also count, and one kick may count twice.
    pub irqs: u64,
    /// Boosts by [`Reason`]. A boost with two reasons counts in both.
    pub boosts: [u64; Reason::COUNT],
    /// Unboosts.
    pub unboosts: u64,
    /// Unboosts although a reason for the boost still held, because a budget was exhausted or the
    /// grant of a hint was used up.
    pub forced: u64,
    /// Number of times that a budget was exhausted.
    pub throttles: u64,
    /// Running time while boosted.
    pub boosted_ns: u64,
    /// Running time.
    pub running_ns: u64,
    /// Failed reads of the region, and failed writes of answers for the guest's counters, for
    /// example because a page was absent.
    pub guest_read_errors: u64,
    /// Messages to the daemon that were dropped because the ring buffer was full. A decision that
    /// was dropped is sent again at the next event.
    pub actuations_dropped: u64,
    /// Changes of the guest's request that were seen.
    #[serde(default)]
    pub requests: u64,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn json_round_trip() {
        let snapshot = Snapshot {
            schema: SNAPSHOT_SCHEMA,
            vms: vec![VmSnapshot { vcpus: vec![VcpuSnapshot::default()], ..Default::default() }],
            ..Default::default()
        };
        let text = serde_json::to_string(&snapshot).unwrap();
        assert_eq!(serde_json::from_str::<Snapshot>(&text).unwrap(), snapshot);
    }
}
