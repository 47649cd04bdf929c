// SPDX-License-Identifier: GPL-2.0-only
//! Numbers of sched_ext's interface (kernel/sched/ext.c, kernel/sched/sched.h), as in bpf/scx.h.

use crate::{mix::KernelVersion, time::Ns};

/// `SCX_DSQ_GLOBAL`.
pub const DSQ_GLOBAL: u64 = 0x8000_0000_0000_0001;
/// `SCX_DSQ_LOCAL`.
pub const DSQ_LOCAL: u64 = 0x8000_0000_0000_0002;
/// `SCX_DSQ_LOCAL_ON`, to which a CPU's number is added.
pub const DSQ_LOCAL_ON: u64 = 0xc000_0000_0000_0000;

/// `SCX_ENQ_WAKEUP`.
pub const ENQ_WAKEUP: u64 = 1;
/// `SCX_ENQ_HEAD`.
pub const ENQ_HEAD: u64 = 0x10;
/// `SCX_ENQ_CPU_SELECTED`, with the value that bpf/scx.h assumes.
pub const ENQ_CPU_SELECTED: u64 = 1 << 20;
/// `SCX_ENQ_IMMED`, with the value that bpf/scx.h assumes.
pub const ENQ_IMMED: u64 = 1 << 21;
/// `SCX_ENQ_PREEMPT`.
pub const ENQ_PREEMPT: u64 = 1 << 32;
/// `SCX_ENQ_REENQ`.
pub const ENQ_REENQ: u64 = 1 << 40;
/// `SCX_ENQ_LAST`.
pub const ENQ_LAST: u64 = 1 << 41;

/// `SCX_DEQ_SLEEP`.
pub const DEQ_SLEEP: u64 = 1;

/// `SCX_WAKE_FORK`.
pub const WAKE_FORK: u64 = 4;
/// `SCX_WAKE_TTWU`.
pub const WAKE_TTWU: u64 = 8;
/// `SCX_WAKE_SYNC`.
pub const WAKE_SYNC: u64 = 0x10;

/// `SCX_PICK_IDLE_CORE`.
pub const PICK_IDLE_CORE: u64 = 1;
/// `SCX_KICK_IDLE`.
pub const KICK_IDLE: u64 = 1;
/// `SCX_KICK_PREEMPT`.
pub const KICK_PREEMPT: u64 = 2;
/// `SCX_OPS_ENQ_LAST`.
pub const OPS_ENQ_LAST: u64 = 1 << 1;
/// `SCX_TASK_QUEUED`.
pub const TASK_QUEUED: u32 = 1;
/// `SCX_TASK_REENQ_REASON_MASK`, with the value that bpf/scx.h assumes.
pub const TASK_REENQ_REASON: u32 = 7 << 12;
/// `SCX_TASK_REENQ_KFUNC`.
pub const TASK_REENQ_KFUNC: u32 = 1 << 12;
/// `SCX_TASK_REENQ_IMMED`, with the value that bpf/scx.h assumes.
pub const TASK_REENQ_IMMED: u32 = 2 << 12;
/// `SCX_TASK_REENQ_PREEMPTED`.
pub const TASK_REENQ_PREEMPTED: u32 = 3 << 12;
/// `SCX_REENQ_MAX_REPEAT`.
pub const REENQ_MAX_REPEAT: u32 = 256;
/// `SCX_TASK_STATE_MASK`, since 7.1.
pub const TASK_STATE: u32 = 7 << 8;

/// `SCX_TASK_ENABLED`, at its position in a task's flags in this kernel version.
pub fn task_enabled(kernel: KernelVersion) -> u32 {
    match kernel {
        KernelVersion::V6_12 => 3 << 8,
        KernelVersion::V7_3 => 4 << 8,
    }
}

/// `SCX_SLICE_DFL`.
pub const SLICE_DFL_NS: Ns = 20_000_000;
/// `SCX_SLICE_INF`.
pub const SLICE_INF: Ns = u64::MAX;

/// `SCX_EXIT_ERROR`.
pub const EXIT_ERROR: u32 = 1024;
/// `SCX_EXIT_ERROR_STALL`.
pub const EXIT_ERROR_STALL: u32 = 1026;

/// `EBUSY` as an error.
pub const EBUSY: i32 = -16;
/// `EEXIST` as an error: a queue with this number exists.
pub const EEXIST: i32 = -17;
