// SPDX-License-Identifier: GPL-2.0-only
//! Selects the task that runs next: `pick_task_scx()`, `balance_one()`.

use super::{flags, immediate, local};
use crate::{
    bpf::{self, TaskId},
    kernel::{Class, Kernel},
};

/// `do_pick_task_scx()`.
pub fn pick_task(k: &mut Kernel, cpu: usize, prev: TaskId) -> Option<TaskId> {
    k.rqs[cpu].ext.in_balance = true;
    let keeps = balance(k, cpu, prev);
    if k.rqs[cpu].ext.local.len() > 1 {
        immediate::reenqueue(k, cpu);
    }
    k.rqs[cpu].ext.in_balance = false;
    let task = if keeps { Some(prev) } else { k.rqs[cpu].ext.local.front().copied() }?;
    let slice = &k.native.task(task).scx.slice_ns;
    if slice.get() == 0 {
        slice.set(flags::SLICE_DFL_NS);
    }
    Some(task)
}

/// `SCX_DSP_MAX_LOOPS`.
const LOOPS_MAX: u32 = 32;

/// `balance_one()`. Returns true if the running task continues.
fn balance(k: &mut Kernel, cpu: usize, prev: TaskId) -> bool {
    k.rqs[cpu].ext.cpu_released = false;
    let ours = k.tasks[prev].class() == Class::Normal;
    let can_go_on = ours && k.tasks[prev].ext.queued;
    let goes_on = |k: &Kernel| can_go_on && k.native.task(prev).scx.slice_ns.get() > 0;
    if goes_on(k) {
        return true;
    }
    if has_others(k, cpu) {
        return false;
    }
    if !k.rqs[cpu].active {
        return can_go_on;
    }
    // With core scheduling, a CPU also calls this for the other CPUs of its core (`dspc->rq`).
    let at = k.at();
    for turn in 1.. {
        k.rqs[cpu].ext.consumed = false;
        let here = k.this_cpu;
        let outer = k.rqs[here].ext.balances.replace(cpu);
        bpf::dispatch(k, at, cpu, ours.then_some(prev));
        k.rqs[here].ext.balances = outer;
        if goes_on(k) {
            return true;
        }
        if has_others(k, cpu) {
            return false;
        }
        if !k.rqs[cpu].ext.consumed {
            break;
        }
        if turn == LOOPS_MAX {
            let here = k.this_cpu;
            k.ext.kicks[here].push((cpu, 0));
            break;
        }
    }
    can_go_on && k.ext.flags & flags::OPS_ENQ_LAST == 0
}

fn has_others(k: &mut Kernel, cpu: usize) -> bool {
    !k.rqs[cpu].ext.local.is_empty() || local::consume(k, cpu, flags::DSQ_GLOBAL)
}
