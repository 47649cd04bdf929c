// SPDX-License-Identifier: GPL-2.0-only
//! CPU limits of running VMs. Actuator rt boosts a VM only within the time that the VM's quotas
//! leave, and does not boost a VM with `cpu.idle` at all.

use paracord_sys::proc::{self, CgroupMounts, Limit, QuotaReader};

use super::check::{Check, Status};
use super::files::Tree;
use crate::quotas::{binding, unknown};
use crate::vms::identity::{identify, vcpu_id_of_thread};

/// Maximum number of VMs that one line names.
const NAMED_MAX: usize = 5;

/// The limit of a VM, and whether actuator rt boosts the VM nevertheless, within the time that the
/// quota leaves.
struct Limited {
    line: String,
    is_boosted: bool,
}

/// Returns the name of a VM and the first limit that applies to one of its vCPU threads. Other
/// threads are ignored, because libvirt puts the threads that emulate devices into separate groups
/// with separate quotas (`<emulator_quota>`, `<iothread_quota>`). If no thread has the name of a
/// vCPU, all threads are checked, because any of them may be a vCPU.
fn limit_of(t: &Tree, reader: &mut QuotaReader, pid: u32) -> Option<Limited> {
    let proc_root = t.at("/proc");
    let tasks = t.names(&format!("/proc/{pid}/task"));
    let all: Vec<u32> = tasks.iter().filter_map(|name| name.parse().ok()).collect();
    let is_vcpu = |tid: &u32| vcpu_id_of_thread(&proc_root, *tid).is_some();
    let vcpus: Vec<u32> = all.iter().copied().filter(is_vcpu).collect();
    let tids = if vcpus.is_empty() { all } else { vcpus };
    let limit = tids.into_iter().find_map(|tid| match reader.limits_of(tid) {
        Ok(limits) => binding(&limits).map(|binds| Limited {
            line: binds.to_string(),
            is_boosted: binds.limit != Limit::Idle,
        }),
        Err(error) if error.is_gone() => None,
        Err(error) => Some(Limited { line: unknown(&error), is_boosted: false }),
    })?;
    let name = identify(&proc_root, pid).map_or_else(|_| pid.to_string(), |vm| vm.name);
    Some(Limited { line: format!("{name}: {}", limit.line), ..limit })
}

/// Joins the first lines, and appends the number of omitted lines.
fn named(mut lines: Vec<String>) -> String {
    let more = lines.len().saturating_sub(NAMED_MAX);
    lines.truncate(NAMED_MAX);
    lines.extend((more > 0).then(|| format!("{more} more")));
    lines.join("; ")
}

pub fn cpu_quotas(t: &Tree) -> Check {
    let name = "cpu_quota";
    let proc_root = t.at("/proc");
    let mounts = match CgroupMounts::read(&proc_root, &t.at("/")) {
        Ok(mounts) => mounts,
        Err(error) => {
            return Check::new(name, Status::Unknown, error.to_string(), "mount procfs at /proc");
        }
    };
    let mut reader = QuotaReader::new(&proc_root, &mounts);
    let (mut hidden, mut boosted, mut refused) = (false, Vec::new(), Vec::new());
    for pid in t.names("/proc").iter().filter_map(|name| name.parse::<u32>().ok()) {
        match proc::has_kvm_vm(&proc_root, pid) {
            Ok(true) => {
                if let Some(limited) = limit_of(t, &mut reader, pid) {
                    let lines = if limited.is_boosted { &mut boosted } else { &mut refused };
                    lines.push(limited.line);
                }
            }
            Ok(false) => {}
            Err(error) => hidden |= !error.is_gone(),
        }
    }
    if !refused.is_empty() {
        return Check::new(
            name,
            Status::Warn,
            format!(
                "not boosted by actuator rt, for what limits their control groups: {}",
                named(refused)
            ),
            "a real-time thread gets past it; to have a VM boosted take cpu.idle away, and limit it by cpu.max (libvirt: <quota>), vcpu_budget_pct and vm_budget_pct; weights (cpu.weight, <shares>) bind unboosted time only",
        );
    }
    if !boosted.is_empty() {
        return Check::ok(
            name,
            format!("boosted out of what their quotas leave: {}", named(boosted)),
        );
    }
    if hidden {
        return Check::new(
            name,
            Status::Unknown,
            "processes of other users are not visible",
            "run doctor as root",
        );
    }
    Check::ok(name, "no VM that runs has one")
}
