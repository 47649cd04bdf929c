// SPDX-License-Identifier: GPL-2.0-only
//! Errors of the sensor.

use std::io;

/// Why the sensor could not be loaded or used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No `kvm_exit` tracepoint: KVM is not loaded.
    #[error(
        "the kernel has no kvm_exit tracepoint ({0}): load KVM (modprobe kvm_intel or kvm_amd)"
    )]
    NoKvm(libbpf_rs::Error),
    /// The kernel provides no BTF about itself.
    #[error(
        "/sys/kernel/btf/vmlinux is missing: the sensor needs a kernel with CONFIG_DEBUG_INFO_BTF"
    )]
    NoBtf,
    /// The object could not be opened, verified or attached.
    #[error("BPF sensor: {step}: {source:#}")]
    Bpf {
        /// The step that failed.
        step: &'static str,
        /// libbpf's reason.
        source: libbpf_rs::Error,
    },
    /// The kernel has no sched_ext.
    #[error(
        "the kernel has no sched_ext (CONFIG_SCHED_CLASS_EXT, from 6.12): use actuator = \"rt\""
    )]
    NoSchedExt,
    /// The kernel refuses a part that the scheduler needs (`check_map_prog_compatibility()`).
    #[error(
        "a PREEMPT_RT kernel refuses BPF timers, which paracord's scheduler needs: use actuator = \"rt\""
    )]
    Realtime,
    /// A scheduler of another program is loaded.
    #[error("the scheduler {0} is loaded: stop it, or use actuator = \"rt\"")]
    OtherScheduler(String),
    /// The kernel refused the scheduler.
    #[error("the kernel refuses paracord's scheduler: {0:#}")]
    Scheduler(libbpf_rs::Error),
    /// A shared array could not be mapped.
    #[error("BPF sensor: mapping {map}: {source}")]
    Map {
        /// Name of the BPF map.
        map: &'static str,
        /// The system's reason.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn bpf(step: &'static str) -> impl FnOnce(libbpf_rs::Error) -> Self {
        move |source| Self::Bpf { step, source }
    }
}
