// SPDX-License-Identifier: GPL-2.0-only
//! Races: the handling of an event may be left at every helper, kfunc and atomic, and events of other CPUs come
//! between. The seed decides. Whoever needs a run queue's lock waits for who has it.

use super::{
    Event, Kernel,
    under_way::{Races, UnderWay},
};
use crate::{
    bpf::{Fiber, Pause, TaskId},
    time::Ns,
};

/// How far apart in time events may be whose handling overlaps.
const OVERLAP_NS: Ns = 5_000;
/// Of points, how many thousandths are left.
const LEFT_PERMILLE: u64 = 100;

impl Kernel {
    /// Lets operations of several CPUs overlap from here on.
    pub fn race(&mut self) {
        self.native.watched = true;
        self.races = Some(Box::new(Races::new(self.machine.cpus)));
    }

    /// Where the lock of a CPU's run queue is: CPUs of a core that is shared by cookies have one.
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
        // After a pause everything is looked at anew: others have gone on.
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

    /// Whether the run queue's lock is held by what is handled now.
    #[must_use]
    pub fn holds_rq(&self, cpu: usize) -> bool {
        let lock = self.lock_of(cpu);
        let holds = |races: &Races<Kernel>| {
            races.locks[lock].is_some_and(|(owner, _)| owner == races.running)
        };
        self.races.as_deref().is_some_and(holds)
    }

    /// `lockdep_assert_rq_held()`. What is handled alone needs no lock.
    pub fn assert_rq_held(&mut self, cpu: usize) {
        let overlaps = self.races.as_deref().is_some_and(|races| races.running != 0);
        if overlaps && !self.holds_rq(cpu) {
            self.fault(format!("simulator: the run queue of CPU {cpu} is changed, and not locked"));
        }
    }

    /// `raw_spin_rq_trylock()`, of a run queue that is not this CPU's.
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

    /// `smp_cond_load_acquire(&p->on_cpu, !VAL)`: a task that has left its run queue may still be its CPU's.
    pub(super) fn wait_until_off_cpu(&mut self, task: TaskId) {
        let cpu = self.tasks[task].cpu;
        while self.races.is_some() && self.rqs[cpu].curr == task && cpu != self.this_cpu {
            crate::bpf::pause(self, Pause::OnCpu { cpu, task });
        }
    }

    /// A helper, kfunc or atomic: does another CPU go on here?
    pub(crate) fn race_point(&mut self) {
        let Some(races) = &mut self.races else { return };
        races.points += 1;
        if self.rng.chance(LEFT_PERMILLE) {
            crate::bpf::pause(self, Pause::Point);
        }
    }

    /// Points at which another CPU could have gone on, so far.
    #[must_use]
    pub fn race_points(&self) -> u64 {
        self.races.as_deref().map_or(0, |races| races.points)
    }

    /// The CPU whose event it is; `None`: it is handled while nothing else is under way.
    fn cpu_of(&self, event: Event) -> Option<usize> {
        match event {
            Event::RunEnd { cpu, .. }
            | Event::Tick { cpu, .. }
            | Event::Resched { cpu }
            | Event::VmExit { cpu, .. } => Some(cpu as usize),
            // Of a CPU that is gone it fires elsewhere.
            Event::Timer { task, .. } => {
                Some(self.tasks[task as usize].cpu).filter(|cpu| self.rqs[*cpu].active)
            }
            _ => None,
        }
    }

    /// The next event is handled, or what was left goes on. False: nothing is to be done up to that time.
    pub(super) fn race_on(&mut self, until: Ns) -> bool {
        let next = self.events.next_ns().filter(|at| *at <= until);
        let left = self.races.as_ref().map_or(0, |races| races.under_way.len());
        let soon = next.is_some_and(|at| at <= self.now + OVERLAP_NS);
        if left > 0 && (!soon || self.rng.chance(300)) {
            return self.resume_one();
        }
        let Some((at, event)) = next.and_then(|_| self.events.pop()) else { return false };
        // A CPU does one thing at a time; what concerns all is done alone. A sleeper's CPU may change meanwhile.
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

    /// One of those that were left goes on, one that waits for nobody.
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
