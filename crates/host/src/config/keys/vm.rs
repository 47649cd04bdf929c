// SPDX-License-Identifier: GPL-2.0-only
//! Keys for the boosting and the placement of VMs.

use paracord_policy::{PC_PENALTY_MAX_PERIODS, PC_PERIOD_MAX_MS, PC_PERIOD_MIN_MS};

use super::{Key, MODES, mode_of, mode_word, same, text};
use crate::config::boost::{BoostKeys, ReasonKeys};
use crate::config::place::PlaceKeys;
use crate::config::value::{Kind, Value};
use crate::place::PlaceMode;
use crate::settings::Reason;

/// Smallest value of `cpu_kept_pct`, the share of each CPU that is kept for unboosted work. The
/// kernel keeps the same share free of real-time tasks (the fair server: 50 ms per second). With a
/// smaller value, a guest whose budgets do not limit it would leave less time to unboosted work
/// than the kernel does. Whichever actuator is used, this share must be enough for the guest's VMM
/// and the daemon to run.
const CPU_KEPT_LEAST_PCT: u32 = 5;

/// Keys of `[boost]`. Except for the host-wide keys, they are also keys of `[vm."NAME"]`.
pub const BOOST: &[Key<BoostKeys>] = &[
    plain!(
        "period_ms",
        Kind::Int(PC_PERIOD_MIN_MS, PC_PERIOD_MAX_MS),
        Int,
        same,
        period_ms,
        "Period of the budgets. Each budget below is a share of this period."
    ),
    plain!(
        "vcpu_budget_pct",
        Kind::Pct(0, 100),
        Pct,
        same,
        vcpu_budget,
        "Maximum boosted running time of one vCPU per period, for all reasons together."
    ),
    plain!(
        "vm_budget_pct",
        Kind::Pct(0, 409_600),
        Pct,
        same,
        vm_budget,
        "Maximum boosted running time of all vCPUs of one VM together per period; 100 is one CPU."
    ),
    plain!(
        "cpu_kept_pct",
        Kind::Pct(CPU_KEPT_LEAST_PCT, 100),
        Pct,
        same,
        cpu_kept,
        "Share of every host CPU that is kept for unboosted work, whatever the guests do. The smallest allowed value is the share that the kernel itself keeps free of real-time tasks."
    ),
    plain!(
        "penalty_max_periods",
        Kind::Int(1, PC_PENALTY_MAX_PERIODS),
        Int,
        same,
        penalty_max_periods,
        "Maximum length of a throttle, in periods. Each time that the vCPU exhausts its budgets again, the length doubles up to this maximum; with 1, it does not grow."
    ),
    plain!(
        "actuation_min_us",
        Kind::Int(0, 1_000_000),
        Int,
        same,
        actuation_min_us,
        "Minimum average time from one boost of a vCPU to the next. Up to eight boosts may follow each other without a delay. 0: no limit."
    ),
    plain!(
        "hints_at_exit",
        Kind::Bool,
        Bool,
        same,
        hints_at_exit,
        "Whether a guest's hint also boosts a vCPU at a VM exit, and not only when the host preempts the vCPU."
    ),
    plain!(
        "io",
        Kind::Bool,
        Bool,
        same,
        io,
        "Whether the VMM's threads that are not vCPUs (main loop, I/O threads, workers, vhost) are boosted when they wake."
    ),
    plain!(
        "io_budget_pct",
        Kind::Pct(0, 409_600),
        Pct,
        same,
        io_budget,
        "Maximum boosted running time, per period, of all threads of one VMM that are not vCPUs. This budget is separate from the budgets of the vCPUs. 100 is one CPU."
    ),
];

/// The names of the sections `[boost.REASON]`, as docs/config.md lists them.
#[must_use]
pub fn reason_headings() -> String {
    Reason::ALL.map(|reason| format!("[boost.{}]", reason.name())).join(", ")
}

/// Keys of `[boost.REASON]` and `[vm."NAME".REASON]`, for each [`Reason`](crate::settings::Reason).
pub const REASON: &[Key<ReasonKeys>] = &[
    plain!(
        "enabled",
        Kind::Bool,
        Bool,
        same,
        enabled,
        "Whether a vCPU may be boosted for this reason."
    ),
    plain!(
        "grant_us",
        Kind::Int(0, 10_000_000),
        Int,
        same,
        grant_us,
        "Maximum running time of one boost for this reason; 0: no boost for this reason."
    ),
    plain!(
        "budget_pct",
        Kind::Pct(0, 100),
        Pct,
        same,
        budget,
        "Maximum boosted running time of one vCPU per period for this reason."
    ),
];

/// Keys of `[vm."NAME"]`, in addition to keys of `[boost]` and of its reasons.
pub const VM: &[Key<BoostKeys>] = &[
    Key {
        name: "mode",
        kind: MODES,
        doc: "Mode of this VM, with the same values as the global mode. The more restrictive of the two modes applies.",
        get: |s| Value::Text(mode_word(s.mode)),
        set: |s, v| s.mode = mode_of(v),
    },
    Key {
        name: "region",
        kind: Kind::Choice(&["auto", "off"]),
        doc: "auto: paracord uses the VM's shared region, if the VM has one. off: paracord treats the VM as an unmodified guest.",
        get: |s| Value::Text(if s.use_region { "auto" } else { "off" }.into()),
        set: |s, v| s.use_region = text(v) == "auto",
    },
    plain!(
        "guest_requests",
        Kind::Bool,
        Bool,
        same,
        guest_requests,
        "Whether this guest may request performance. `perf.guest_requests = false` switches requests off for all guests."
    ),
    plain!(
        "host_line",
        Kind::Bool,
        Bool,
        same,
        host_line,
        "If this guest has no device: whether the host writes the state of the guest's boosts into the guest's memory."
    ),
    plain!(
        "frequencies",
        Kind::Bool,
        Bool,
        same,
        frequencies,
        "If this guest has no device: whether it is told the capacities and frequencies of the host's CPUs, and may request performance. Needs `host_line`."
    ),
    plain!(
        "counters",
        Kind::Bool,
        Bool,
        same,
        counters,
        "If this guest has no device: whether events of the host are counted for it. Needs `host_line`. `counters.serve = false` switches counters off for all guests."
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
        doc: "The section applies only to VMs whose process runs with this user ID. A user can give a VM any name.",
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
        doc: "The section applies only to VMs whose process is in this control group when paracord finds the VM. The value may contain the wildcards `*` and `?`, as in \"/machine.slice/*\".",
        get: |p| Value::Text(p.cgroup.clone()),
        set: |p, v| p.cgroup = text(v),
    },
    Key {
        name: PIN_UUID,
        kind: Kind::Pattern,
        doc: "The section applies only to VMs whose VMM was given this UUID. (libvirt and Proxmox give each VM a UUID.) The value may contain the wildcards `*` and `?`. The user of a VM chooses its UUID and its name.",
        get: |p| Value::Text(p.uuid.clone()),
        set: |p, v| p.uuid = text(v),
    },
    Key {
        name: PIN_VMM,
        kind: Kind::Pattern,
        doc: "The section applies only to VMs of this VMM. The value is the name of the VMM's process, of which the kernel keeps 15 characters. It may contain the wildcards `*` and `?`, as in \"qemu-system-*\".",
        get: |p| Value::Text(p.vmm.clone()),
        set: |p, v| p.vmm = text(v),
    },
];

/// More keys of `[vm."NAME"]`. No other section has them.
pub const PLACE: &[Key<PlaceKeys>] = &[
    Key {
        name: "place",
        kind: Kind::Placement,
        doc: "Host CPUs on which the VM's vCPUs run (placement.md). The format is VCPU[-VCPU]=CPUS or all=CPUS. CPUS is a list, cluster:N, capacity:max, capacity:min, auto or any.",
        get: |p| Value::Text(p.place.to_string()),
        set: |p, v| p.place = text(v).parse().unwrap_or_default(),
    },
    Key {
        name: "place_mode",
        kind: Kind::Choice(&["affinity", "hints"]),
        doc: "affinity: paracord binds the vCPUs' threads to the CPUs of `place` until the VM or the daemon ends. hints: paracord only informs the guest, and binds no thread.",
        get: |p| Value::Text(p.mode.word().into()),
        set: |p, v| {
            p.mode = match text(v).as_str() {
                "hints" => PlaceMode::Hints,
                _ => PlaceMode::Affinity,
            }
        },
    },
];
