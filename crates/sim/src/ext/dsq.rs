// SPDX-License-Identifier: GPL-2.0-only
//! Dispatch queues: adding and removing tasks.

use super::{exit::eject, flags, immediate};
use crate::{
    bpf::{ENQ_PRIQ, TaskId},
    kernel::{Class, Kernel, Place, ext_state::Queue},
};

/// `find_dsq_for_dispatch()`: the CPU whose local queue is meant. `None`: the queue is not local.
pub fn destination(k: &mut Kernel, dsq: u64, this_cpu: usize) -> Option<usize> {
    if dsq == flags::DSQ_LOCAL {
        return Some(this_cpu);
    }
    if dsq & flags::DSQ_LOCAL_ON != flags::DSQ_LOCAL_ON {
        return None;
    }
    let cpu = (dsq & 0xffff_ffff) as usize;
    if cpu >= k.machine.cpus {
        eject(
            k,
            flags::EXIT_ERROR,
            &format!("invalid CPU {cpu} in SCX_DSQ_LOCAL_ON dispatch verdict"),
        );
        return Some(this_cpu);
    }
    Some(cpu)
}

/// `dispatch_enqueue()` into the local queue of a CPU, and `local_dsq_post_enq()`. The task belongs
/// to this CPU.
pub fn insert(k: &mut Kernel, cpu: usize, task: TaskId, enq_flags: u64) {
    debug_assert_eq!(k.tasks[task].cpu, cpu);
    k.tasks[task].ext.queue = Queue::Local(cpu);
    let front = enq_flags & (flags::ENQ_HEAD | flags::ENQ_PREEMPT) != 0;
    let local = &mut k.rqs[cpu].ext.local;
    if front {
        local.push_front(task)
    } else {
        local.push_back(task)
    }
    let entity = &mut k.tasks[task].ext;
    entity.immediate |= enq_flags & flags::ENQ_IMMED != 0;
    if entity.immediate
        && (k.rqs[cpu].ext.local.len() > 1 || !immediate::is_open(k, cpu, enq_flags))
    {
        immediate::reenqueue(k, cpu);
    }
    k.rqs[cpu].next_class = k.rqs[cpu].next_class.max(Class::Normal);
    if k.rqs[cpu].ext.in_balance {
        return;
    }
    let curr = k.rqs[cpu].curr;
    let theirs = k.tasks[curr].class();
    let preempts = enq_flags & flags::ENQ_PREEMPT != 0 && task != curr && theirs == Class::Normal;
    let place = Place::Local { cpu, front, preempts };
    k.observe(|observer, k| observer.placed(k.now, place, &k.tasks[task], task));
    if preempts {
        k.native.task(curr).scx.slice_ns.set(0);
    }
    if preempts || theirs < Class::Normal {
        k.resched_curr(cpu);
    }
}

/// Virtual times wrap around. This returns a number that has the same order, as long as the times
/// are within half of their range.
fn place_of(vtime: u64) -> u64 {
    vtime.wrapping_add(1 << 63)
}

/// `dispatch_enqueue()` into a queue of the scheduler, or into the global one.
pub fn insert_shared(k: &mut Kernel, dsq: u64, task: TaskId, enq_flags: u64) {
    let vtime = k.native.task(task).scx.dsq_vtime.get();
    let Some(queue) = k.ext.dsqs.get_mut(&dsq) else {
        eject(k, flags::EXIT_ERROR, &format!("non-existent DSQ {dsq:#x}"));
        return;
    };
    queue.seq += 1;
    let place = if enq_flags & ENQ_PRIQ != 0 { place_of(vtime) } else { 0 };
    let key = (place, queue.seq);
    queue.tasks.insert(key, task);
    let entity = &mut k.tasks[task].ext;
    entity.queue = Queue::Shared(dsq);
    entity.key = key;
    k.observe(|observer, k| observer.placed(k.now, Place::Shared(dsq), &k.tasks[task], task));
}

/// `dispatch_dequeue()`: removes the task from the queue in which it waits.
pub fn unlink(k: &mut Kernel, cpu: usize, task: TaskId) {
    let entity = &mut k.tasks[task].ext;
    let key = entity.key;
    match std::mem::take(&mut entity.queue) {
        Queue::None => {}
        Queue::Local(on) => k.rqs[on].ext.local.retain(|other| *other != task),
        Queue::Shared(dsq) => {
            if let Some(queue) = k.ext.dsqs.get_mut(&dsq) {
                queue.tasks.remove(&key);
            }
        }
        Queue::Deferred(_) => k.rqs[cpu].ext.deferred.retain(|other| *other != task),
    }
}
