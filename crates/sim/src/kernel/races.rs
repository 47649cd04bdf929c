// SPDX-License-Identifier: GPL-2.0-only
//! Races. The handling of an event may be paused at every helper, kfunc and atomic operation, and
//! events of other CPUs are handled in between. The seed decides when. A CPU that needs a run
//! queue's lock waits until the owner releases it.

use super::{
    Event, Kernel,
    under_way::{Races, UnderWay},
};
use crate::{
    bpf::{Fiber, Pause, TaskId},
    time::Ns,
};

/// Events whose times differ by at most this much may overlap.
const OVERLAP_NS: Ns = 5_000;
/// The handling is paused at this many per mille of the points.
const LEFT_PERMILLE: u64 = 100;

impl Kernel {
    /// From now on, operations of several CPUs may overlap.
    pub fn race(&mut self) {
        self.native.watched = true;
        self.races = Some(Box::new(Races::new(self.machine.cpus)));
    }

    /// The index of the lock of a CPU's run queue. With core scheduling, CPUs of a core share one
    /// lock.
    fn lock_of(&self, cpu: usize) -> usize {
        if self.has_cookies() { self.machine.core_cpus(cpu).start } else { cpu }
    }

    /// Whether two CPUs' run queues have the same lock.
    #[must_use]
    pub fn share_lock(&self, one: usize, other: usize) -> bool {
        self.lock_of(one) == self.lock_of(other)
    }

    /// `raw_spin_rq_lock()`.
    pub fn lock_rq(&mut self, cpu: usize) {
        let lock = self.lock_of(cpu);
        // After a pause, the state is read again, because other CPUs have continued.
        self.race_point();
        while let Some(races) = &mut self.races {
            let running = races.running;
            match &mut races.locks[lock] {
                Some((owner, depth)) if *owner == running => {
                    *depth += 1;
                    return;
                }
                Some(_) => crate::bpf::pause(self, Pause::Lock(lock)),
                free => {
                    *free = Some((running, 1));
                    return;
                }
            }
        }
    }

    /// Whether the present handler holds the run queue's lock.
    #[must_use]
    pub fn holds_rq(&self, cpu: usize) -> bool {
        let lock = self.lock_of(cpu);
        let holds = |races: &Races<Kernel>| {
            races.locks[lock].is_some_and(|(owner, _)| owner == races.running)
        };
        self.races.as_deref().is_some_and(holds)
    }

    /// `lockdep_assert_rq_held()`. Without races, no lock is needed.
    pub fn assert_rq_held(&mut self, cpu: usize) {
        let overlaps = self.races.as_deref().is_some_and(|races| races.running != 0);
        if overlaps && !self.holds_rq(cpu) {
            self.fault(format!("simulator: the run queue of CPU {cpu} is changed, and not locked"));
        }
    }

    /// `raw_spin_rq_trylock()` for the run queue of another CPU.
    pub fn try_lock_rq(&mut self, cpu: usize) -> bool {
        let lock = self.lock_of(cpu);
        let Some(races) = &mut self.races else { return true };
        if races.locks[lock].is_some() {
            return false;
        }
        races.locks[lock] = Some((races.running, 1));
        true
    }

    /// `raw_spin_rq_unlock()`.
    pub fn unlock_rq(&mut self, cpu: usize) {
        let lock = self.lock_of(cpu);
        let Some(races) = &mut self.races else { return };
        if let Some((_, depth)) = &mut races.locks[lock] {
            *depth -= 1;
            if *depth == 0 {
                races.locks[lock] = None;
            }
        }
    }

    /// `smp_cond_load_acquire(&p->on_cpu, !VAL)`: a task that has left its run queue may still be
    /// on its CPU.
    pub(super) fn wait_until_off_cpu(&mut self, task: TaskId) {
        let cpu = self.tasks[task].cpu;
        while self.races.is_some() && self.rqs[cpu].curr == task && cpu != self.this_cpu {
            crate::bpf::pause(self, Pause::OnCpu { cpu, task });
        }
    }

    /// Called at each helper, kfunc and atomic operation. Decides whether another CPU continues at
    /// this point.
    pub(crate) fn race_point(&mut self) {
        let Some(races) = &mut self.races else { return };
        races.points += 1;
        if self.rng.chance(LEFT_PERMILLE) {
            crate::bpf::pause(self, Pause::Point);
        }
    }

    /// Number of points so far at which another CPU could have continued.
    #[must_use]
    pub fn race_points(&self) -> u64 {
        self.races.as_deref().map_or(0, |races| races.points)
    }

    /// The CPU of an event. `None`: the event is handled while no other handling is in progress.
    fn cpu_of(&self, event: Event) -> Option<usize> {
        match event {
            Event::RunEnd { cpu, .. }
            | Event::Tick { cpu, .. }
            | Event::Resched { cpu }
            | Event::VmExit { cpu, .. } => Some(cpu as usize),
            // If the CPU is offline, the timer fires on another one.
            Event::Timer { task, .. } => {
                Some(self.tasks[task as usize].cpu).filter(|cpu| self.rqs[*cpu].active)
            }
            _ => None,
        }
    }

    /// Handles the next event, or continues a paused one. Returns false if there is nothing to do
    /// up to that time.
    pub(super) fn race_on(&mut self, until: Ns) -> bool {
        let next = self.events.next_ns().filter(|at| *at <= until);
        let left = self.races.as_ref().map_or(0, |races| races.under_way.len());
        let soon = next.is_some_and(|at| at <= self.now + OVERLAP_NS);
        if left > 0 && (!soon || self.rng.chance(300)) {
            return self.resume_one();
        }
        let Some((at, event)) = next.and_then(|_| self.events.pop()) else { return false };
        // A CPU handles one event at a time, and an event that concerns all CPUs is handled alone.
        // The CPU of a sleeping task may change in the meantime.
        while self.is_under_way(self.cpu_of(event)) {
            if !self.resume_one() {
                break;
            }
        }
        self.now = self.now.max(at);
        let Some(cpu) = self.cpu_of(event) else {
            self.handle(event);
            self.finish();
            return true;
        };
        let fiber = Fiber::new(move |k: &mut Self| {
            k.handle(event);
            k.finish();
        });
        let Some(races) = &mut self.races else { return false };
        races.made += 1;
        let number = races.made;
        races.under_way.push(UnderWay { number, cpu, this_cpu: cpu, left: Pause::Point, fiber });
        let last = races.under_way.len() - 1;
        self.resume(last);
        true
    }

    fn is_under_way(&self, cpu: Option<usize>) -> bool {
        let under_way = self.races.as_ref().map_or(&[][..], |races| &races.under_way);
        cpu.map_or(!under_way.is_empty(), |cpu| under_way.iter().any(|other| other.cpu == cpu))
    }

    /// Continues one of the paused handlers that wait for nothing.
    fn resume_one(&mut self) -> bool {
        let Some(races) = &self.races else { return false };
        let free = |under_way: &UnderWay<Kernel>| match under_way.left {
            Pause::Point => true,
            Pause::Lock(cpu) => races.locks[cpu].is_none(),
            Pause::OnCpu { cpu, task } => self.rqs[cpu].curr != task,
        };
        let ready: Vec<_> =
            (0..races.under_way.len()).filter(|i| free(&races.under_way[*i])).collect();
        if ready.is_empty() {
            self.fault("simulator: all CPUs wait for each other".into());
            self.stopped = true;
            return false;
        }
        let chosen = ready[self.rng.below(ready.len() as u64) as usize];
        self.resume(chosen);
        true
    }

    fn resume(&mut self, index: usize) {
        let Some(races) = &mut self.races else { return };
        let mut chosen = races.under_way.swap_remove(index);
        races.running = chosen.number;
        let outer = std::mem::replace(&mut self.this_cpu, chosen.this_cpu);
        let pause = chosen.fiber.resume(self);
        chosen.this_cpu = std::mem::replace(&mut self.this_cpu, outer);
        let Some(races) = &mut self.races else { return };
        races.running = 0;
        if let Some(pause) = pause {
            chosen.left = pause;
            races.under_way.push(chosen);
        }
    }
}
