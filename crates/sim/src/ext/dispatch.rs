// SPDX-License-Identifier: GPL-2.0-only
//! Who runs next: `pick_task_scx()`, `balance_one()`.

use super::{flags, local};
use crate::{
    bpf::{self, At, TaskId},
    kernel::{Class, Kernel},
};

/// `do_pick_task_scx()`.
pub fn pick_task(k: &mut Kernel, cpu: usize, prev: TaskId) -> Option<TaskId> {
    k.rqs[cpu].ext.in_balance = true;
    let keeps = balance(k, cpu, prev);
    k.rqs[cpu].ext.in_balance = false;
    let task = if keeps { Some(prev) } else { k.rqs[cpu].ext.local.front().copied() }?;
    let slice = &k.native.task(task).scx.slice_ns;
    if slice.get() == 0 {
        slice.set(flags::SLICE_DFL_NS);
    }
    Some(task)
}

/// `balance_one()`; true: the task that runs goes on.
fn balance(k: &mut Kernel, cpu: usize, prev: TaskId) -> bool {
    k.rqs[cpu].ext.cpu_released = false;
    let ours = k.tasks[prev].class() == Class::Normal;
    let can_go_on = |k: &Kernel| ours && k.tasks[prev].ext.queued;
    let has_slice = |k: &Kernel| k.native.task(prev).scx.slice_ns.get() > 0;
    if can_go_on(k) && has_slice(k) {
        return true;
    }
    if !k.rqs[cpu].ext.local.is_empty() || local::consume(k, cpu, flags::DSQ_GLOBAL) {
        return false;
    }
    if !k.rqs[cpu].active {
        return can_go_on(k);
    }
    let at = At { cpu, now_ns: k.now, current: k.rqs[cpu].curr };
    // The kernel asks again as long as a dispatch buffer had something: there is none.
    bpf::dispatch(k, at, cpu, ours.then_some(prev));
    if can_go_on(k) && has_slice(k) {
        return true;
    }
    if !k.rqs[cpu].ext.local.is_empty() || local::consume(k, cpu, flags::DSQ_GLOBAL) {
        return false;
    }
    can_go_on(k) && k.ext.flags & flags::OPS_ENQ_LAST == 0
}
