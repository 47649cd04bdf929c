// SPDX-License-Identifier: GPL-2.0-only
//! What can be seen of the daemon: plain values for status, top and metrics.
//!
//! A snapshot is read from memory that the BPF programs keep writing, so
//! values of one vCPU may be a few events apart. Counters only grow while a
//! vCPU lives; a consumer takes rates from two snapshots and
//! [`Snapshot::taken_ns`]. Times are nanoseconds of CLOCK_MONOTONIC.

mod histogram;

use paracord_policy::pc_vcpu_counters;
use serde::{Deserialize, Serialize};

use crate::place::PlaceMode;
use crate::settings::{Mode, Reason};

pub use histogram::{HISTOGRAM_BUCKETS, Histogram};

/// Version of this structure as it appears in JSON; grows when a field is
/// removed or changes its meaning, not when one is added.
pub const SNAPSHOT_SCHEMA: u32 = 1;

/// The whole daemon at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// [`SNAPSHOT_SCHEMA`].
    pub schema: u32,
    /// Version of paracord.
    pub version: String,
    /// Process of the daemon.
    pub pid: u32,
    /// CLOCK_MONOTONIC when this was taken.
    pub taken_ns: u64,
    /// CLOCK_MONOTONIC when the daemon started.
    pub started_ns: u64,
    /// The global mode.
    pub mode: Mode,
    /// Ready, or what the daemon waits for or lacks, one line each
    /// (for example "kvm is not loaded").
    pub conditions: Vec<String>,
    /// What this host can do, as found at the start.
    pub capabilities: Vec<Capability>,
    /// The rt actuator.
    pub actuator: ActuatorSnapshot,
    /// vCPU threads left to stock scheduling since the start: their user had `vcpus_per_user` already, or there were
    /// 4096 in all.
    #[serde(default)]
    pub vcpus_refused: u64,
    /// VMs that are left to stock scheduling now: their user has a quarter of `vcpus_per_user` (256 at least) already, or
    /// there are 1024 in all.
    #[serde(default)]
    pub vms_refused: u64,
    /// Control groups, there now, that paracord's scheduler has no record of: their tasks count as those of the next group
    /// above. 8191 have one, down to level 32.
    #[serde(default)]
    pub groups_unrecorded: u64,
    /// In the order in which they were found.
    pub vms: Vec<VmSnapshot>,
}

/// One thing that a host can do or lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capability {
    /// Short fixed name: `btf`, `kvm_tracepoints`, `kick_probe`, …
    pub name: String,
    /// Whether it is there.
    pub available: bool,
    /// What was found, or the remedy.
    pub detail: String,
}

/// The thread that carries out decisions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActuatorSnapshot {
    /// `rt`.
    pub kind: String,
    /// Threads boosted now.
    pub boosted_now: u32,
    /// Boosts carried out.
    pub boosts: u64,
    /// Boosts for an interrupt that became full ones.
    pub raised: u64,
    /// Unboosts carried out.
    pub unboosts: u64,
    /// Decisions overtaken by a later one about the same vCPU before they were carried out.
    pub coalesced: u64,
    /// Threads that were gone when a decision arrived (normal).
    pub gone: u64,
    /// Boosts refused because the thread already was real-time or deadline.
    pub refused_rt: u64,
    /// Boosts refused because a control group above the thread has a CPU quota or `cpu.idle` (actuator rt).
    #[serde(default)]
    pub refused_quota: u64,
    /// Unboosts left out because somebody else had changed the thread meanwhile.
    pub changed_by_others: u64,
    /// System calls that failed for another reason.
    pub errors: u64,
    /// Boosts decided for VMs in mode observe.
    pub observed: u64,
    /// Times that what a guest asks for became its vCPU's utilisation clamps (actuator rt).
    #[serde(default)]
    pub requests: u64,
    /// Threads that have such clamps now.
    #[serde(default)]
    pub requests_now: u32,
    /// From the decision in BPF to the finished system call.
    pub actuation_latency: Histogram,
}

/// One virtual machine: a process with KVM vCPU threads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VmSnapshot {
    /// QEMU's `-name`, else `comm-pid`.
    pub name: String,
    /// QEMU's `-uuid` (libvirt sets it).
    pub uuid: Option<String>,
    /// Process.
    pub pid: u32,
    /// Name of the VMM's executable (comm).
    pub vmm: String,
    /// User that the process runs as.
    pub uid: u32,
    /// Mode in force (the lower of the global one and the VM's own).
    pub mode: Mode,
    /// The shared region, if the VM maps one.
    pub region: Option<RegionSnapshot>,
    /// Why a region that the VM maps is not used, one line.
    pub region_refused: Option<String>,
    /// Why vCPUs are not placed although they should be, one line.
    #[serde(default)]
    pub place_refused: Option<String>,
    /// Which vCPUs are not boosted although the mode says so, and why, one line.
    #[serde(default)]
    pub not_boosted: Option<String>,
    /// Its guest's perf events, if the daemon serves them.
    #[serde(default)]
    pub pmu: Option<PmuSnapshot>,
    /// By KVM vcpu_id.
    pub vcpus: Vec<VcpuSnapshot>,
    /// The VMM's other threads, by thread id.
    #[serde(default)]
    pub io_threads: Vec<IoThreadSnapshot>,
    /// Of all those threads, also such as have ended.
    #[serde(default)]
    pub io_total: IoTotals,
    /// Running time left in the budget of its vCPUs; negative: debt.
    pub budget_left_ns: i64,
    /// Budget of its vCPUs per period.
    pub budget_ns: u64,
    /// The same of the VMM's other threads together.
    #[serde(default)]
    pub io_budget_left_ns: i64,
    /// Budget of the VMM's other threads together per period.
    #[serde(default)]
    pub io_budget_ns: u64,
    /// Period of the budgets.
    pub period_ns: u64,
}

/// A region in use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionSnapshot {
    /// File name in the region directory.
    pub name: String,
    /// Slots.
    pub slots: u32,
    /// Whole region.
    pub bytes: u64,
    /// ABI version of the guest's driver, `major.minor`; none without a driver.
    pub guest_abi: Option<String>,
    /// Features accepted by the guest and offered by the host: `boost`, `preempt_count`, `kick`, …
    pub features: Vec<String>,
}

/// A guest's perf events (docs/pmu.md), of the vCPUs that run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PmuSnapshot {
    /// It can sample: its QEMU has interrupts from the daemon.
    pub interrupts: bool,
    /// perf events that are open on the host.
    pub open: u64,
    /// ... and were opened.
    pub openings: u64,
    /// Times that one that was open served a counter.
    pub reuses: u64,
    /// Times that a counter was not served: its budget, or no such event.
    pub refusals: u64,
    /// Why the last time, one line.
    pub refused: Option<String>,
    /// Time of the host that went into it.
    pub spent_ns: u64,
}

/// One vCPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VcpuSnapshot {
    /// KVM vcpu_id.
    pub vcpu_id: u32,
    /// Thread.
    pub tid: u32,
    /// Last host CPU.
    pub cpu: u32,
    /// On a host CPU now.
    pub running: bool,
    /// If it is placed (docs/placement.md).
    #[serde(default)]
    pub placement: Option<PlacementSnapshot>,
    /// What the policy decided.
    pub state: BoostState,
    /// Why, while boosted.
    pub reasons: Vec<Reason>,
    /// The CPU quota (`cpu.max`) or `cpu.idle` of a control group above the thread, or why it is not known.
    #[serde(default)]
    pub cpu_quota: Option<String>,
    /// Whether that keeps it from being boosted (actuator rt).
    #[serde(default)]
    pub not_boosted: bool,
    /// Whether the thread's scheduling is changed now (false in mode observe).
    pub actuated: bool,
    /// What ran out, while throttled: `reason`, `vcpu`, `vm` or `cpu`.
    pub throttle_cause: Option<String>,
    /// End of the throttle; 0: not throttled.
    pub throttled_until_ns: u64,
    /// Exhaustions in a row.
    pub strikes: u32,
    /// Running time left in the vCPU's budget; negative: debt.
    pub budget_left_ns: i64,
    /// What the guest's governor asks for; none while that does not count.
    #[serde(default)]
    pub request: Option<RequestSnapshot>,
    /// Where the guest is told that the vCPU runs; none where it is told nothing.
    #[serde(default)]
    pub place: Option<HostPlaceSnapshot>,
    /// Counters.
    pub counters: VcpuCounters,
    /// From wakeup to running, while unboosted.
    pub wakeup_latency_unboosted: Histogram,
    /// From wakeup to running, while boosted.
    pub wakeup_latency_boosted: Histogram,
}

/// What threads of the VMM's own did since they were found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoTotals {
    /// Boosts.
    pub boosts: u64,
    /// Budget exhaustions.
    pub throttles: u64,
    /// Running time under boost.
    pub boosted_ns: u64,
    /// Running time.
    pub running_ns: u64,
}

impl IoTotals {
    /// Of one thread.
    pub fn of(c: &pc_vcpu_counters) -> IoTotals {
        IoTotals {
            boosts: c.boosts.iter().sum(),
            throttles: c.throttles,
            boosted_ns: c.boosted_ns,
            running_ns: c.running_ns,
        }
    }

    /// The sum of both.
    pub fn plus(self, other: IoTotals) -> IoTotals {
        IoTotals {
            boosts: self.boosts + other.boosts,
            throttles: self.throttles + other.throttles,
            boosted_ns: self.boosted_ns + other.boosted_ns,
            running_ns: self.running_ns + other.running_ns,
        }
    }
}

/// A thread of the VMM's own that works for the VM: its main loop, an I/O thread, a worker, vhost's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IoThreadSnapshot {
    /// Its name when it was found.
    pub name: String,
    /// Thread.
    pub tid: u32,
    /// Last host CPU.
    pub cpu: u32,
    /// On a host CPU now.
    pub running: bool,
    /// What the policy decided.
    pub state: BoostState,
    /// Whether a control group above it, or the configuration, keeps it from being boosted.
    pub not_boosted: bool,
    /// What ran out, while throttled: `reason`, `vcpu` (its own), `vm` or `cpu`.
    pub throttle_cause: Option<String>,
    /// Times that it ran after a sleep.
    pub wakeups: u64,
    /// What it did.
    #[serde(flatten)]
    pub did: IoTotals,
    /// From wakeup to running, while unboosted.
    pub wakeup_latency_unboosted: Histogram,
    /// From wakeup to running, while boosted.
    pub wakeup_latency_boosted: Histogram,
}

/// What a guest's governor asks for, as the guest says it (1024 is the largest CPU at its highest frequency).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestSnapshot {
    /// At least this while the vCPU is runnable.
    pub request: u16,
    /// At most this; 0: no limit.
    pub limit: u16,
}

/// A vCPU's place, as its host line says it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostPlaceSnapshot {
    /// Of the physical CPU, 1..=1024; 0: not known.
    pub capacity: u16,
    /// Relative to that CPU's highest, 1..=1024; 0: not known.
    pub frequency: u16,
    /// First CPU of those like it.
    pub cluster: Option<u32>,
    /// Performance domain.
    pub domain: Option<u16>,
}

/// Where a vCPU shall run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacementSnapshot {
    /// As it was said: `4-5`, `cluster:4`, `capacity:max`, `auto`.
    pub wanted: String,
    /// Whether the thread is bound or the guest only told.
    pub mode: PlaceMode,
    /// The CPUs that this means here, as a list.
    pub cpus: String,
    /// By the configuration, not by `paracord vm place`.
    pub configured: bool,
    /// False when somebody else has bound the thread to other CPUs since.
    pub in_force: bool,
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
    /// A budget is exhausted: no boost until the throttle ends.
    Throttled,
}

/// Counters of one vCPU since it was found (`struct pc_vcpu_counters`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VcpuCounters {
    /// VM exits.
    pub exits: u64,
    /// Wakeups.
    pub wakeups: u64,
    /// Interrupts or kicks wanted.
    pub irqs: u64,
    /// By [`Reason`]; a boost with two reasons counts in both.
    pub boosts: [u64; 4],
    /// Unboosts.
    pub unboosts: u64,
    /// Unboosts by a grant's or budget's end.
    pub forced: u64,
    /// Budget exhaustions.
    pub throttles: u64,
    /// Running time under boost.
    pub boosted_ns: u64,
    /// Running time.
    pub running_ns: u64,
    /// Region page absent or slot out of range.
    pub guest_read_errors: u64,
    /// Decisions lost because the ring buffer was full.
    pub actuations_dropped: u64,
    /// Changes of what the guest asks for that were seen.
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
