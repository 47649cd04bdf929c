// SPDX-License-Identifier: GPL-2.0-only
//! What the running task does: its phases, one after the other, until a phase takes time or makes
//! the task sleep.

use std::rc::Rc;

use super::{Event, Kernel, Program, State, events::short, task::WORK_PER_NS};
use crate::{
    bpf::TaskId,
    mix::{Phase, Span},
    time::Ns,
};

/// How long a task spins before it yields its CPU: 4096 cycles, which is KVM's window for pause
/// loops, and the VM exit.
const SPIN_NS: Ns = 5_000;
/// Maximum number of phases of a task without any time passing.
const PHASES_AT_ONCE: u32 = 10_000;

/// The result of a phase.
enum Step {
    /// The next phase follows at once.
    Next,
    /// The phase takes time, or the CPU must select a task.
    Stop,
}

impl Kernel {
    /// The running task continues or begins.
    pub(super) fn go_on(&mut self, cpu: usize) {
        let curr = self.rqs[cpu].curr;
        if self.tasks[curr].work == 0 {
            self.next_phases(cpu);
        } else {
            self.arm_run_end(cpu);
            self.arm_exit(cpu);
        }
    }

    /// Sets the time at which the running task will have done its work.
    pub(super) fn arm_run_end(&mut self, cpu: usize) {
        let curr = self.rqs[cpu].curr;
        let rq = &mut self.rqs[cpu];
        rq.run_seq = rq.run_seq.wrapping_add(1);
        if self.is_idle_task(curr) {
            return;
        }
        let rq = &self.rqs[cpu];
        let left = self.tasks[curr].work;
        let end = rq.work_from.saturating_add(left.div_ceil(rq.speed));
        if end < crate::mix::FOREVER {
            self.events.push(end, Event::RunEnd { cpu: short(cpu), seq: rq.run_seq });
        }
    }

    /// Removes cancelled events if there are too many. Otherwise they stay in the heap until they
    /// are due.
    pub(super) fn forget_cancelled(&mut self) {
        if !self.events.are_many() {
            return;
        }
        let rqs = &self.rqs;
        self.events.retain(|event| match event {
            Event::RunEnd { cpu, seq } => rqs[cpu as usize].run_seq == seq,
            Event::VmExit { cpu, seq } => rqs[cpu as usize].exit_seq == seq,
            _ => true,
        });
    }

    pub(super) fn run_end(&mut self, cpu: usize, seq: u32) {
        if self.rqs[cpu].run_seq != seq {
            return;
        }
        self.this_cpu = cpu;
        self.update_curr(cpu);
        self.go_on(cpu);
    }

    /// Executes phases of the running task, until one takes time.
    fn next_phases(&mut self, cpu: usize) {
        let curr = self.rqs[cpu].curr;
        for _ in 0..PHASES_AT_ONCE {
            if self.tasks[curr].state != State::Runnable || self.rqs[cpu].curr != curr {
                return;
            }
            let step = match &mut self.tasks[curr].program {
                Program::Idle => return,
                Program::Guest(_) => self.guest_goes_on(cpu, curr),
                Program::Phases { phases, next } => {
                    let phase = phases[*next];
                    *next = (*next + 1) % phases.len();
                    self.phase(cpu, curr, phase)
                }
            };
            if matches!(step, Step::Stop) {
                return;
            }
            if self.tasks[curr].work > 0 {
                self.arm_run_end(cpu);
                self.arm_exit(cpu);
                return;
            }
        }
        let name = Rc::clone(&self.tasks[curr].name);
        self.fault(format!("{name} does not let time pass: {PHASES_AT_ONCE} phases at once"));
        self.stopped = true;
    }

    fn draw(&mut self, span: Span) -> u64 {
        if span.min_ns == span.max_ns {
            span.min_ns
        } else {
            self.rng.between(span.min_ns, span.max_ns)
        }
    }

    /// The running task waits for something, and the CPU must select another task.
    pub(super) fn block(&mut self, cpu: usize, task: TaskId) {
        self.tasks[task].state = State::Sleeping;
        self.native.task(task).state.set(1); // TASK_INTERRUPTIBLE
        self.rqs[cpu].need_resched = true;
    }

    fn phase(&mut self, cpu: usize, task: TaskId, phase: Phase) -> Step {
        match phase {
            Phase::Run(span) => {
                let ns = self.draw(span);
                self.tasks[task].work = ns.saturating_mul(WORK_PER_NS);
                Step::Next
            }
            Phase::Sleep(span) => {
                let ns = self.draw(span);
                self.block(cpu, task);
                self.arm_timer(task, self.now + ns);
                Step::Stop
            }
            Phase::Period(ns) => {
                let start = self.tasks[task].start_ns;
                let next = start + ((self.now - start) / ns + 1) * ns;
                self.block(cpu, task);
                self.arm_timer(task, next);
                Step::Stop
            }
            Phase::Post { queue, sync } => {
                self.post(queue, sync);
                Step::Next
            }
            Phase::Wait(queue) => self.wait(cpu, task, queue),
            Phase::Spin { queue, to } => self.spin(cpu, task, queue, to),
            Phase::Lock(lock) => self.lock(cpu, task, lock),
            Phase::Unlock(lock) => {
                self.unlock(task, lock);
                Step::Next
            }
            Phase::Fork(kind) => {
                let name = self.mix.tasks[kind].name.as_str().into();
                self.fork_kind(kind, name);
                Step::Next
            }
            Phase::Yield => {
                if self.tasks[task].class() == super::Class::Normal {
                    let class = self.normal;
                    class.yield_task(self, cpu, task);
                }
                self.rqs[cpu].need_resched = true;
                Step::Stop
            }
            Phase::Exit => {
                self.exit_current(cpu);
                Step::Stop
            }
            Phase::MoveTo(group) => {
                self.move_task(task, group.map_or(0, |group| group + 1));
                Step::Next
            }
        }
    }

    fn post(&mut self, queue: usize, sync: bool) {
        match self.pipes[queue].waiters.pop_front() {
            Some(waiter) => {
                self.wake_up(waiter, sync);
            }
            None => self.pipes[queue].count += 1,
        }
    }

    fn wait(&mut self, cpu: usize, task: TaskId, queue: usize) -> Step {
        let pipe = &mut self.pipes[queue];
        if pipe.count > 0 {
            pipe.count -= 1;
            return Step::Next;
        }
        pipe.waiters.push_back(task);
        self.block(cpu, task);
        Step::Stop
    }

    /// Spins on a queue. The phase is repeated until the queue is not empty.
    fn spin(&mut self, cpu: usize, task: TaskId, queue: usize, to: usize) -> Step {
        let pipe = &mut self.pipes[queue];
        if pipe.count > 0 {
            pipe.count -= 1;
            self.tasks[task].spins = false;
            return Step::Next;
        }
        if let Program::Phases { phases, next } = &mut self.tasks[task].program {
            *next = (*next + phases.len() - 1) % phases.len();
        }
        // The task alternates between spinning and yielding.
        self.tasks[task].spins = !self.tasks[task].spins;
        if self.tasks[task].spins || !self.yields_to_one_of(cpu, task, to) {
            self.tasks[task].work = SPIN_NS * WORK_PER_NS;
            return Step::Next;
        }
        self.rqs[cpu].need_resched = true;
        Step::Stop
    }

    /// `yield_to()`: yields to a task of a kind that waits for a CPU. The search begins after the
    /// task to which this one last yielded.
    fn yields_to_one_of(&mut self, cpu: usize, task: TaskId, kind: usize) -> bool {
        let last = self.tasks[task].called;
        let waits = |id: &TaskId| {
            let one = &self.tasks[*id];
            one.kind == kind
                && *id != task
                && one.state == State::Runnable
                && self.rqs[one.cpu].curr != *id
                && matches!(one.program, Program::Phases { .. })
        };
        let (mut all, before): (Vec<TaskId>, Vec<TaskId>) =
            (self.machine.cpus..self.tasks.len()).filter(waits).partition(|id| *id > last);
        all.extend(before);
        all.into_iter().any(|to| {
            let yields = self.yield_to(cpu, task, to);
            self.tasks[task].called = if yields { to } else { last };
            yields
        })
    }

    fn yield_to(&mut self, cpu: usize, task: TaskId, to: TaskId) -> bool {
        let (there, class) = (self.tasks[to].cpu, self.normal);
        let both = [task, to].map(|id| self.tasks[id].class());
        if both != [super::Class::Normal; 2] || (there != cpu && !self.try_lock_rq(there)) {
            return false;
        }
        // The task may have moved before its run queue was locked.
        let yields = self.tasks[to].cpu == there
            && self.rqs[there].curr != to
            && self.tasks[to].state == State::Runnable
            && class.yield_to(self, cpu, task, to);
        if there != cpu {
            if yields {
                self.resched_curr(there);
            }
            self.unlock_rq(there);
        }
        yields
    }

    fn lock(&mut self, cpu: usize, task: TaskId, lock: usize) -> Step {
        let mutex = &mut self.locks[lock];
        if mutex.owner.is_none() {
            mutex.owner = Some(task);
            return Step::Next;
        }
        mutex.waiters.push_back(task);
        self.block(cpu, task);
        Step::Stop
    }

    fn unlock(&mut self, task: TaskId, lock: usize) {
        let mutex = &mut self.locks[lock];
        if mutex.owner != Some(task) {
            return;
        }
        mutex.owner = mutex.waiters.pop_front();
        if let Some(next) = mutex.owner {
            self.wake_up(next, false);
        }
    }

    /// Executes a guest's step (kernel/guest.rs).
    fn guest_goes_on(&mut self, cpu: usize, task: TaskId) -> Step {
        if self.guest_step(cpu, task) { Step::Next } else { Step::Stop }
    }
}
