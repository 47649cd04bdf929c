// SPDX-License-Identifier: GPL-2.0-only
//! The functions that the scheduler calls. They do what the kernel's functions do.

use super::{dsq, exit::eject, flags, idle, local};
use crate::{
    bpf::{
        CURSOR_AFTER, CURSOR_REVERSE, CURSOR_START, CURSOR_VTIME, DsqCursor, ENQ_PRIQ, GroupId,
        Kfuncs, Native, TaskId,
    },
    kernel::{
        Event, Kernel, State, events,
        ext_state::{Direct, Queue, Reenqueue},
    },
    machine::CpuSet,
};

impl Kernel {
    fn checked_cpu(&mut self, cpu: i32) -> Option<usize> {
        let found = usize::try_from(cpu).ok().filter(|cpu| *cpu < self.machine.cpus);
        if found.is_none() {
            eject(self, flags::EXIT_ERROR, &format!("invalid CPU {cpu}"));
        }
        found
    }

    /// `scx_dsq_insert_commit()`, `mark_direct_dispatch()`.
    fn insert_direct(&mut self, task: TaskId, dsq: u64, enq_flags: u64) {
        if self.ext.direct_task[self.this_cpu] != Some(task)
            || self.tasks[task].ext.direct.is_some()
        {
            let name = self.tasks[task].name.clone();
            eject(
                self,
                flags::EXIT_ERROR,
                &format!("{name} is inserted twice, or in the wrong operation"),
            );
            return;
        }
        self.tasks[task].ext.direct = Some(Direct { dsq, enq_flags });
    }

    fn set_slice(&mut self, task: TaskId, slice_ns: u64) {
        let slice = &self.native.task(task).scx.slice_ns;
        slice.set(if slice_ns > 0 { slice_ns } else { slice.get().max(1) });
    }
}

impl Kfuncs for Kernel {
    fn native(&mut self) -> &mut Native {
        &mut self.native
    }

    fn create_dsq(&mut self, dsq: u64) -> i32 {
        if self.ext.dsqs.contains_key(&dsq) {
            return flags::EEXIST;
        }
        self.ext.dsqs.insert(dsq, Default::default());
        0
    }

    fn select_cpu_dfl(&mut self, task: TaskId, prev_cpu: i32, wake_flags: u64) -> (i32, bool) {
        let Some(prev) = self.checked_cpu(prev_cpu) else { return (prev_cpu, false) };
        // The kernel does not call `ops.select_cpu()` for tasks that may use only one CPU.
        match idle::select_dfl(self, task, prev, wake_flags) {
            Some(cpu) => (cpu as i32, true),
            None => (prev_cpu, false),
        }
    }

    fn test_and_clear_cpu_idle(&mut self, cpu: i32) -> bool {
        self.checked_cpu(cpu).is_some_and(|cpu| idle::test_and_clear(self, cpu))
    }

    fn pick_idle_cpu(&mut self, allowed: &CpuSet, pick_flags: u64) -> i32 {
        idle::pick(self, allowed, pick_flags).map_or(flags::EBUSY, |cpu| cpu as i32)
    }

    fn idle_smtmask(&self) -> &CpuSet {
        if self.machine.smt > 1 { &self.ext.idle_cores } else { &self.ext.idle }
    }

    fn task_cpu(&self, task: TaskId) -> i32 {
        self.tasks[task].cpu as i32
    }

    fn dsq_insert(&mut self, task: TaskId, dsq: u64, slice_ns: u64, enq_flags: u64) {
        self.set_slice(task, slice_ns);
        self.insert_direct(task, dsq, enq_flags);
    }

    fn dsq_insert_vtime(
        &mut self,
        task: TaskId,
        dsq: u64,
        slice_ns: u64,
        vtime: u64,
        enq_flags: u64,
    ) {
        self.set_slice(task, slice_ns);
        self.native.task(task).scx.dsq_vtime.set(vtime);
        self.insert_direct(task, dsq, enq_flags | ENQ_PRIQ);
    }

    fn dsq_move_to_local(&mut self, dsq: u64) -> bool {
        let cpu = self.rqs[self.this_cpu].ext.balances.unwrap_or(self.this_cpu);
        let found = local::consume(self, cpu, dsq);
        // The task may be taken away before it runs. The operation is then called again.
        self.rqs[cpu].ext.consumed |= found;
        found
    }

    fn dsq_nr_queued(&self, dsq: u64) -> i32 {
        let queue = self.ext.dsqs.get(&dsq);
        queue.map_or(-2, |queue| i32::try_from(queue.tasks.len()).unwrap_or(i32::MAX))
    }

    fn dsq_iter_new(&mut self, cursor: &mut DsqCursor) -> bool {
        let Some(queue) = self.ext.dsqs.get(&cursor.dsq) else { return false };
        cursor.newest = queue.seq;
        true
    }

    fn dsq_iter_next(&mut self, cursor: &mut DsqCursor) -> Option<TaskId> {
        use std::ops::Bound::{Excluded, Unbounded};
        let queue = self.ext.dsqs.get(&cursor.dsq)?;
        let last = if cursor.state & CURSOR_START != 0 {
            Unbounded
        } else {
            Excluded((cursor.key, cursor.seq))
        };
        let newest = cursor.newest;
        let fits = |(key, _): &(&(u64, u64), &TaskId)| key.1 <= newest;
        let next = if cursor.state & CURSOR_REVERSE == 0 {
            queue.tasks.range((last, Unbounded)).find(fits)
        } else {
            queue.tasks.range((Unbounded, last)).rev().find(fits)
        };
        let (key, task) = next?;
        (cursor.key, cursor.seq) = *key;
        cursor.state = cursor.state & CURSOR_REVERSE | CURSOR_AFTER;
        Some(*task)
    }

    fn dsq_move(&mut self, cursor: &mut DsqCursor, task: TaskId, dsq: u64, enq_flags: u64) -> bool {
        let vtime = (cursor.state & CURSOR_VTIME != 0).then_some(cursor.vtime);
        cursor.state &= !CURSOR_VTIME;
        // In the meantime, the task was moved, or it has left the queue and come back.
        let entity = &self.tasks[task].ext;
        if entity.queue != Queue::Shared(cursor.dsq) || entity.key.1 > cursor.newest {
            return false;
        }
        if let Some(vtime) = vtime {
            self.native.task(task).scx.dsq_vtime.set(vtime);
        }
        let here = self.this_cpu;
        match dsq::destination(self, dsq, here) {
            Some(cpu) if local::may_move(self, task, cpu) => {
                local::move_to_local(self, task, cpu, enq_flags);
            }
            to => {
                let from = self.tasks[task].cpu;
                let dsq = if to.is_some() { flags::DSQ_GLOBAL } else { dsq };
                dsq::unlink(self, from, task);
                dsq::insert_shared(self, dsq, task, enq_flags);
            }
        }
        true
    }

    fn reenqueue_local(&mut self) -> u32 {
        let cpu = self.this_cpu;
        local::reenqueue(self, cpu, Reenqueue::All)
    }

    fn reenqueue_local_later(&mut self) {
        let cpu = self.this_cpu;
        self.rqs[cpu].ext.reenqueue = Some(Reenqueue::All);
    }

    fn kick_cpu(&mut self, cpu: i32, kick: u64) {
        if let Some(cpu) = self.checked_cpu(cpu) {
            let here = self.this_cpu;
            self.ext.kicks[here].push((cpu, kick));
        }
    }

    fn cpuperf_cap(&self, cpu: i32) -> u32 {
        self.machine.capacities.get(cpu as usize).copied().unwrap_or(0)
    }

    /// In the simulator, frequencies do not change.
    fn cpuperf_cur(&self, _cpu: i32) -> u32 {
        1024
    }

    fn cpuperf_set(&mut self, cpu: i32, _perf: u32) {
        self.checked_cpu(cpu);
    }

    fn cgroup_ancestor(&self, group: GroupId, level: i32) -> Option<GroupId> {
        let level = usize::try_from(level).ok()?;
        let mut at = group;
        while self.groups[at].level > level {
            at = self.groups[at].parent;
        }
        (self.groups[at].level == level).then_some(at)
    }

    fn task_from_pid(&self, pid: i32) -> Option<TaskId> {
        let ours = |id: &TaskId| {
            self.tasks[*id].state != State::Dead && self.native.task(*id).pid.get() == pid
        };
        (self.machine.cpus..self.tasks.len()).find(ours)
    }

    fn timer_start(&mut self, timer: usize, seq: u32, after_ns: u64) {
        self.events.push(self.now + after_ns, Event::BpfTimer { timer: events::short(timer), seq });
    }

    fn at_point(&mut self) {
        self.race_point();
    }
}
