// SPDX-License-Identifier: GPL-2.0-only
//! CPU quotas (and `cpu.idle`) of VMs that run, with which actuator rt does not boost them.

use paracord_sys::proc::{self, CgroupMounts, QuotaReader};

use super::files::Tree;
use super::{Check, Status};
use crate::identity::{identify, vcpu_id_of_thread};
use crate::quotas::unknown;

/// VMs that one line names.
const NAMED_MAX: usize = 5;

/// A VM with the first quota of its vCPU threads: libvirt gives those that emulate devices groups and quotas of their own
/// (`<emulator_quota>`, `<iothread_quota>`). Where no thread has a vCPU's name, any may be one.
fn quota_of(t: &Tree, reader: &mut QuotaReader, pid: u32) -> Option<String> {
    let proc_root = t.at("/proc");
    let tasks = t.names(&format!("/proc/{pid}/task"));
    let all: Vec<u32> = tasks.iter().filter_map(|name| name.parse().ok()).collect();
    let is_vcpu = |tid: &u32| vcpu_id_of_thread(&proc_root, *tid).is_some();
    let vcpus: Vec<u32> = all.iter().copied().filter(is_vcpu).collect();
    let tids = if vcpus.is_empty() { all } else { vcpus };
    let quota = tids.into_iter().find_map(|tid| match reader.quota_of(tid) {
        Ok(quota) => quota.map(|quota| quota.to_string()),
        Err(error) if error.is_gone() => None,
        Err(error) => Some(unknown(&error)),
    })?;
    let name = identify(&proc_root, pid).map_or_else(|_| pid.to_string(), |vm| vm.name);
    Some(format!("{name}: {quota}"))
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
    let (mut hidden, mut found) = (false, Vec::new());
    for pid in t.names("/proc").iter().filter_map(|name| name.parse::<u32>().ok()) {
        match proc::has_kvm_vm(&proc_root, pid) {
            Ok(true) => found.extend(quota_of(t, &mut reader, pid)),
            Ok(false) => {}
            Err(error) => hidden |= !error.is_gone(),
        }
    }
    if !found.is_empty() {
        let more = found.len().saturating_sub(NAMED_MAX);
        found.truncate(NAMED_MAX);
        found.extend((more > 0).then(|| format!("{more} more")));
        return Check::new(
            name,
            Status::Warn,
            format!(
                "not boosted by actuator rt, for what limits their control groups: {}",
                found.join("; ")
            ),
            "boosted time is charged to no control group; to have a VM boosted take cpu.max (libvirt: <quota>) and cpu.idle away, and limit its boosts by vcpu_budget_pct and vm_budget_pct; weights (cpu.weight, <shares>) bind unboosted time only",
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
