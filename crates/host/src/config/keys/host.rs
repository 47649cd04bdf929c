// SPDX-License-Identifier: GPL-2.0-only
//! Keys of the host: those before the first section, and those of all sections except `[boost]` and
//! the sections of VMs and regions.

use std::time::Duration;

use super::{
    Key, MODES, from_optional_path, from_path, mode_of, mode_word, optional_path, path, same, text,
};
use crate::config::value::{Kind, Value};
use crate::config::{Actuator, Config};

impl Actuator {
    /// The word for this actuator in the configuration.
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
        doc: "How decisions are carried out. rt makes the vCPU thread SCHED_RR. ext puts all ordinary tasks of the host under paracord's own scheduler, which does not keep all promises of the kernel's scheduler (ext.md). observe changes nothing. auto is ext while ext keeps all promises that this host uses, otherwise rt.",
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
        "Interval of the ticks that check boosted vCPUs which have no VM exits or context switches. There are no ticks while nothing is boosted."
    ),
    plain!(
        "vcpus_per_user",
        Kind::Int(1, 4096),
        Int,
        same,
        vcpus_per_user,
        "How many of the 4096 vCPU records a user other than root may have. Of the 1024 VM records, such a user may have a quarter of this number, but at least 256. Other vCPUs and VMs are left to stock scheduling. A higher number applies to vCPUs that start after the reload."
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
        doc: "Directory of the regions that guests share with the host; must lie on tmpfs.",
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
        doc: "Group whose members may use the socket, and that of [metrics], besides root; if it does not exist or is \"\": root only.",
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
        "Take over the clamps that programs give to the kernel (sched_setattr), until the daemon ends; actuator ext only."
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
        "Count for guests whose region was created with `--counters`, with perf events on their vCPUs. A change applies to VMs that start later."
    ),
    Key {
        name: "events",
        kind: Kind::Events,
        doc: "Which events guests may count: all that this host has, or a list separated by commas.",
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
        doc: "CPU time of the host per second that the counters of one VM may cost, on all CPUs together. Counters stop when it is used up.",
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
        "Give up after this many restarts if the daemon never ran for a minute between them."
    ),
];

/// The sections, in the order in which they are shown.
pub const SECTIONS: &[(&str, &[Key<Config>])] = &[
    ("control", CONTROL),
    ("counters", COUNTERS),
    ("metrics", METRICS),
    ("perf", PERF),
    ("supervisor", SUPERVISOR),
];
