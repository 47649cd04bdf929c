// SPDX-License-Identifier: GPL-2.0-only
//! Keys of declared regions.

use super::{Key, same, text};
use crate::config::region::RegionKeys;
use crate::config::value::{Kind, Value};

/// `[region."NAME"]`.
pub const REGION: &[Key<RegionKeys>] = &[
    plain!(
        "vcpus",
        Kind::Int(1, paracord_abi::layout::PARACORD_SLOTS_MAX),
        Int,
        same,
        vcpus,
        "Number of vCPUs of the VM, including hot-pluggable vCPUs."
    ),
    Key {
        name: "owner",
        kind: Kind::Owner,
        doc: "User as which the VM runs, who may open the region: name, UID or UID:GID; \"\": the daemon's user.",
        get: |r| Value::Text(r.owner.clone()),
        set: |r, v| r.owner = text(v),
    },
    plain!(
        "kick",
        Kind::Bool,
        Bool,
        same,
        kick,
        "Whether the guest may kick the host when it no longer needs a boost."
    ),
    plain!(
        "preempt_count",
        Kind::Bool,
        Bool,
        same,
        preempt_count,
        "Whether the host follows the guest's preempt_count."
    ),
    plain!(
        "frequencies",
        Kind::Bool,
        Bool,
        same,
        frequencies,
        "Whether the guest is told the host's CPUs and frequencies, and may ask for performance."
    ),
    plain!(
        "counters",
        Kind::Bool,
        Bool,
        same,
        counters,
        "Whether the guest may count this host's perf events on its vCPUs. `counters.events` lists the events."
    ),
    plain!(
        "kick_us",
        Kind::Int(0, 1_000_000),
        Int,
        same,
        kick_us,
        "Age in microseconds from which a boost that the guest no longer needs is worth a kick; 0: the default of the guest's driver."
    ),
];
