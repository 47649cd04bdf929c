// SPDX-License-Identifier: GPL-2.0-only
//! Tasks that must run at once or be enqueued again (`SCX_ENQ_IMMED`).

use super::flags;
use crate::kernel::{Class, Kernel, ext_state::Reenqueue};

/// `rq_is_open()`: whether a task that is inserted now runs next. The running task, if any, must
/// belong to a lower class, or the CPU must be looking for a task.
pub fn is_open(k: &Kernel, cpu: usize, enq_flags: u64) -> bool {
    match k.rqs[cpu].next_class {
        Class::Idle => true,
        Class::Normal => k.rqs[cpu].ext.in_balance || enq_flags & flags::ENQ_PREEMPT != 0,
        Class::Rt => false,
    }
}

/// Later, enqueues the tasks again that must run at once and cannot.
pub fn reenqueue(k: &mut Kernel, cpu: usize) {
    let tasks = &k.rqs[cpu].ext.local;
    if tasks.iter().any(|task| k.tasks[*task].ext.immediate) {
        let reenqueue = &mut k.rqs[cpu].ext.reenqueue;
        *reenqueue = (*reenqueue).max(Some(Reenqueue::Immediate));
        k.interrupt(cpu);
    }
}
