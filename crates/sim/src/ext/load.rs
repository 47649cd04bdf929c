// SPDX-License-Identifier: GPL-2.0-only
//! Loads the scheduler. This file does the work of `scx_enable_workfn()` and of paracord's loader
//! (crates/sensor/src/scheduler.rs).

use paracord_policy::topology::{self, Place};

use super::{exit::eject, flags, idle, watchdog};
use crate::{
    bpf::{self, TaskId},
    kernel::Kernel,
    time::NS_PER_MS,
};

/// Enables the scheduler before any task exists.
pub fn enable(k: &mut Kernel) {
    let at = k.at();
    bpf::load(k, at);
    prepare_cpus(k);
    k.ext.flags = bpf::flags();
    k.ext.timeout_ns = u64::from(bpf::timeout_ms()) * NS_PER_MS;
    k.ext.direct_task = vec![None; k.machine.cpus];
    k.ext.kicks = vec![Vec::new(); k.machine.cpus];
    k.ext.dsqs.insert(flags::DSQ_GLOBAL, Default::default());
    if bpf::init(k, at) != 0 {
        eject(k, flags::EXIT_ERROR, "ops.init() failed");
        return;
    }
    for group in 0..k.groups.len() {
        let weight = k.groups[group].weight;
        if bpf::cgroup_init(k, at, group, weight) != 0 {
            eject(k, flags::EXIT_ERROR, "ops.cgroup_init() failed");
        }
    }
    for cpu in 0..k.machine.cpus {
        idle::update(k, cpu, true);
    }
    watchdog::arm(k);
}

/// Tells the scheduler each CPU's place in the topology, and its slice
/// (crates/sensor/src/scheduler.rs).
fn prepare_cpus(k: &mut Kernel) {
    let cpus = k.machine.cpus;
    let slice_ns = paracord_policy::fair::slice_ns(u32::try_from(cpus).unwrap_or(u32::MAX));
    let place = |cpu| Place { node: k.machine.node(cpu), cache: k.machine.cache(cpu) };
    let near = topology::near(&(0..cpus).map(place).collect::<Vec<_>>());
    for (cpu, near) in near.into_iter().enumerate() {
        let capacity = u16::try_from(k.machine.capacities[cpu]).unwrap_or(u16::MAX);
        k.native.edit_rq(cpu, |rq| {
            (rq.near, rq.slice_ns, rq.features, rq.capacity) = (near, slice_ns, 0, capacity);
        });
    }
}

/// `scx_init_task()`.
pub fn init_task(k: &mut Kernel, task: TaskId, fork: bool) {
    let (at, group) = (k.at(), k.tasks[task].group);
    if bpf::init_task(k, at, task, fork, group) != 0 {
        eject(k, flags::EXIT_ERROR, "ops.init_task() failed");
    }
    k.tasks[task].ext.reset_runnable_at = true;
}

/// `scx_enable_task()`, `scx_disable_task()`: sets whether a task belongs to the scheduler, as
/// programs see it.
pub fn set_enabled(k: &mut Kernel, task: TaskId, enabled: bool) {
    let state = if enabled { flags::task_enabled(k.mix.kernel) } else { 0 };
    let object = &k.native.task(task).scx.flags;
    object.set(object.get() & !flags::TASK_STATE | state);
}
