// SPDX-License-Identifier: GPL-2.0-only
//! Checks what this process may do and use: capabilities, real-time scheduling, locked memory, the
//! region directory.

use std::path::Path;

use super::check::{Check, Status};
use super::files::Tree;

/// Capabilities that the daemon uses, with their bit numbers (linux/capability.h).
const CAPABILITIES: [(u32, &str, &str); 4] = [
    (19, "CAP_SYS_PTRACE", "reading VMs' memory maps"),
    (23, "CAP_SYS_NICE", "changing vCPU threads' scheduling"),
    (38, "CAP_PERFMON", "attaching to tracepoints"),
    (39, "CAP_BPF", "loading BPF programs"),
];

fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines().find_map(|l| l.strip_prefix(name)).map(str::trim)
}

pub fn capabilities(t: &Tree) -> Check {
    let name = "capabilities";
    let status = t.text("/proc/self/status").unwrap_or_default();
    let Some(effective) = field(&status, "CapEff:").and_then(|c| u64::from_str_radix(c, 16).ok())
    else {
        return Check::new(
            name,
            Status::Unknown,
            "/proc/self/status is not readable",
            "mount /proc",
        );
    };
    let absent: Vec<String> = CAPABILITIES
        .iter()
        .filter(|(bit, ..)| effective & (1 << bit) == 0)
        .map(|(_, cap, use_)| format!("{cap} ({use_})"))
        .collect();
    if absent.is_empty() {
        return Check::ok(name, "root, or all that are needed");
    }
    Check::new(
        name,
        Status::Fail,
        format!("missing {}", absent.join(", ")),
        "run as root; in a container, run paracord on the host itself",
    )
}

pub fn rt_throttling(t: &Tree) -> Check {
    let name = "rt_throttling";
    let runtime = t.number("/proc/sys/kernel/sched_rt_runtime_us");
    let period = t.number("/proc/sys/kernel/sched_rt_period_us");
    match (runtime, period) {
        (Some(-1), _) => Check::ok(name, "off; paracord's budgets keep the host's share"),
        (Some(0), _) => Check::new(
            name,
            Status::Fail,
            "sched_rt_runtime_us is 0: no real-time task may run",
            "sysctl kernel.sched_rt_runtime_us=950000",
        ),
        (Some(r), Some(p)) if r * 2 < p => Check::new(
            name,
            Status::Warn,
            format!("real-time tasks are stopped after {r} µs of {p} µs"),
            "sysctl kernel.sched_rt_runtime_us=950000, or lower boost.vcpu_budget_pct below that share",
        ),
        (Some(r), Some(p)) => Check::ok(name, format!("{r} of {p} µs")),
        _ => Check::new(name, Status::Unknown, "limits are not readable", "mount /proc"),
    }
}

/// Checks for CONFIG_RT_GROUP_SCHED. With this option, a thread in a group without a real-time
/// budget may not become SCHED_RR.
pub fn rt_group(t: &Tree) -> Check {
    let name = "rt_group";
    let release = t.text("/proc/sys/kernel/osrelease").unwrap_or_default();
    let config = t.text(format!("/boot/config-{release}")).unwrap_or_default();
    let command_line = t.text("/proc/cmdline").unwrap_or_default();
    let configured = config.lines().any(|l| l == "CONFIG_RT_GROUP_SCHED=y");
    let off_by_default = config.lines().any(|l| l == "CONFIG_RT_GROUP_SCHED_DEFAULT_DISABLED=y");
    let says = |word: &str| command_line.split_whitespace().any(|w| w == word);
    let on =
        configured && !says("rt_group_sched=0") && (!off_by_default || says("rt_group_sched=1"))
            || t.exists("/sys/fs/cgroup/cpu/cpu.rt_runtime_us");
    if !on {
        return Check::ok(name, "cgroups do not limit real-time scheduling");
    }
    let controllers = t.text("/sys/fs/cgroup/cgroup.subtree_control").unwrap_or_default();
    let limits = controllers.split_whitespace().any(|c| c == "cpu")
        || t.exists("/sys/fs/cgroup/cpu/cpu.rt_runtime_us");
    if !limits {
        return Check::ok(name, "CONFIG_RT_GROUP_SCHED, but no group with the cpu controller");
    }
    Check::new(
        name,
        Status::Fail,
        "CONFIG_RT_GROUP_SCHED with the cpu controller: threads in cgroups may not become real-time",
        "boot with rt_group_sched=0 (6.16 or newer), else use a kernel without CONFIG_RT_GROUP_SCHED",
    )
}

pub fn locked_memory(t: &Tree) -> Check {
    let name = "memlock";
    let limits = t.text("/proc/self/limits").unwrap_or_default();
    match field(&limits, "Max locked memory").and_then(|l| l.split_whitespace().next()) {
        Some("unlimited") => Check::ok(name, "unlimited"),
        Some(soft) if soft.parse::<u64>().is_ok_and(|bytes| bytes >= 64 << 20) => {
            Check::ok(name, format!("{soft} bytes"))
        }
        Some(soft) => Check::new(
            name,
            Status::Warn,
            format!("{soft} bytes"),
            "ulimit -l unlimited, or LimitMEMLOCK=infinity in the unit (root is not limited)",
        ),
        None => {
            Check::new(name, Status::Unknown, "/proc/self/limits is not readable", "mount /proc")
        }
    }
}

pub fn region_dir(t: &Tree, directory: &Path) -> Check {
    let name = "region_dir";
    let shown = directory.display();
    let mounts = t.text("/proc/self/mounts").unwrap_or_default();
    // Of the mount points that contain the directory, the longest is the mount point of the
    // directory's file system.
    let file_system = mounts
        .lines()
        .filter_map(|l| {
            let mut fields = l.split(' ').skip(1);
            Some((fields.next()?, fields.next()?))
        })
        .filter(|(point, _)| directory.starts_with(point))
        .max_by_key(|(point, _)| point.len())
        .map(|(_, kind)| kind);
    match file_system {
        Some("tmpfs") if t.exists(directory) => Check::ok(name, format!("{shown} on tmpfs")),
        Some("tmpfs") => {
            Check::ok(name, format!("{shown} on tmpfs; `paracord region create` makes it"))
        }
        Some(kind) => Check::new(
            name,
            Status::Fail,
            format!("{shown} is on {kind}"),
            "set region_dir to a directory on tmpfs, such as /dev/shm/paracord",
        ),
        None => Check::new(name, Status::Unknown, "mounts are not readable", "mount /proc"),
    }
}
