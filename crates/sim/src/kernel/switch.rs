// SPDX-License-Identifier: GPL-2.0-only
//! Selects the task that runs next on a CPU: `__schedule()` and the functions that it calls.

use super::{Class, Event, Kernel, Program, State, events::short};
use crate::bpf::{self, TaskId};

impl Kernel {
    /// `resched_curr()`: the CPU must select a task again. Another CPU gets an interrupt for this.
    pub fn resched_curr(&mut self, cpu: usize) {
        if !self.rqs[cpu].need_resched {
            self.rqs[cpu].need_resched = true;
            self.interrupt(cpu);
        }
    }

    /// Makes another CPU select a task if it must, and do deferred work (`irq_work_queue_on()`).
    pub fn interrupt(&mut self, cpu: usize) {
        if cpu != self.this_cpu && !self.rqs[cpu].resched_sent {
            self.rqs[cpu].resched_sent = true;
            let at = self.now + self.machine.costs.ipi_ns;
            self.events.push(at, Event::Resched { cpu: short(cpu) });
        }
    }

    pub(super) fn resched_arrives(&mut self, cpu: usize) {
        self.this_cpu = cpu;
        self.rqs[cpu].resched_sent = false;
        self.update_curr(cpu);
        self.interrupts_guest(cpu);
    }

    /// `__schedule()`.
    pub(super) fn schedule(&mut self, cpu: usize) {
        self.assert_rq_held(cpu);
        self.update_curr(cpu);
        let prev = self.rqs[cpu].curr;
        let runnable = self.tasks[prev].state == State::Runnable;
        if !runnable && self.tasks[prev].on_rq {
            self.dequeue_task(cpu, prev, true);
        }
        let next = self.pick_next_task(cpu, prev);
        self.rqs[cpu].next_class = self.tasks[next].class();
        if self.planted.asks_while_it_looks {
            self.resched_curr(cpu);
        }
        if next == prev {
            self.rqs[cpu].need_resched = false;
            if self.is_idle_task(prev) {
                let class = self.normal;
                class.idle(self, cpu, true, true);
            } else {
                self.go_on(cpu);
            }
            return;
        }
        self.put_prev_task(cpu, prev, next);
        self.set_next_task(cpu, next);
        // As in the kernel, a request that comes during the selection is cleared together with the
        // one that started it.
        self.rqs[cpu].need_resched = false;
        self.context_switch(cpu, prev, next, runnable);
    }

    /// `pick_next_task()`.
    fn pick_next_task(&mut self, cpu: usize, prev: TaskId) -> TaskId {
        if self.has_cookies() { self.pick_for_core(cpu, prev) } else { self.pick_task(cpu, prev) }
    }

    /// `__pick_next_task()`: asks the classes for a task, the highest class first.
    pub(super) fn pick_task(&mut self, cpu: usize, prev: TaskId) -> TaskId {
        let class = self.normal;
        if !self.rqs[cpu].active || self.planted.kept_idle == Some(cpu) {
            return cpu;
        }
        if self.rqs[cpu].server.left_ns > 0 {
            if let Some(task) = class.pick(self, cpu, prev) {
                return task;
            }
        }
        loop {
            if let Some(task) = self.pick_rt(cpu, prev) {
                return task;
            }
            // rq_modified_begin()
            self.rqs[cpu].next_class = self.rqs[cpu].next_class.min(Class::Normal);
            let task = class.pick(self, cpu, prev);
            // RETRY_TASK: a real-time task came while the run queue was unlocked.
            if self.rqs[cpu].next_class <= Class::Normal {
                return task.unwrap_or(cpu);
            }
        }
    }

    fn put_prev_task(&mut self, cpu: usize, prev: TaskId, next: TaskId) {
        let class = self.normal;
        match self.tasks[prev].class() {
            Class::Idle => class.idle(self, cpu, false, false),
            Class::Normal => class.put_prev(self, cpu, prev, next),
            Class::Rt => self.put_prev_rt(cpu, prev),
        }
        if !self.is_idle_task(prev) && self.tasks[prev].on_rq {
            self.begins_to_wait(prev);
        }
    }

    /// From now on, `next` is the task of the CPU.
    fn set_next_task(&mut self, cpu: usize, next: TaskId) {
        let class = self.normal;
        self.update_rq_clock(cpu);
        match self.tasks[next].class() {
            Class::Idle => {
                self.rqs[cpu].idle_since = self.now;
                class.idle(self, cpu, true, false);
            }
            Class::Normal => class.set_next(self, cpu, next),
            Class::Rt => self.set_next_rt(cpu, next),
        }
        self.rqs[cpu].curr = next;
    }

    fn context_switch(&mut self, cpu: usize, prev: TaskId, next: TaskId, runnable: bool) {
        if self.sensed {
            let at = bpf::At { cpu, now_ns: self.now, current: prev };
            bpf::sched_switch(self, at, runnable, prev, next);
        }
        self.observe(|observer, k| {
            observer.stopping(k.now, cpu, &k.tasks[prev], prev);
            observer.switched(k.now, cpu, prev, &k.tasks[next], next);
        });
        let costs = self.machine.costs;
        let rq = &mut self.rqs[cpu];
        let from = self.now.max(rq.irq_until);
        rq.exec_start = from;
        rq.work_from = from + costs.switch_ns;
        rq.switch_until = rq.work_from;
        rq.preemptions += u64::from(runnable && prev != cpu);
        if self.tasks[prev].state == State::Dead && !self.is_idle_task(prev) {
            self.release_task(prev);
        }
        self.smt_changed(cpu);
        self.core_runs(cpu);
        let (was, is) = (!self.is_idle_task(prev), !self.is_idle_task(next));
        if was != is {
            self.placement.thread_changes(self.now, cpu / self.machine.smt, is);
        }
        if self.is_idle_task(next) {
            self.rqs[cpu].tick = None;
            return;
        }
        self.stops_waiting(next);
        self.tasks[next].account.switches += 1;
        self.start_tick(cpu);
        // The task continues when the switch is complete.
        self.arm_run_end(cpu);
        if self.tasks[next].work > 0 {
            self.arm_exit(cpu);
        }
    }

    /// `enqueue_task()`.
    pub fn enqueue_task(&mut self, cpu: usize, task: TaskId, why: super::Enqueue) {
        self.assert_rq_held(cpu);
        self.update_curr(cpu);
        let class = self.normal;
        self.core_changes(cpu);
        self.tasks[task].on_rq = true;
        self.rqs[cpu].nr_running += 1;
        if self.rqs[cpu].curr != task {
            self.begins_to_wait(task);
            self.observe(|observer, k| observer.enqueued(k.now, cpu, &k.tasks[task], task));
        }
        if self.tasks[task].class() == Class::Rt {
            self.enqueue_rt(cpu, task);
        } else {
            class.enqueue(self, cpu, task, why);
        }
        self.arm_server(cpu);
    }

    /// `dequeue_task()`. `sleep`: the task is no longer runnable.
    pub fn dequeue_task(&mut self, cpu: usize, task: TaskId, sleep: bool) {
        self.assert_rq_held(cpu);
        self.update_curr(cpu);
        let class = self.normal;
        if self.tasks[task].class() == Class::Rt {
            self.dequeue_rt(cpu, task);
        } else {
            class.dequeue(self, cpu, task, sleep);
        }
        self.tasks[task].on_rq = false;
        self.rqs[cpu].nr_running -= 1;
        self.core_changes(cpu);
        self.leaves_core(cpu);
        self.stops_waiting(task);
    }

    /// Changes the CPU of a task that is in no run queue (`set_task_cpu()`).
    pub fn set_task_cpu(&mut self, task: TaskId, cpu: usize) {
        let from = self.tasks[task].cpu;
        if from == cpu {
            return;
        }
        if self.rqs[from].curr == task {
            let name = self.tasks[task].name.clone();
            self.fault(format!("simulator: {name} is taken to CPU {cpu} while CPU {from} runs it"));
        }
        if self.tasks[task].class() == Class::Normal {
            let class = self.normal;
            class.migrate(self, task, cpu);
        }
        self.native.set_task_rq(task, cpu);
        let other_cache = self.machine.cache(from) != self.machine.cache(cpu);
        let costs = self.machine.costs;
        let moved = &mut self.tasks[task];
        moved.cpu = cpu;
        moved.account.migrations += 1;
        self.placement.moved(&self.machine, from, cpu);
        if other_cache && moved.work > 0 {
            let more = costs.migrate_ns * super::task::WORK_PER_NS;
            moved.work = moved.work.saturating_add(more);
        }
    }

    /// `sched_info_enqueue()`.
    fn begins_to_wait(&mut self, task: TaskId) {
        let now = self.now;
        let waits = &mut self.tasks[task].queued_since;
        if waits.is_none() {
            *waits = Some(now);
            self.native.task(task).sched_info.last_queued.set(now);
        }
    }

    /// `sched_info_arrive()`, `sched_info_dequeue()`.
    fn stops_waiting(&mut self, task: TaskId) {
        let Some(since) = self.tasks[task].queued_since.take() else { return };
        let waited_ns = self.now - since;
        if std::mem::take(&mut self.tasks[task].woken) {
            let vms = matches!(self.tasks[task].program, Program::Guest(_));
            let kind = self.tasks[task].kind + if vms { self.mix.tasks.len() } else { 0 };
            self.placement.woken_ran(kind, waited_ns);
        }
        let account = &mut self.tasks[task].account;
        account.longest_wait_ns = account.longest_wait_ns.max(waited_ns);
        let info = &self.native.task(task).sched_info;
        info.run_delay.set(info.run_delay.get() + waited_ns);
        info.last_queued.set(0);
    }

    /// A CPU is slower while its sibling computes. The tasks on both continue at their new speed.
    fn smt_changed(&mut self, cpu: usize) {
        /// Speed of a thread while its siblings compute, too, in percent.
        const SHARED_PCT: u64 = 60;
        if self.machine.smt == 1 {
            return;
        }
        let busy = |k: &Self, cpu: usize| !k.is_idle_task(k.rqs[cpu].curr);
        for sibling in self.machine.core_cpus(cpu) {
            let shared =
                self.machine.core_cpus(cpu).any(|other| other != sibling && busy(self, other));
            let alone = u64::from(self.machine.capacities[sibling]);
            let speed = if shared { alone * SHARED_PCT / 100 } else { alone };
            if speed == self.rqs[sibling].speed {
                continue;
            }
            if sibling != cpu {
                self.update_curr(sibling);
            }
            self.rqs[sibling].speed = speed;
            if sibling != cpu {
                self.arm_run_end(sibling);
            }
        }
    }
}
