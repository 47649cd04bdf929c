// SPDX-License-Identifier: GPL-2.0-only
//! The kernel: version, BTF, KVM and its tracepoints, sched_ext.

use super::check::{Check, Status};
use super::files::{Presence, Tree};

/// Oldest kernel with the BPF features that the sensor uses (fentry on modules, ring buffer,
/// timers).
const KERNEL_MIN: (u32, u32) = (5, 15);

/// KVM's tracepoints that the check looks for. The sensor attaches to `kvm_exit`.
/// The tracepoints of KVM that the sensor uses. Without the tracepoints other than kvm_exit, guests
/// without a device cannot announce their memory.
const TRACEPOINTS: &[&str] = if cfg!(target_arch = "aarch64") {
    &["kvm_exit", "kvm_hvc_arm64"]
} else {
    &["kvm_exit", "kvm_msr", "kvm_hypercall"]
};

fn parse_version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

pub fn version(t: &Tree) -> Check {
    let name = "kernel";
    let release = t.text("/proc/sys/kernel/osrelease").unwrap_or_default();
    match parse_version(&release) {
        Some(v) if v >= KERNEL_MIN => Check::ok(name, release),
        Some(_) => Check::new(
            name,
            Status::Fail,
            release,
            format!("install Linux {}.{} or newer", KERNEL_MIN.0, KERNEL_MIN.1),
        ),
        None => Check::new(name, Status::Unknown, "version not readable", "mount /proc"),
    }
}

pub fn btf(t: &Tree) -> Check {
    if t.exists("/sys/kernel/btf/vmlinux") {
        return Check::ok("btf", "/sys/kernel/btf/vmlinux");
    }
    Check::new(
        "btf",
        Status::Fail,
        "the kernel has no BTF",
        "use a kernel with CONFIG_DEBUG_INFO_BTF=y (those of Debian, Fedora and Ubuntu have it)",
    )
}

pub fn kvm(t: &Tree) -> Check {
    if t.exists("/sys/module/kvm") {
        let vendor =
            ["kvm_intel", "kvm_amd"].into_iter().find(|m| t.exists(format!("/sys/module/{m}")));
        return Check::ok("kvm", vendor.unwrap_or("kvm"));
    }
    Check::new(
        "kvm",
        Status::Fail,
        "KVM is not loaded",
        "modprobe kvm_intel or kvm_amd; if that fails, switch virtualisation on in the firmware",
    )
}

pub fn kvm_device(t: &Tree) -> Check {
    if t.exists("/dev/kvm") {
        return Check::ok("dev_kvm", "/dev/kvm");
    }
    Check::new(
        "dev_kvm",
        Status::Warn,
        "no /dev/kvm",
        "load the KVM module of this CPU; without it no VM runs here",
    )
}

pub fn kvm_tracepoints(t: &Tree) -> Check {
    let name = "kvm_tracepoints";
    let events = "/sys/kernel/tracing/events";
    if t.presence(events) == Presence::Hidden
        || t.presence("/sys/kernel/tracing") == Presence::Hidden
    {
        return Check::new(name, Status::Unknown, "tracefs is not readable", "run doctor as root");
    }
    if !t.exists(events) {
        return Check::new(
            name,
            Status::Unknown,
            "tracefs is not mounted",
            "mount -t tracefs tracefs /sys/kernel/tracing, then run doctor again",
        );
    }
    let absent: Vec<&str> =
        TRACEPOINTS.iter().copied().filter(|tp| !t.exists(format!("{events}/kvm/{tp}"))).collect();
    if absent.is_empty() {
        return Check::ok(name, TRACEPOINTS.join(" "));
    }
    Check::new(
        name,
        Status::Fail,
        format!("absent: {}", absent.join(" ")),
        "load the KVM module; if it is loaded, use a kernel with CONFIG_TRACEPOINTS=y",
    )
}

pub fn kick_probe(t: &Tree) -> Check {
    let name = "kick_probe";
    let Some(symbols) = t.text("/proc/kallsyms") else {
        return Check::new(
            name,
            Status::Unknown,
            "/proc/kallsyms is not readable",
            "run doctor as root",
        );
    };
    match paracord_sensor::kick_function(&symbols) {
        Some(f) => Check::ok(name, f),
        None => Check::new(
            name,
            Status::Warn,
            "no function tells of interrupts for a preempted vCPU",
            "load the KVM module; without it, boosts for interrupts come only when a vCPU wakes",
        ),
    }
}

pub fn lockdown(t: &Tree) -> Check {
    let name = "lockdown";
    match t.text("/sys/kernel/security/lockdown") {
        Some(modes) if modes.contains("[confidentiality]") => Check::new(
            name,
            Status::Fail,
            "kernel lockdown is confidentiality: BPF programs may not read memory",
            "boot with lockdown=integrity, or with Secure Boot off",
        ),
        Some(modes) if modes.contains("[integrity]") => Check::new(
            name,
            Status::Warn,
            "kernel lockdown is integrity: BPF programs may not write into guests' memory",
            "none needed: only guests without a device do not kick; for kicks, give them a device, or boot with Secure Boot off",
        ),
        _ => Check::ok(name, "BPF programs may read and write memory of processes"),
    }
}

pub fn watchdog(t: &Tree) -> Check {
    let name = "watchdog";
    match t.number("/proc/sys/kernel/watchdog") {
        Some(0) => Check::new(
            name,
            Status::Warn,
            "the kernel's lockup detector is off",
            "sysctl kernel.watchdog=1, so that a CPU that hangs is reported",
        ),
        Some(_) => Check::ok(name, "the kernel's lockup detector is on"),
        None => Check::ok(name, "this kernel has no lockup detector"),
    }
}

const SCHED_EXT: &str = "/sys/kernel/sched_ext/state";

pub fn has_sched_ext(t: &Tree) -> bool {
    t.exists(SCHED_EXT)
}

pub fn is_preempt_rt(t: &Tree) -> bool {
    t.text("/proc/sys/kernel/version")
        .is_some_and(|version| paracord_sensor::scheduler::is_preempt_rt(&version))
}

/// Returns the CPUs that the kernel's command line excludes from load balancing (`isolcpus=` with
/// the flag `domain`). scx_enable() checks the same set.
fn isolated(t: &Tree) -> Option<String> {
    let said = t.text("/proc/cmdline")?;
    let list =
        said.split_whitespace().filter_map(|word| word.strip_prefix("isolcpus=")).next_back()?;
    // Without the flag `domain`, other flags (nohz, managed_irq) do not exclude the CPUs from load
    // balancing.
    let kinds: Vec<&str> =
        list.split(',').filter(|word| word.starts_with(|c: char| c.is_alphabetic())).collect();
    let cpus: Vec<&str> =
        list.split(',').filter(|word| word.starts_with(|c: char| c.is_ascii_digit())).collect();
    (kinds.is_empty() || kinds.contains(&"domain")).then(|| cpus.join(","))
}

pub fn sched_ext(t: &Tree) -> Check {
    let name = "sched_ext";
    match t.text(SCHED_EXT) {
        Some(_) if is_preempt_rt(t) => Check::new(
            name,
            Status::Warn,
            "a PREEMPT_RT kernel refuses BPF timers, which paracord's scheduler needs",
            "nothing to do for actuator = \"rt\"; ext needs a kernel without PREEMPT_RT",
        ),
        Some(state) if state == "disabled" => match isolated(t) {
            None => Check::ok(name, "available (for actuator ext)"),
            Some(cpus) => Check::new(
                name,
                Status::Warn,
                format!("the kernel refuses every such scheduler beside isolcpus= (CPUs {cpus})"),
                "nothing to do for actuator = \"rt\"; for ext isolate these CPUs by a cpuset partition \
                 (cpuset.cpus.partition) in place of isolcpus=",
            ),
        },
        Some(_) => {
            let ops = t.text("/sys/kernel/sched_ext/root/ops").unwrap_or_else(|| "unknown".into());
            // The name of a sched_ext scheduler may end with a version and a build, so accept any
            // suffix.
            if ops.starts_with("paracord") {
                return Check::ok(name, "paracord's scheduler is loaded");
            }
            Check::new(
                name,
                Status::Warn,
                format!("the scheduler {ops} is loaded"),
                "boosts are real-time ones beside it (actuator rt); stop it to use actuator = \"ext\"",
            )
        }
        None => Check::new(
            name,
            Status::Warn,
            "not in this kernel",
            "nothing to do for actuator = \"rt\"; kernels from 6.12 with CONFIG_SCHED_CLASS_EXT=y have it",
        ),
    }
}
