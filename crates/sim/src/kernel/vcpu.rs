// SPDX-License-Identifier: GPL-2.0-only
//! A vCPU: the state of the thread and of its guest, and the line that the guest writes for its
//! host.

use std::cell::Cell;

use crate::{mix::Guest, time::Ns};

/// Size of the guest's line that the guest declares (abi/paracord_abi.h).
pub(super) const LINE_BYTES: u32 = 64;
/// Offsets of `context.task_class` and `context.critical` in the line.
const TASK_CLASS_AT: usize = 0;
const CRITICAL_AT: usize = 5;
/// `PARACORD_TASK_NORMAL`, `PARACORD_TASK_RT`.
const CLASS_NORMAL: u8 = 2;
const CLASS_RT: u8 = 3;

/// A vCPU and its guest.
pub struct Vcpu {
    /// ID of the VM's process.
    pub tgid: i32,
    /// Index of the VM's record.
    pub vm: u32,
    /// Number of the vCPU in the VM.
    pub number: u32,
    pub(super) guest: Guest,
    pub(super) exits_per_s: u32,
    pub(super) line: &'static [Cell<u8>],
    pub(super) line_at: u64,
    /// Running time until the next exit.
    pub(super) exit_in: Ns,
    /// When a periodic guest's next period begins.
    pub(super) period_at: Ns,
    /// Whether the guest has work to do.
    pub(super) busy: bool,
    /// Time that the vCPU has run boosted, as the simulator counts it.
    pub boosted_ns: Ns,
    /// Times from a wakeup until the vCPU runs: sum, number, maximum.
    pub latency: (Ns, u64, Ns),
    /// When the guest's timer last fired. `None` if the vCPU has run since the timer fired.
    pub(super) fired_at: Option<Ns>,
}

impl Vcpu {
    /// Writes into the guest's line whether a real-time task runs, and whether preemption is
    /// disabled.
    pub(super) fn say(&self, real_time: bool, critical: bool) {
        self.line[TASK_CLASS_AT].set(if real_time { CLASS_RT } else { CLASS_NORMAL });
        self.line[CRITICAL_AT].set(u8::from(critical));
    }
}
