// SPDX-License-Identifier: GPL-2.0-only
//! Checks that sums and counters agree with what they count.

use std::collections::BTreeMap;

use paracord_policy::{
    PC_AT_QUEUE, PC_AT_READS, PC_AT_RELEASED, PC_AT_STATE, PC_AT_STATE_SHIFT, PC_AT_WEIGHT_SHIFT,
    PC_AT_WHERE, PC_GROUP_ROOT, PC_VCPU_FREE, PC_VCPUS_MAX,
};

use crate::bpf;
use crate::kernel::{Kernel, Program, State};

/// Checks the simulated kernel's numbers of tasks. A difference is an error of the simulator.
pub fn run_queues(k: &mut Kernel) {
    let mut running = vec![0; k.machine.cpus];
    for task in &k.tasks[k.machine.cpus..] {
        if task.on_rq {
            running[task.cpu] += 1;
        }
    }
    for (cpu, has) in running.into_iter().enumerate() {
        let counted = k.rqs[cpu].nr_running;
        if counted != has {
            k.fault(format!("simulator: CPU {cpu} counts {counted} tasks and has {has}"));
        }
    }
}

/// Checks the scheduler's sums: tasks in queues, and weights in groups.
pub fn scheduler(k: &mut Kernel) {
    let mut queued = vec![0; k.machine.cpus];
    let mut readers = vec![0; k.machine.cpus];
    let mut waiting = vec![0; k.machine.cpus];
    let mut groups: BTreeMap<u32, i64> = BTreeMap::new();
    for id in k.machine.cpus..k.tasks.len() {
        if k.tasks[id].state == State::Dead && !k.tasks[id].on_rq {
            continue;
        }
        let Some(record) = k.native.task_record(id) else { continue };
        let word = u32::try_from(record.at & u64::from(u32::MAX)).unwrap_or_default();
        let state = (word & PC_AT_STATE) >> PC_AT_STATE_SHIFT;
        if state == PC_AT_QUEUE || state == PC_AT_RELEASED {
            let cpu = (word & PC_AT_WHERE) as usize - 1;
            queued[cpu] += 1;
            readers[cpu] += i32::from(word & PC_AT_READS != 0);
            waiting[cpu] += i64::try_from(record.at >> PC_AT_WEIGHT_SHIFT).unwrap_or(i64::MAX);
        }
        if record.counted != 0 {
            *groups.entry(record.group).or_default() += i64::from(record.counted);
        }
    }
    for cpu in 0..k.machine.cpus {
        let record = k.native.rq_record(cpu);
        if (record.queued, record.readers) != (queued[cpu], readers[cpu]) {
            let (counted, tasks) = (record.queued, queued[cpu]);
            k.fault(format!(
                "pc_rq.queued of CPU {cpu} is {counted}, and {tasks} tasks are in its queue"
            ));
        }
    }
    for (cpu, tasks) in waiting.into_iter().enumerate() {
        let counted = k.native.rq_record(cpu).waiting;
        if counted != tasks {
            k.fault(format!(
                "pc_rq.waiting of CPU {cpu} is {counted}, and its tasks weigh {tasks}"
            ));
        }
    }
    group_sums(k, groups);
}

/// Names of `PC_AT_*`, in their order.
const STATES: [&str; 7] = ["NOWHERE", "QUEUE", "RELEASED", "PARKED", "LOCAL", "RUN", "LEAVE"];

/// Checks that the state of each task changed only in the ways that bpf/sched_state.h allows.
pub fn steps(k: &mut Kernel) {
    let Some((before, after)) = bpf::bad_step() else { return };
    let name = |state| usize::try_from(state).ok().and_then(|n| STATES.get(n)).unwrap_or(&"none");
    k.fault(format!("a task went from state {} to {}", name(before), name(after)));
}

/// The sum of a group must be that of its runnable tasks and of the weights of its groups that have
/// runnable tasks.
fn group_sums(k: &mut Kernel, mut tasks: BTreeMap<u32, i64>) {
    let indices: Vec<_> = (1..k.groups.len()).map(|group| k.native.group_index(group)).collect();
    // Children come after their parents in the list.
    for (position, index) in indices.iter().enumerate().rev() {
        let expected = tasks.get(index).copied().unwrap_or(0);
        let Some(record) = k.native.group_record(*index).filter(|_| *index != PC_GROUP_ROOT) else {
            continue;
        };
        let path = k.groups[position + 1].path.clone();
        if record.active != expected {
            let active = record.active;
            k.fault(format!(
                "pc_group.active of {path} is {active}, its tasks and groups make {expected}"
            ));
        }
        if expected != 0 {
            let weight = if record.idle == 0 { scaled(record.weight) } else { WEIGHT_IDLE };
            *tasks.entry(record.parent).or_default() += weight;
        }
    }
}

/// `PC_WEIGHT_IDLE`: the weight of a group with `cpu.idle`.
const WEIGHT_IDLE: i64 = 3;

/// `pc_group_weight()`.
fn scaled(weight: u32) -> i64 {
    i64::from(weight.clamp(1, 10_000)) * 1024 / 100
}

/// The number of vCPU records in use must be the number of vCPUs that exist.
pub fn vcpus(k: &mut Kernel) {
    let used = (0..PC_VCPUS_MAX)
        .filter(|index| {
            k.native.vcpu_record(*index).is_some_and(|record| record.life != PC_VCPU_FREE)
        })
        .count();
    let there = k
        .tasks
        .iter()
        .filter(|task| matches!(task.program, Program::Guest(_)) && task.state != State::Dead);
    let there = there.count();
    if used > there {
        k.fault(format!("{used} records of vCPUs are in use, and {there} vCPUs are there"));
    }
}
