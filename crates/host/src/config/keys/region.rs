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
        doc: "User that the VM runs as: name, UID or UID:GID. This user may open the region. \"\": the daemon's user.",
        get: |r| Value::Text(r.owner.clone()),
        set: |r, v| r.owner = text(v),
    },
    plain!(
        "kick",
        Kind::Bool,
        Bool,
        same,
        kick,
        "Whether a guest that no longer needs a boost may kick the host."
    ),
    plain!(
        "preempt_count",
        Kind::Bool,
        Bool,
        same,
        preempt_count,
        "Whether the host reads the guest's preempt_count, which shows when preemption is off in the guest."
    ),
    plain!(
        "frequencies",
        Kind::Bool,
        Bool,
        same,
        frequencies,
        "Whether the guest is informed about the host's CPUs and their frequencies, and may request performance."
    ),
    plain!(
        "counters",
        Kind::Bool,
        Bool,
        same,
        counters,
        "Whether the guest may count perf events of this host on the guest's vCPUs. `counters.events` lists the events."
    ),
    plain!(
        "kick_us",
        Kind::Int(0, 1_000_000),
        Int,
        same,
        kick_us,
        "A guest that no longer needs a boost kicks the host only if the boost is older than this time in microseconds. 0: the default of the guest's driver."
    ),
];
