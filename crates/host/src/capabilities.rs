// SPDX-License-Identifier: GPL-2.0-only
//! What the kernel of this host gives to the sensor, for users.

use paracord_sensor::Sensor;

use crate::snapshot::Capability;

/// The capabilities that the kernel of this host gives to the sensor.
pub fn capabilities(sensor: &Sensor) -> Vec<Capability> {
    let found = sensor.capabilities();
    let one = |name: &str, available, detail: &str| Capability {
        name: name.into(),
        available,
        detail: detail.into(),
    };
    let kicks = match found.kick {
        Some(kick) if found.wake_ups => format!("{kick}, kvm_vcpu_wake_up (posted interrupts)"),
        Some(kick) => kick.to_owned(),
        None => "no kick function: interrupts for a preempted vCPU are not seen".to_owned(),
    };
    let mut known = vec![
        one("kvm_exit", found.kvm_exit, "VM exits are seen; without them no VM is found"),
        one("kick_probe", found.kick.is_some(), &kicks),
        one(
            "places",
            found.whereabouts,
            "guests can be told where their vCPUs run; without it capacities and frequencies stay unknown to them",
        ),
        one(
            "kvm_btf",
            found.kvm_btf,
            "KVM's types are known; without them preempt counts are not read",
        ),
        one(
            "announcements",
            found.announcements,
            "guests can announce regions in their own memory; without it their hints need a device",
        ),
        one(
            "host_lines",
            found.host_lines,
            "guests without a device are told of their boosts; without it they do not kick",
        ),
    ];
    if sensor.has_scheduler() {
        known.push(one(
            "ext_kick",
            found.boosts_kick,
            "boosts can kick CPUs; without it a boost's end waits for the CPU's next tick",
        ));
    }
    known
}
