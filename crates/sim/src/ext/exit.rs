// SPDX-License-Identifier: GPL-2.0-only
//! The end of the scheduler after an error (kernel/sched/ext.c).

use crate::{bpf, kernel::Kernel};

/// `scx_error()`, `scx_exit()`: the kernel unloads the scheduler. The run ends.
pub fn eject(k: &mut Kernel, kind: u32, why: &str) {
    if k.ext.ended.is_some() {
        return;
    }
    k.ext.ended = Some(why.to_owned());
    let at = k.at();
    bpf::exit(k, at, kind, "error", why);
    k.fault(format!("the kernel unloads the scheduler: {why}"));
    k.stopped = true;
}
