// SPDX-License-Identifier: GPL-2.0-only
//! What a host uses of the kernel's own scheduler that paracord's does not keep (docs/contract.md), as far as files tell.
//! Only root can change those files. What users ask for by themselves is not looked for, or each could have the host's
//! scheduler changed: slices of their own, groups below level 32.

use std::path::Path;

use super::check::Check;
use super::files::Tree;
use super::kernel;

const CPUS: &str = "/sys/devices/system/cpu";
/// The kernel's servers of time beside real-time tasks.
const SERVERS: &str = "/sys/kernel/debug/sched";

/// Looks again and again.
pub struct Promises {
    tree: Tree,
    /// Of the CPUs that were online then.
    core_scheduling: Option<(String, Option<String>)>,
}

impl Promises {
    /// Of the host below `root` (`/`).
    pub fn of(root: &Path) -> Promises {
        Promises { tree: Tree::new(root), core_scheduling: None }
    }

    /// What the host uses now and would lose, each in a few words.
    pub fn unkept(&mut self) -> Vec<String> {
        let t = &self.tree;
        // A long file: what it says changes only with the CPUs that are online.
        let online = t.text(format!("{CPUS}/online")).unwrap_or_default();
        let known = self.core_scheduling.take().filter(|(cpus, _)| *cpus == online);
        let cores = known.unwrap_or_else(|| (online, core_scheduling(t)));
        let (_, cores) = self.core_scheduling.insert(cores);
        found(t, cores.clone())
    }
}

fn found(t: &Tree, cores: Option<String>) -> Vec<String> {
    [
        cores,
        is_on(t, "/proc/sys/kernel/numa_balancing")
            .then(|| "automatic NUMA balancing (kernel.numa_balancing)".to_owned()),
        autogroups(t),
        server(t),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn is_on(t: &Tree, path: &str) -> bool {
    t.number(path).is_some_and(|number| number > 0)
}

/// Threads of a core share it by cookies where the kernel can do that and somebody asks. Who has asked, no file tells.
fn core_scheduling(t: &Tree) -> Option<String> {
    let can =
        || t.text("/proc/kallsyms").is_none_or(|symbols| symbols.contains(" sched_core_share_pid"));
    (is_on(t, "/sys/devices/system/cpu/smt/active") && can()).then(|| {
        "core scheduling without hangs of the kernel (SMT, and a kernel with PR_SCHED_CORE)"
            .to_owned()
    })
}

/// They are for tasks of the root control group only, but whether that hands out the cpu controller changes as users come.
fn autogroups(t: &Tree) -> Option<String> {
    is_on(t, "/proc/sys/kernel/sched_autogroup_enabled")
        .then(|| "autogroups (kernel.sched_autogroup_enabled)".to_owned())
}

/// Without it a real-time task that never sleeps keeps its CPU's ordinary tasks waiting under any sched_ext scheduler.
fn server(t: &Tree) -> Option<String> {
    let [fair, ext] = ["fair_server", "ext_server"].map(|s| t.exists(format!("{SERVERS}/{s}")));
    // Without debugfs: kernels before 7.0 have the former only.
    let is_old = || {
        let release = t.text("/proc/sys/kernel/osrelease").unwrap_or_default();
        release.split('.').next().and_then(|major| major.parse().ok()).is_some_and(|m: u32| m < 7)
    };
    let lacks = !ext && (fair || is_old());
    lacks.then(|| {
        "time beside real-time tasks that never sleep (no ext_server in this kernel)".to_owned()
    })
}

pub(super) fn ext_keeps(t: &Tree) -> Check {
    let lost = found(t, core_scheduling(t));
    let says = if kernel::has_sched_ext(t) && kernel::is_preempt_rt(t) {
        "ext is not offered on a PREEMPT_RT kernel, nothing to lose".to_owned()
    } else if kernel::has_sched_ext(t) && !lost.is_empty() {
        format!("with actuator ext this host would lose: {}", lost.join("; "))
    } else if lost.is_empty() {
        "nothing that this host's files tell of would be lost with actuator ext".to_owned()
    } else {
        "no sched_ext, nothing to lose".to_owned()
    };
    Check::ok("ext_keeps", says)
}
