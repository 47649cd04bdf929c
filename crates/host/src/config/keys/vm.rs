// SPDX-License-Identifier: GPL-2.0-only
//! Keys for the boosting and the placement of VMs.

use paracord_policy::{PC_PENALTY_MAX_PERIODS, PC_PERIOD_MAX_MS, PC_PERIOD_MIN_MS};

use super::{Key, MODES, mode_of, mode_word, same, text};
use crate::config::boost::{BoostKeys, ReasonKeys};
use crate::config::place::PlaceKeys;
use crate::config::value::{Kind, Value};
use crate::place::PlaceMode;

/// Smallest value of `cpu_kept_pct`, the share of each CPU that is kept for unboosted work. The
/// kernel keeps the same share from real-time tasks (the fair server: 50 ms per second). A guest
/// whose budgets do not limit it would leave less. Whichever actuator is used, the guest's VMM and
/// the daemon must be able to run.
const CPU_KEPT_LEAST_PCT: u32 = 5;

/// `[boost]` and, for one VM, `[vm."NAME"]`.
pub const BOOST: &[Key<BoostKeys>] = &[
    plain!(
        "period_ms",
        Kind::Int(PC_PERIOD_MIN_MS, PC_PERIOD_MAX_MS),
        Int,
        same,
        period_ms,
        "Period of all budgets below: each is a share of it."
    ),
    plain!(
        "vcpu_budget_pct",
        Kind::Pct(0, 100),
        Pct,
        same,
        vcpu_budget,
        "Boosted running time of one vCPU, all reasons together."
    ),
    plain!(
        "vm_budget_pct",
        Kind::Pct(0, 409_600),
        Pct,
        same,
        vm_budget,
        "Boosted running time of all vCPUs of one VM together; 100 is one CPU."
    ),
    plain!(
        "cpu_kept_pct",
        Kind::Pct(CPU_KEPT_LEAST_PCT, 100),
        Pct,
        same,
        cpu_kept,
        "Share of every host CPU that is kept for unboosted work, whatever the guests do. At least what the kernel keeps from real-time tasks."
    ),
    plain!(
        "penalty_max_periods",
        Kind::Int(1, PC_PENALTY_MAX_PERIODS),
        Int,
        same,
        penalty_max_periods,
        "Longest throttling of a vCPU that exhausts its budgets again and again (it doubles each time); 1: it does not grow."
    ),
    plain!(
        "actuation_min_us",
        Kind::Int(0, 1_000_000),
        Int,
        same,
        actuation_min_us,
        "Shortest time from one boost of a vCPU to its next, on average (eight may follow each other at once); 0 switches this off."
    ),
    plain!(
        "hints_at_exit",
        Kind::Bool,
        Bool,
        same,
        hints_at_exit,
        "Whether a guest's hint also boosts at a VM exit, not only when the host takes the CPU away."
    ),
    plain!(
        "io",
        Kind::Bool,
        Bool,
        same,
        io,
        "Whether the VMM's other threads (main loop, I/O threads, workers, vhost) are boosted when they wake."
    ),
    plain!(
        "io_budget_pct",
        Kind::Pct(0, 409_600),
        Pct,
        same,
        io_budget,
        "Boosted running time of all these threads of one VM together, in addition to that of its vCPUs; 100 is one CPU."
    ),
];

/// `[boost.REASON]` and `[vm."NAME".REASON]`, for each [`Reason`](crate::settings::Reason).
pub const REASON: &[Key<ReasonKeys>] = &[
    plain!("enabled", Kind::Bool, Bool, same, enabled, "Whether this reason may boost."),
    plain!(
        "grant_us",
        Kind::Int(0, 10_000_000),
        Int,
        same,
        grant_us,
        "Longest running time of one boost for this reason; 0: none."
    ),
    plain!(
        "budget_pct",
        Kind::Pct(0, 100),
        Pct,
        same,
        budget,
        "Boosted running time of one vCPU for this reason."
    ),
];

/// `[vm."NAME"]`, besides all keys of `[boost]` and of its reasons.
pub const VM: &[Key<BoostKeys>] = &[
    Key {
        name: "mode",
        kind: MODES,
        doc: "Like the global mode, but for this VM; the more restrictive of the two applies.",
        get: |s| Value::Text(mode_word(s.mode)),
        set: |s, v| s.mode = mode_of(v),
    },
    Key {
        name: "region",
        kind: Kind::Choice(&["auto", "off"]),
        doc: "auto uses the shared region if the VM has one; off treats the VM as an unmodified guest.",
        get: |s| Value::Text(if s.use_region { "auto" } else { "off" }.into()),
        set: |s, v| s.use_region = text(v) == "auto",
    },
    plain!(
        "guest_requests",
        Kind::Bool,
        Bool,
        same,
        guest_requests,
        "Whether this guest may ask for performance; `perf.guest_requests` switches it off for all."
    ),
    plain!(
        "host_line",
        Kind::Bool,
        Bool,
        same,
        host_line,
        "Whether this guest is told the state of its boosts if it has no device, by writes into its own memory."
    ),
    plain!(
        "frequencies",
        Kind::Bool,
        Bool,
        same,
        frequencies,
        "Whether this guest is told the capacities and frequencies of the host's CPUs, and may ask for performance, if it has no device; needs `host_line`."
    ),
];

/// Key for the user that a section is pinned to.
pub const PIN_UID: &str = "uid";
/// Key for the control group that a section is pinned to.
pub const PIN_CGROUP: &str = "cgroup";
/// Key for the UUID that a section is pinned to.
pub const PIN_UUID: &str = "uuid";
/// Key for the VMM that a section is pinned to.
pub const PIN_VMM: &str = "vmm";

/// The properties that a section is pinned to, in addition to the name of the VM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PinKeys {
    uid: Option<u32>,
    cgroup: String,
    uuid: String,
    vmm: String,
}

/// More keys of `[vm."NAME"]`. They restrict the section to some of the VMs with a matching name.
pub const PIN: &[Key<PinKeys>] = &[
    Key {
        name: PIN_UID,
        kind: Kind::Int(0, u32::MAX - 1),
        doc: "Only VMs whose process runs as this user (number): a VM's name is its user's choice.",
        get: |p| p.uid.map_or(Value::Text(String::new()), Value::Int),
        set: |p, v| {
            if let Value::Int(uid) = v {
                p.uid = Some(uid);
            }
        },
    },
    Key {
        name: PIN_CGROUP,
        kind: Kind::Path { optional: false },
        doc: "Only VMs whose process is in this control group when it is found, with `*` and `?`, such as \"/machine.slice/*\".",
        get: |p| Value::Text(p.cgroup.clone()),
        set: |p, v| p.cgroup = text(v),
    },
    Key {
        name: PIN_UUID,
        kind: Kind::Pattern,
        doc: "Only VMs whose VMM was given this UUID, as libvirt and Proxmox do, with `*` and `?`. The VM's user chooses the UUID, as they choose the name.",
        get: |p| Value::Text(p.uuid.clone()),
        set: |p, v| p.uuid = text(v),
    },
    Key {
        name: PIN_VMM,
        kind: Kind::Pattern,
        doc: "Only VMs of this VMM, with `*` and `?`, such as \"qemu-system-*\" or \"firecracker\": the name of the process, of which the kernel keeps 15 characters.",
        get: |p| Value::Text(p.vmm.clone()),
        set: |p, v| p.vmm = text(v),
    },
];

/// More keys of `[vm."NAME"]`, which no other section has.
pub const PLACE: &[Key<PlaceKeys>] = &[
    Key {
        name: "place",
        kind: Kind::Placement,
        doc: "Host CPUs of its vCPUs (placement.md): VCPU[-VCPU]=CPUS or all=CPUS, CPUS being a list, cluster:N, capacity:max, capacity:min, auto or any.",
        get: |p| Value::Text(p.place.to_string()),
        set: |p, v| p.place = text(v).parse().unwrap_or_default(),
    },
    Key {
        name: "place_mode",
        kind: Kind::Choice(&["affinity", "hints"]),
        doc: "affinity binds the vCPUs' threads to those CPUs until the VM or the daemon ends; hints only tells the guest.",
        get: |p| Value::Text(p.mode.word().into()),
        set: |p, v| {
            p.mode = match text(v).as_str() {
                "hints" => PlaceMode::Hints,
                _ => PlaceMode::Affinity,
            }
        },
    },
];
