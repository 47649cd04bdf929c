// SPDX-License-Identifier: GPL-2.0-only
//! A vCPU: what the simulator keeps of it and its guest, and the line by which the guest speaks to its host.

use std::cell::Cell;

use crate::{mix::Guest, time::Ns};

/// Bytes of a guest's line that it declares (abi/paracord_abi.h).
pub(super) const LINE_BYTES: u32 = 64;
/// Offsets in the line: `context.task_class`, `context.critical`.
const TASK_CLASS_AT: usize = 0;
const CRITICAL_AT: usize = 5;
/// `PARACORD_TASK_NORMAL`, `PARACORD_TASK_RT`.
const CLASS_NORMAL: u8 = 2;
const CLASS_RT: u8 = 3;

/// A vCPU and its guest.
pub struct Vcpu {
    /// Process of its VM.
    pub tgid: i32,
    /// Index of its VM's record.
    pub vm: u32,
    /// Its number in the VM.
    pub number: u32,
    pub(super) guest: Guest,
    pub(super) exits_per_s: u32,
    pub(super) line: &'static [Cell<u8>],
    pub(super) line_at: u64,
    /// Running time until the next exit.
    pub(super) exit_in: Ns,
    /// When a periodic guest's next period begins.
    pub(super) period_at: Ns,
    /// It has something to run.
    pub(super) busy: bool,
    /// Time that it has run boosted, by the simulator's account.
    pub boosted_ns: Ns,
    /// Wakeup to the first running afterwards: sum, number, longest.
    pub latency: (Ns, u64, Ns),
    /// When its timer fired; `None`: it runs since.
    pub(super) fired_at: Option<Ns>,
}

impl Vcpu {
    /// What the guest says to its host: whether a real-time task runs, whether preemption is off.
    pub(super) fn say(&self, real_time: bool, critical: bool) {
        self.line[TASK_CLASS_AT].set(if real_time { CLASS_RT } else { CLASS_NORMAL });
        self.line[CRITICAL_AT].set(u8::from(critical));
    }
}
