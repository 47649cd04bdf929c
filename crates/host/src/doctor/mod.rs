// SPDX-License-Identifier: GPL-2.0-only
//! What this host can do for paracord, what it lacks, and what to change.
//!
//! Every check reads files below a root path, so that tests can use fixture trees.

mod check;
mod cpu;
mod files;
mod kernel;
mod process;
mod promises;
mod quota;

use std::path::Path;

use files::Tree;

pub use check::{Check, Status};
pub use promises::Promises;

/// Runs all checks of the host whose file system is at `root`, the most important check first.
pub fn examine(root: &Path, region_dir: &Path) -> Vec<Check> {
    let t = Tree::new(root);
    vec![
        process::capabilities(&t),
        kernel::version(&t),
        kernel::btf(&t),
        kernel::kvm(&t),
        kernel::kvm_device(&t),
        kernel::kvm_tracepoints(&t),
        kernel::kick_probe(&t),
        kernel::lockdown(&t),
        process::rt_throttling(&t),
        process::rt_group(&t),
        quota::cpu_quotas(&t),
        process::locked_memory(&t),
        process::region_dir(&t, region_dir),
        kernel::watchdog(&t),
        kernel::sched_ext(&t),
        promises::ext_keeps(&t),
        cpu::clusters(&t),
        cpu::uclamp(&t),
        cpu::cpufreq(&t),
        cpu::pmu(&t),
        cpu::perf_event_paranoid(&t),
    ]
}

/// Whether the host has everything that paracord needs. Information that could not be read does not
/// count as missing.
pub fn usable(checks: &[Check]) -> bool {
    checks.iter().all(|c| c.status != Status::Fail)
}

#[cfg(test)]
mod tests;
