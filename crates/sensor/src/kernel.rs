// SPDX-License-Identifier: GPL-2.0-only
//! Properties of the running kernel on which the sensor depends.

use std::{fs, path::Path};

use libbpf_rs::libbpf_sys;

use crate::symbols;

/// Whether there is BTF for KVM: in the module's BTF, or in the kernel's if KVM is built in.
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

/// Whether guest-physical addresses can be translated (bpf/translate.h). The translation needs BTF
/// that describes KVM, and Linux 5.17 or later, where KVM keeps memory slots in trees.
pub(crate) fn translates() -> bool {
    has_kvm_btf() && release() >= (5, 17)
}

/// Major and minor version of the running kernel; (0, 0) if they cannot be read.
pub(crate) fn release() -> (u32, u32) {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor),
        _ => (0, 0),
    }
}

/// Whether this kernel lets this process load programs that use `bpf_probe_write_user()`. A kernel
/// in lockdown refuses them.
pub(crate) fn writes_user_memory() -> bool {
    libbpf_rs::ProgramType::RawTracepoint
        .is_helper_supported(libbpf_sys::BPF_FUNC_probe_write_user)
        .unwrap_or(false)
}

/// The first kernel version that uses a scheduler's `ops.core_sched_before()` as documented.
const CORE_ORDER_SINCE: (u32, u32) = (7, 3);

/// Whether the kernel asks a scheduler for the order of the tasks of a core, as documented for
/// `ops.core_sched_before()`.
pub(crate) fn keeps_core_order() -> bool {
    release() >= CORE_ORDER_SINCE
}

/// Whether the scheduler learns of all tasks that wait for a sibling CPU of their core. This is the
/// case if the kernel asks the scheduler for the order of tasks. It is also the case if the kernel
/// has no core scheduling, because no task then waits for a sibling CPU.
pub(crate) fn keeps_turns_on_cores() -> bool {
    keeps_core_order() || !symbols::read().contains(" sched_core_share_pid")
}
