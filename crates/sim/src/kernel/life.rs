// SPDX-License-Identifier: GPL-2.0-only
//! The start and end of tasks: `copy_process()`, `do_exit()`.

use std::rc::Rc;

use super::{Account, Event, Kernel, Program, State, Task, ext_state, fair_state};
use crate::{
    bpf::{GroupId, TaskId},
    machine::CpuSet,
    mix::{self, Policy},
    time::Ns,
};

/// The attributes of a new task.
pub(super) struct New {
    pub kind: usize,
    pub name: Rc<str>,
    pub policy: Policy,
    pub nice: i8,
    pub cookie: u32,
    pub cpus: Option<CpuSet>,
    pub group: GroupId,
    pub program: Program,
}

impl Kernel {
    fn blank(&self, kind: usize, name: Rc<str>, program: Program, cpu: usize) -> Task {
        Task {
            kind,
            name,
            state: State::Runnable,
            policy: Policy::Other,
            nice: 0,
            cookie: 0,
            cpus: CpuSet::first(self.machine.cpus),
            group: 0,
            cpu,
            on_rq: false,
            program,
            work: 0,
            start_ns: self.now,
            timer_seq: 0,
            parent: None,
            queued_since: None,
            woken: false,
            spins: false,
            called: 0,
            account: Account::default(),
            before: Account::default(),
            fair: fair_state::Entity::default(),
            ext: ext_state::Entity::default(),
        }
    }

    pub(super) fn make_idle_task(&mut self, cpu: usize) {
        let task = self.blank(usize::MAX, format!("idle/{cpu}").into(), Program::Idle, cpu);
        debug_assert_eq!(self.tasks.len(), cpu);
        self.tasks.push(task);
        self.native.begin_task(cpu, cpu);
        self.native.set_cpus_allowed(cpu, &CpuSet::of(cpu));
        let object = self.native.task(cpu);
        object.pid.set(0);
        object.tgid.set(0);
        object.prio.set(120);
        object.static_prio.set(120);
    }

    /// Makes a task, which becomes runnable. Its parent is the task that runs on the CPU that
    /// handles the present event.
    pub(super) fn fork(&mut self, new: New) {
        let cpu = self.this_cpu;
        let parent = self.rqs[cpu].curr;
        let id = self.free_tasks.pop_front().unwrap_or(self.tasks.len());
        if id >= self.tasks_max {
            let most = self.tasks_max - self.machine.cpus;
            self.fault(format!(
                "{} is not forked: {most} tasks are there, and no more can be",
                new.name
            ));
            self.stopped = true;
            return;
        }
        let mut task = self.blank(new.kind, new.name, new.program, cpu);
        task.policy = new.policy;
        task.nice = new.nice;
        task.cookie = new.cookie;
        task.group = new.group;
        task.cpus = new.cpus.unwrap_or(task.cpus);
        // If a number is reused, its new task continues the numbers of the old task's timers, so
        // that a timer of the old task is not mistaken for its own.
        let cpus = task.cpus;
        if id == self.tasks.len() {
            self.tasks.push(task);
        } else {
            task.timer_seq = self.tasks[id].timer_seq + 1;
            self.tasks[id] = task;
        }
        self.native.begin_task(id, cpu);
        self.native.set_cpus_allowed(id, &cpus);
        self.native.set_task_group(id, self.tasks[id].group);
        self.tasks[id].parent = Some((parent, self.native.task(parent).pid.get()));
        self.next_pid += 1;
        let object = self.native.task(id);
        object.pid.set(self.next_pid);
        object.tgid.set(self.next_pid);
        object.start_boottime.set(self.now);
        object.state.set(0);
        self.publish(id);
        if let Program::Guest(vcpu) = &self.tasks[id].program {
            let (tgid, number) = (vcpu.tgid, vcpu.number);
            self.native.task(id).tgid.set(tgid);
            self.native.make_vcpu(id, i32::try_from(number).unwrap_or(i32::MAX));
        }
        let class = self.normal;
        class.fork(self, id, parent);
        self.wake_up_new_task(id);
    }

    /// Publishes the task's policy and priorities to the programs.
    pub(super) fn publish(&self, id: TaskId) {
        let (task, object) = (&self.tasks[id], self.native.task(id));
        object.policy.set(task.policy_number());
        object.prio.set(task.prio());
        object.static_prio.set(task.static_prio());
    }

    /// Makes a task of a kind of the mix.
    pub(super) fn fork_kind(&mut self, kind: usize, name: Rc<str>) {
        let mix = Rc::clone(&self.mix);
        let what: &mix::Task = &mix.tasks[kind];
        let program = Program::Phases { phases: what.phases.as_slice().into(), next: 0 };
        let group = what.group.map_or(0, |group| group + 1);
        self.fork(New {
            kind,
            name,
            policy: what.policy,
            nice: what.nice,
            cookie: what.cookie,
            cpus: what.cpus,
            group,
            program,
        });
    }

    /// Starts the mix's tasks of a kind, on one CPU after the other.
    pub(super) fn start_tasks(&mut self, kind: usize) {
        let mix = Rc::clone(&self.mix);
        let what = &mix.tasks[kind];
        for number in 0..what.count {
            let name =
                if what.count == 1 { what.name.clone() } else { format!("{}.{number}", what.name) };
            self.fork_from_somewhere(|k| k.fork_kind(kind, name.into()));
        }
    }

    /// Forks come from the first CPU that is online, as from one shell.
    pub(super) fn fork_from_somewhere(&mut self, fork: impl FnOnce(&mut Self)) {
        let here = self.active.next(0).unwrap_or(0);
        if self.this_cpu != here {
            self.finish();
            self.this_cpu = here;
        }
        fork(self);
        self.finish();
    }

    /// Ends the running task. It is released at the next switch.
    pub(super) fn exit_current(&mut self, cpu: usize) {
        let curr = self.rqs[cpu].curr;
        self.tasks[curr].state = State::Dead;
        self.native.task(curr).state.set(0x80); // TASK_DEAD
        let lives = |(parent, pid): &(TaskId, i32)| {
            self.tasks[*parent].state != State::Dead && self.native.task(*parent).pid.get() == *pid
        };
        let parent = self.tasks[curr].parent.filter(lives).map(|(parent, _)| parent);
        self.native.set_real_parent(curr, parent);
        if self.sensed && matches!(self.tasks[curr].program, Program::Guest(_)) {
            let at = self.at();
            crate::bpf::sched_process_exit(self, at, curr);
            self.tell_daemon();
        }
        self.rqs[cpu].need_resched = true;
    }

    /// `finish_task_switch()` for a task that has ended.
    pub(super) fn release_task(&mut self, id: TaskId) {
        let class = self.normal;
        class.dead(self, id);
        let task = &self.tasks[id];
        if task.kind != usize::MAX {
            const ENDED_MAX: usize = 1 << 20;
            let measured = task.measured();
            if self.ended.len() < ENDED_MAX {
                self.ended.push((Rc::clone(&task.name), task.kind, measured));
            }
        }
        self.free_tasks.push_back(id);
    }

    /// Begins to measure shares.
    pub(super) fn warmup_ends(&mut self) {
        for cpu in 0..self.machine.cpus {
            self.update_curr(cpu);
        }
        self.ended.clear();
        for task in &mut self.tasks {
            task.before = task.account;
        }
        self.placement.begin(self.now);
    }

    /// Sets the timer of a sleeping task.
    pub(super) fn arm_timer(&mut self, task: TaskId, at_ns: Ns) {
        self.tasks[task].timer_seq += 1;
        let event =
            Event::Timer { task: super::events::short(task), seq: self.tasks[task].timer_seq };
        self.events.push(at_ns.max(self.now), event);
    }

    /// The interrupt of an hrtimer, on the CPU on which the timer was set.
    pub(super) fn timer_fires(&mut self, task: TaskId, seq: u32) {
        if self.tasks[task].timer_seq != seq || self.tasks[task].state == State::Dead {
            return;
        }
        let cpu = self.tasks[task].cpu;
        self.this_cpu = if self.rqs[cpu].active { cpu } else { self.active.next(0).unwrap_or(cpu) };
        let until = self.rqs[self.this_cpu].irq_until;
        if until > self.now {
            self.events.push(until, Event::Timer { task: super::events::short(task), seq });
            return;
        }
        self.update_curr(self.this_cpu);
        if matches!(self.tasks[task].program, Program::Guest(_)) {
            self.guest_timer(task);
        } else {
            self.wake_up(task, false);
        }
    }
}
