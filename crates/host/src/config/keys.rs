// SPDX-License-Identifier: GPL-2.0-only
//! Every configuration key: name, range, meaning, and how to read and write it.

use std::path::PathBuf;
use std::time::Duration;

use super::boost::{BoostKeys, ReasonKeys};
use super::place::PlaceKeys;
use super::value::{Kind, Value};
use super::{Actuator, Config};
use crate::place::PlaceMode;
use crate::settings::Mode;

pub use super::lookup::{parse_override, vm_keys, vm_kind};

/// One key of a section that is stored in a `T`.
pub struct Key<T: 'static> {
    /// Name within its section, with its unit.
    pub name: &'static str,
    /// What it accepts.
    pub kind: Kind,
    /// Meaning, one sentence.
    pub doc: &'static str,
    /// Current value.
    pub get: fn(&T) -> Value,
    /// Stores a value that `kind` has accepted.
    pub set: fn(&mut T, Value),
}

fn text(v: Value) -> String {
    if let Value::Text(t) = v { t } else { String::new() }
}

fn path(v: Value) -> PathBuf {
    text(v).into()
}

fn optional_path(v: Value) -> Option<PathBuf> {
    Some(path(v)).filter(|p| !p.as_os_str().is_empty())
}

fn from_path(p: &std::path::Path) -> Value {
    Value::Text(p.to_string_lossy().into_owned())
}

fn from_optional_path(p: Option<&PathBuf>) -> Value {
    p.map_or(Value::Text(String::new()), |p| from_path(p))
}

/// An integer, percentage or switch kept in a field.
macro_rules! plain {
    ($name:literal, $kind:expr, $variant:ident, $as:expr, $($field:ident).+, $doc:literal) => {
        Key {
            name: $name,
            kind: $kind,
            doc: $doc,
            get: |t| Value::$variant(t.$($field).+.into()),
            set: |t, v| {
                if let Value::$variant(x) = v {
                    t.$($field).+ = $as(x);
                }
            },
        }
    };
}

fn same<X>(x: X) -> X {
    x
}

/// What the kernel keeps of each CPU from real-time tasks (the fair server, 50 ms of a second), and more than a guest leaves
/// that no budget holds: its own VMM and the daemon must run, whichever the actuator.
const CPU_KEPT_LEAST_PCT: u32 = 5;
const MODES: Kind = Kind::Choice(&["on", "observe", "off"]);

fn mode_of(v: Value) -> Mode {
    match text(v).as_str() {
        "on" => Mode::On,
        "observe" => Mode::Observe,
        _ => Mode::Off,
    }
}

fn mode_word(mode: Mode) -> String {
    match mode {
        Mode::On => "on",
        Mode::Observe => "observe",
        Mode::Off => "off",
    }
    .to_owned()
}

impl Actuator {
    /// Word used in the configuration.
    pub fn word(self) -> &'static str {
        match self {
            Actuator::Auto => "auto",
            Actuator::Rt => "rt",
            Actuator::Ext => "ext",
            Actuator::Observe => "observe",
        }
    }
}

/// Keys before the first section.
pub const GLOBAL: &[Key<Config>] = &[
    Key {
        name: "mode",
        kind: MODES,
        doc: "Upper bound for all VMs: on decides and acts, observe decides and counts, off does neither.",
        get: |c| Value::Text(mode_word(c.mode)),
        set: |c, v| c.mode = mode_of(v),
    },
    Key {
        name: "actuator",
        kind: Kind::Choice(&["auto", "rt", "ext", "observe"]),
        doc: "Who carries decisions out: rt makes the vCPU thread SCHED_RR, ext puts all ordinary tasks of the host under paracord's own scheduler, which does not keep all that the kernel's keeps (ext.md), observe changes nothing, auto is ext as long as it keeps all that this host uses, else rt.",
        get: |c| Value::Text(c.actuator.word().into()),
        set: |c, v| {
            c.actuator = match text(v).as_str() {
                "rt" => Actuator::Rt,
                "ext" => Actuator::Ext,
                "observe" => Actuator::Observe,
                _ => Actuator::Auto,
            }
        },
    },
    plain!(
        "rt_priority",
        Kind::Int(1, 98),
        Int,
        same,
        rt_priority,
        "SCHED_RR priority of a boosted vCPU thread; one less (but at least 1) when all it has to do is take an interrupt."
    ),
    plain!(
        "actuator_priority",
        Kind::Int(2, 99),
        Int,
        same,
        actuator_priority,
        "SCHED_FIFO priority of the thread that carries decisions out; must be above rt_priority."
    ),
    plain!(
        "housekeeping_ms",
        Kind::Int(1, 100),
        Int,
        same,
        housekeeping_ms,
        "Distance of the ticks that look at boosted vCPUs without VM exits or context switches; none while nothing is boosted."
    ),
    plain!(
        "vcpus_per_user",
        Kind::Int(1, 4096),
        Int,
        same,
        vcpus_per_user,
        "vCPUs of one user other than root that are looked after, of 4096 in all; of VMs a quarter as many, 256 at least, of 1024 in all. Further ones are left to stock scheduling: a higher number is for vCPUs that start after the reload."
    ),
    Key {
        name: "run_dir",
        kind: Kind::Path { optional: false },
        doc: "Directory of the journal from which boosted threads are restored.",
        get: |c| from_path(&c.run_dir),
        set: |c, v| c.run_dir = path(v),
    },
    Key {
        name: "region_dir",
        kind: Kind::Path { optional: false },
        doc: "Directory of the regions that guests share with the host; must lie on tmpfs or hugetlbfs.",
        get: |c| from_path(&c.region_dir),
        set: |c, v| c.region_dir = path(v),
    },
];

/// `[control]`.
pub const CONTROL: &[Key<Config>] = &[
    Key {
        name: "socket",
        kind: Kind::Path { optional: false },
        doc: "Unix socket of `paracord status` and the other commands.",
        get: |c| from_path(&c.control.socket),
        set: |c, v| c.control.socket = path(v),
    },
    Key {
        name: "group",
        kind: Kind::Group,
        doc: "Group whose members may use the socket besides root; if it does not exist or is \"\": root only.",
        get: |c| Value::Text(c.control.group.clone()),
        set: |c, v| c.control.group = text(v),
    },
];

/// `[metrics]`.
pub const METRICS: &[Key<Config>] = &[
    Key {
        name: "listen",
        kind: Kind::Loopback,
        doc: "TCP address that answers GET /metrics; \"\": none.",
        get: |c| Value::Text(c.metrics.listen.map_or(String::new(), |a| a.to_string())),
        set: |c, v| c.metrics.listen = text(v).parse().ok(),
    },
    Key {
        name: "socket",
        kind: Kind::Path { optional: true },
        doc: "Unix socket that answers GET /metrics; \"\": none.",
        get: |c| from_optional_path(c.metrics.socket.as_ref()),
        set: |c, v| c.metrics.socket = optional_path(v),
    },
    Key {
        name: "textfile",
        kind: Kind::Path { optional: true },
        doc: "File for node_exporter's textfile collector; \"\": none.",
        get: |c| from_optional_path(c.metrics.textfile.as_ref()),
        set: |c, v| c.metrics.textfile = optional_path(v),
    },
    plain!(
        "textfile_interval_s",
        Kind::Int(1, 3600),
        Int,
        same,
        metrics.textfile_interval_s,
        "Seconds between two writes of the textfile."
    ),
];

/// `[perf]`.
pub const PERF: &[Key<Config>] = &[
    plain!(
        "requests",
        Kind::Bool,
        Bool,
        same,
        perf.requests,
        "Ask the frequency governor (schedutil) for what runs, each task's need added up; actuator ext only."
    ),
    plain!(
        "carry",
        Kind::Bool,
        Bool,
        same,
        perf.carry,
        "A task that wakes after a long sleep starts with the request of its last burst, once; actuator ext only."
    ),
    plain!(
        "charge_capped",
        Kind::Bool,
        Bool,
        same,
        perf.charge_capped,
        "A task that runs faster than its clamp allows pays for it in time when others wait; actuator ext only."
    ),
    plain!(
        "hold",
        Kind::Bool,
        Bool,
        same,
        perf.hold,
        "A frequency falls only after less was needed for 17 to 34 ms; actuator ext only."
    ),
    plain!(
        "placement",
        Kind::Bool,
        Bool,
        same,
        perf.placement,
        "Where CPUs differ, place tasks where the kernel's energy model says that they cost least; actuator ext only."
    ),
    plain!(
        "import",
        Kind::Bool,
        Bool,
        same,
        perf.import,
        "Take over the clamps that programs give to the kernel (sched_setattr), until the end; actuator ext only."
    ),
    plain!(
        "guest_requests",
        Kind::Bool,
        Bool,
        same,
        perf.guest_requests,
        "What a guest's frequency governor asks for is its vCPU's least request, within the VM's clamps; with actuator rt it is the thread's uclamp.min."
    ),
];

/// `[counters]`.
pub const COUNTERS: &[Key<Config>] = &[
    plain!(
        "serve",
        Kind::Bool,
        Bool,
        same,
        counters.serve,
        "Count for guests whose region was created with `--counters`, by perf events on their vCPUs; for VMs that start later."
    ),
    Key {
        name: "events",
        kind: Kind::Events,
        doc: "What they may count: whatever this host has, or these events with commas between.",
        get: |c| Value::Text(c.counters.events.to_string()),
        set: |c, v| {
            if let Ok(events) = text(v).parse() {
                c.counters.events = events;
            }
        },
    },
    Key {
        name: "budget_ms",
        kind: Kind::Int(0, 100_000),
        doc: "Time of the host per second, of all its CPUs, that counters of one VM may cost; they stand still above it.",
        get: |c| {
            Value::Int(
                u32::try_from(c.counters.quota.calls_per_sec.as_millis()).unwrap_or(u32::MAX),
            )
        },
        set: |c, v| {
            if let Value::Int(ms) = v {
                c.counters.quota.calls_per_sec = Duration::from_millis(ms.into());
            }
        },
    },
    plain!(
        "openings",
        Kind::Int(0, 1_000_000),
        Int,
        same,
        counters.quota.opens_per_sec,
        "Perf events that counters of one VM may open per second."
    ),
];

/// `[supervisor]`.
pub const SUPERVISOR: &[Key<Config>] = &[
    plain!(
        "restart",
        Kind::Bool,
        Bool,
        same,
        restart,
        "Start the daemon again when it dies; boosted threads are restored in any case."
    ),
    plain!(
        "restarts_max",
        Kind::Int(0, 1000),
        Int,
        same,
        restarts_max,
        "Give up after this many restarts without a minute of good running in between."
    ),
];

/// The sections above, in the order in which they are shown.
pub const SECTIONS: &[(&str, &[Key<Config>])] = &[
    ("control", CONTROL),
    ("counters", COUNTERS),
    ("metrics", METRICS),
    ("perf", PERF),
    ("supervisor", SUPERVISOR),
];

/// `[boost]` and, for one VM, `[vm."NAME"]`.
pub const BOOST: &[Key<BoostKeys>] = &[
    plain!(
        "period_ms",
        Kind::Int(1, 10_000),
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
        Kind::Int(1, 1_000_000),
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
        "Boosted running time of all those threads of one VM together, beside what its vCPUs have; 100 is one CPU."
    ),
];

/// `[boost.REASON]` and `[vm."NAME".REASON]` for wake, irq, rt and critical.
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
        doc: "As the global mode, for this VM; the lower of the two is in force.",
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
];

/// Key of a section's user.
pub(super) const PIN_UID: &str = "uid";
/// Key of a section's control group.
pub(super) const PIN_CGROUP: &str = "cgroup";

/// What a section is pinned to besides its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PinKeys {
    uid: Option<u32>,
    cgroup: String,
}

/// `[vm."NAME"]` too: to which VMs of that name it applies.
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
];

/// `[vm."NAME"]` too; they belong to no other section.
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
        doc: "affinity binds the vCPUs' threads to those CPUs until the end; hints only tells the guest.",
        get: |p| Value::Text(p.mode.word().into()),
        set: |p, v| {
            p.mode = match text(v).as_str() {
                "hints" => PlaceMode::Hints,
                _ => PlaceMode::Affinity,
            }
        },
    },
];
