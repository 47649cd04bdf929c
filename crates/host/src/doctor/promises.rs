// SPDX-License-Identifier: GPL-2.0-only
//! Finds features of the kernel's own scheduler that the host uses and that paracord's scheduler
//! does not provide (docs/contract.md). Only features whose use is visible in files are found.
//!
//! Only root can change these files. Features that any user can request (custom time slices,
//! control groups deeper than level 32) are not checked, because otherwise any user could make the
//! daemon change the host's scheduler.

use std::path::Path;

use super::check::Check;
use super::files::Tree;
use super::kernel;

const CPUS: &str = "/sys/devices/system/cpu";
/// Where the kernel shows its deadline servers. A deadline server reserves CPU time for a class of
/// tasks that real-time tasks could starve.
const SERVERS: &str = "/sys/kernel/debug/sched";

/// The checks of one host. The daemon repeats them.
pub struct Promises {
    tree: Tree,
    /// The CPUs that were online at the last check of core scheduling, and the result of that
    /// check.
    core_scheduling: Option<(String, Option<String>)>,
}

impl Promises {
    /// Creates the checks for the host whose file system is at `root` (`/`).
    pub fn of(root: &Path) -> Promises {
        Promises { tree: Tree::new(root), core_scheduling: None }
    }

    /// Returns the features that the host uses now and would lose with paracord's scheduler, each
    /// in a few words.
    pub fn unkept(&mut self) -> Vec<String> {
        let t = &self.tree;
        // /proc/kallsyms is long, so core scheduling is checked again only when the set of online
        // CPUs has changed.
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

/// Returns a line if the host may use core scheduling, which lets only tasks with the same cookie
/// share a core. No file shows whether a program has requested core scheduling, so every host that
/// has SMT and a kernel with core scheduling counts as using it.
fn core_scheduling(t: &Tree) -> Option<String> {
    let can =
        || t.text("/proc/kallsyms").is_none_or(|symbols| symbols.contains(" sched_core_share_pid"));
    (is_on(t, "/sys/devices/system/cpu/smt/active") && can()).then(|| {
        "core scheduling without hangs of the kernel (SMT, and a kernel with PR_SCHED_CORE)"
            .to_owned()
    })
}

/// Checks only whether autogroups are switched on. Autogroups apply only to tasks in the root group
/// of the cpu controller. The check ignores which tasks are in that group, because the set of these
/// tasks changes when users log in: the controller is then enabled for groups below the root.
fn autogroups(t: &Tree) -> Option<String> {
    is_on(t, "/proc/sys/kernel/sched_autogroup_enabled")
        .then(|| "autogroups (kernel.sched_autogroup_enabled)".to_owned())
}

/// Returns a line if the kernel has no deadline server for sched_ext tasks. Without this server, a
/// real-time task that never sleeps starves the ordinary tasks of its CPU, under any sched_ext
/// scheduler.
fn server(t: &Tree) -> Option<String> {
    let [fair, ext] = ["fair_server", "ext_server"].map(|s| t.exists(format!("{SERVERS}/{s}")));
    // Without debugfs, the kernel release decides: kernels before 7.0 have only the fair server.
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
