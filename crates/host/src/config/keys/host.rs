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
        doc: "Upper bound for the modes of all VMs. on: paracord makes decisions and carries them out. observe: it makes and counts decisions, but does not carry them out. off: it makes no decisions.",
        get: |c| Value::Text(mode_word(c.mode)),
        set: |c, v| c.mode = mode_of(v),
    },
    Key {
        name: "actuator",
        kind: Kind::Choice(&["auto", "rt", "ext", "observe"]),
        doc: "How decisions are carried out. rt: a boosted vCPU thread becomes SCHED_RR. ext: paracord's own scheduler runs all ordinary tasks of the host; it lacks some features of the kernel's scheduler (ext.md). observe: decisions are counted, but not carried out. auto: ext as long as ext provides every feature of the kernel's scheduler that this host uses, otherwise rt.",
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
        "SCHED_RR priority of a boosted vCPU thread. A thread that is boosted only for an interrupt has a priority that is lower by one, but at least 1."
    ),
    plain!(
        "actuator_priority",
        Kind::Int(2, 99),
        Int,
        same,
        actuator_priority,
        "SCHED_FIFO priority of the daemon's thread that carries out decisions. It must be above rt_priority."
    ),
    plain!(
        "housekeeping_ms",
        Kind::Int(1, 100),
        Int,
        same,
        housekeeping_ms,
        "Interval of the daemon's tick, which checks all boosted threads, even if they have no VM exits or context switches. Under actuator ext, the scheduler does this for most of them. While the daemon knows of no boosted thread, there is no tick."
    ),
    plain!(
        "vcpus_per_user",
        Kind::Int(1, 4096),
        Int,
        same,
        vcpus_per_user,
        "Maximum number of vCPU records (of 4096) that a user other than root may have. For such a user, the maximum number of VM records (of 1024) is a quarter of this number, but at least 256. A vCPU or VM without a record is left to stock scheduling. If you raise this number, the higher limit applies to vCPUs that start after the reload."
    ),
    Key {
        name: "run_dir",
        kind: Kind::Path { optional: false },
        doc: "Directory of the journals, from which paracord restores the threads that it has changed.",
        get: |c| from_path(&c.run_dir),
        set: |c, v| c.run_dir = path(v),
    },
    Key {
        name: "region_dir",
        kind: Kind::Path { optional: false },
        doc: "Directory of the regions that guests share with the host. It must be on tmpfs.",
        get: |c| from_path(&c.region_dir),
        set: |c, v| c.region_dir = path(v),
    },
];

/// `[control]`.
pub const CONTROL: &[Key<Config>] = &[
    Key {
        name: "socket",
        kind: Kind::Path { optional: false },
        doc: "Unix socket on which the daemon answers `paracord status` and other commands.",
        get: |c| from_path(&c.control.socket),
        set: |c, v| c.control.socket = path(v),
    },
    Key {
        name: "group",
        kind: Kind::Group,
        doc: "Besides root, members of this group may use this socket and the socket of [metrics]. If the group does not exist or the name is \"\", only root may use the sockets.",
        get: |c| Value::Text(c.control.group.clone()),
        set: |c, v| c.control.group = text(v),
    },
];

/// `[metrics]`.
pub const METRICS: &[Key<Config>] = &[
    Key {
        name: "listen",
        kind: Kind::Loopback,
        doc: "TCP address and port on which the daemon answers GET /metrics; \"\": none.",
        get: |c| Value::Text(c.metrics.listen.map_or(String::new(), |a| a.to_string())),
        set: |c, v| c.metrics.listen = text(v).parse().ok(),
    },
    Key {
        name: "socket",
        kind: Kind::Path { optional: true },
        doc: "Unix socket on which the daemon answers GET /metrics; \"\": none.",
        get: |c| from_optional_path(c.metrics.socket.as_ref()),
        set: |c, v| c.metrics.socket = optional_path(v),
    },
    Key {
        name: "textfile",
        kind: Kind::Path { optional: true },
        doc: "File that the daemon writes for node_exporter's textfile collector; \"\": none.",
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
        "Whether paracord requests performance for each CPU from the frequency governor (schedutil). The request is the sum of what the CPU's tasks need. Only with actuator ext."
    ),
    plain!(
        "carry",
        Kind::Bool,
        Bool,
        same,
        perf.carry,
        "Whether the first burst of a task after a long sleep starts with the request of the task's last burst before the sleep. Only with actuator ext."
    ),
    plain!(
        "charge_capped",
        Kind::Bool,
        Bool,
        same,
        perf.charge_capped,
        "Whether a task pays for running faster than its maximum clamp allows: if other tasks wait, it is charged for more time than it ran. Only with actuator ext."
    ),
    plain!(
        "hold",
        Kind::Bool,
        Bool,
        same,
        perf.hold,
        "Whether a frequency falls only after a lower frequency has been enough for 17 to 34 ms. Only with actuator ext."
    ),
    plain!(
        "placement",
        Kind::Bool,
        Bool,
        same,
        perf.placement,
        "Whether tasks are placed where they cost the least energy according to the kernel's energy model. This applies only to hosts whose CPUs differ in capacity, and only with actuator ext."
    ),
    plain!(
        "import",
        Kind::Bool,
        Bool,
        same,
        perf.import,
        "Whether the clamps that programs set in the kernel (sched_setattr) become clamps of paracord until the daemon ends. Only with actuator ext."
    ),
    plain!(
        "guest_requests",
        Kind::Bool,
        Bool,
        same,
        perf.guest_requests,
        "Whether the performance requests of a guest's frequency governor count, within the VM's clamps. With actuator ext, a request replaces the demand of the vCPU's thread. With actuator rt, a request becomes uclamp.min of the thread."
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
        "Whether the daemon counts events for guests whose region was created with counters (`--counters`), and for guests without a device. It counts with perf events that are attached to the vCPUs' threads. A change applies to VMs that start later, and to guest modules that are loaded later."
    ),
    Key {
        name: "events",
        kind: Kind::Events,
        doc: "Events that guests may count: \"all\" (all events that this host has), or a list separated by commas.",
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
        doc: "CPU time of the host, in milliseconds per second, that the counters of one VM may cost on all CPUs together. When this time is used up, the VM's counters stop.",
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
        "Number of perf events that may be opened per second for the counters of one VM."
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
        "Whether the supervisor starts the daemon again after the daemon has died. Boosted threads are restored in any case."
    ),
    plain!(
        "restarts_max",
        Kind::Int(0, 1000),
        Int,
        same,
        restarts_max,
        "Number of restarts after which the supervisor gives up. If the daemon has run for a minute before it dies, the count starts again."
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
