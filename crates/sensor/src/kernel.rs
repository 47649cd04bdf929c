// SPDX-License-Identifier: GPL-2.0-only
//! What the running kernel has and does, as far as the sensor depends on it.

use std::{fs, path::Path};

/// KVM's BTF is the module's, or the kernel's where KVM is built in.
pub(crate) fn has_kvm_btf() -> bool {
    Path::new("/sys/kernel/btf/kvm").exists() || {
        libbpf_rs::Btf::from_vmlinux()
            .ok()
            .and_then(|btf| {
                btf.type_by_name::<libbpf_rs::btf::types::Struct<'_>>("kvm_vcpu").map(|_| ())
            })
            .is_some()
    }
}

/// Major and minor number of the kernel that runs; (0, 0): they cannot be read.
pub(crate) fn release() -> (u32, u32) {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor),
        _ => (0, 0),
    }
}

/// Since then the kernel takes `ops.core_sched_before()` of a scheduler as it is documented.
const CORE_ORDER_SINCE: (u32, u32) = (7, 3);

/// Whether the kernel asks a scheduler for the order of tasks on a core as it is documented.
pub(crate) fn keeps_core_order() -> bool {
    release() >= CORE_ORDER_SINCE
}

/// Whether the scheduler hears of tasks that wait on another thread of a core, if the kernel keeps any waiting there.
pub(crate) fn keeps_turns_on_cores() -> bool {
    let symbols = || fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    keeps_core_order() || !symbols().contains(" sched_core_share_pid")
}
