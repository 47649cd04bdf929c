// SPDX-License-Identifier: GPL-2.0-only
//! The simulated kernel: tasks, run queues, switches, wakeups, ticks, timers, real-time tasks,
//! hotplug. The class of ordinary tasks is a parameter ([`SchedClass`]). Functions have the names
//! that they have in kernel/sched/core.c.

mod change;
pub mod class;
mod clock;
mod core_sched;
mod cores;
pub mod events;
pub mod ext_state;
pub mod fair_state;
mod guest;
mod hotplug;
mod life;
mod observer;
mod placement;
mod planted;
mod program;
mod races;
pub mod rq;
mod rt;
mod server;
mod switch;
pub mod task;
mod tick;
mod under_way;
mod vcpu;
mod wake;

use std::{io, rc::Rc};

pub use class::{Enqueue, GroupChange, SchedClass, Wake};
pub use events::{Event, Events};
pub use guest::record_of;
pub use observer::{Observer, Place};
pub use placement::{Placement, Waits};
pub use planted::Planted;
pub use rq::Rq;
pub use task::{Account, Class, Program, State, Task};
pub use vcpu::Vcpu;

use crate::{
    bpf::{self, At, GroupId, Native, TaskId},
    machine::{CpuSet, Machine},
    mix::{Mix, Quota},
    rng::Rng,
    time::Ns,
};

/// Minimum time from one selection of a task to another one that the first has requested. It is the
/// time of an interrupt.
const LOOK_AGAIN_NS: Ns = 100;
/// Maximum number of events without any time passing.
const EVENTS_AT_ONCE: u64 = 10_000_000;

/// A control group.
#[derive(Clone, Debug)]
pub struct Group {
    /// The path; empty for the root group.
    pub path: String,
    /// The parent. The root group is its own parent.
    pub parent: GroupId,
    /// Depth of the group. 0: the root group.
    pub level: usize,
    /// `cpu.weight`.
    pub weight: u32,
    /// `cpu.max`.
    pub quota: Option<Quota>,
    /// When the group last lost its quota.
    pub unlimited_since: Ns,
    /// `cpu.idle`.
    pub idle: bool,
}

/// A counter with which tasks wake each other.
#[derive(Default)]
pub struct Pipe {
    count: u64,
    waiters: std::collections::VecDeque<TaskId>,
}

/// A mutex.
#[derive(Default)]
pub struct Mutex {
    owner: Option<TaskId>,
    waiters: std::collections::VecDeque<TaskId>,
}

/// A violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// When it happened.
    pub at_ns: Ns,
    /// What happened, in one line.
    pub what: String,
}

/// The words of a fault that are neither names nor numbers.
fn words(fault: &str) -> impl Iterator<Item = &str> {
    fault.split(' ').filter(|word| word.bytes().all(|c| c.is_ascii_lowercase()))
}

/// The simulated kernel and its machine.
pub struct Kernel {
    /// The mix that runs.
    pub mix: Rc<Mix>,
    /// The machine.
    pub machine: Machine,
    /// Simulated time.
    pub now: Ns,
    /// Future events.
    pub events: Events,
    /// The source of all random numbers.
    pub rng: Rng,
    /// Tasks by number. The first ones are the idle tasks of the CPUs.
    pub tasks: Vec<Task>,
    /// Statistics about where tasks were put.
    pub placement: Placement,
    /// Run queues by CPU.
    pub rqs: Vec<Rq>,
    /// Groups by number. 0: the root group.
    pub groups: Vec<Group>,
    /// CPUs on which tasks may run.
    pub active: CpuSet,
    /// CPUs on which real-time tasks wait (`rd->rto_mask`).
    rt_overloaded: CpuSet,
    /// The class of ordinary tasks.
    pub normal: &'static dyn SchedClass,
    /// Whether paracord's sensor programs run.
    pub sensed: bool,
    /// The state of core scheduling.
    cores: cores::Cores,
    /// The state of the ext class.
    pub ext: ext_state::Ext,
    /// The state of the fair class.
    pub fair: fair_state::Fair,
    /// The objects that the natively compiled programs see.
    pub native: Native,
    /// The CPU that handles the present event.
    pub this_cpu: usize,
    /// The faults so far.
    pub faults: Vec<Fault>,
    /// Whether the run has been stopped.
    pub stopped: bool,
    /// The observer that is told what happens.
    pub observer: Option<Box<dyn Observer>>,
    /// Tasks that have ended: name, kind and account.
    pub ended: Vec<(Rc<str>, usize, Account)>,
    pipes: Vec<Pipe>,
    locks: Vec<Mutex>,
    /// Maximum number of tasks at the same time, including the CPUs' idle tasks.
    pub tasks_max: usize,
    free_tasks: std::collections::VecDeque<TaskId>,
    next_pid: i32,
    daemon_due: bool,
    races: Option<Box<under_way::Races<Kernel>>>,
    /// Faults that a test has planted.
    pub planted: Planted,
    /// Number of events before the present time.
    instant: u64,
}

impl Kernel {
    /// Makes a machine for a mix, at time 0.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn new(mix: Rc<Mix>, normal: &'static dyn SchedClass, sensed: bool) -> io::Result<Self> {
        let machine = mix.machine.clone();
        let native = Native::new(machine.cpus, mix.kernel)?;
        let root = Group {
            path: String::new(),
            parent: 0,
            level: 0,
            weight: 100,
            quota: None,
            unlimited_since: 0,
            idle: false,
        };
        let mut groups = vec![root];
        for group in &mix.groups {
            let parent = group.parent.map_or(0, |parent| parent + 1);
            groups.push(Group {
                path: group.path.clone(),
                parent,
                level: groups[parent].level + 1,
                weight: group.weight,
                quota: group.quota,
                unlimited_since: 0,
                idle: group.idle,
            });
        }
        let placement = Placement::new(&machine, mix.tasks.len() + mix.vms.len());
        let rqs =
            (0..machine.cpus).map(|cpu| Rq::new(cpu, u64::from(machine.capacities[cpu]))).collect();
        Ok(Self {
            now: 0,
            events: Events::default(),
            rng: Rng::new(mix.seed),
            tasks: Vec::new(),
            rqs,
            groups,
            active: CpuSet::first(machine.cpus),
            rt_overloaded: CpuSet::EMPTY,
            normal,
            sensed,
            cores: cores::Cores::default(),
            ext: ext_state::Ext::default(),
            fair: fair_state::Fair::default(),
            native,
            this_cpu: 0,
            faults: Vec::new(),
            stopped: false,
            observer: None,
            ended: Vec::new(),
            pipes: mix.queues.iter().map(|_| Pipe::default()).collect(),
            locks: mix.locks.iter().map(|_| Mutex::default()).collect(),
            tasks_max: bpf::TASKS_MAX,
            free_tasks: std::collections::VecDeque::new(),
            next_pid: 1000,
            daemon_due: false,
            races: None,
            placement,
            planted: Planted::default(),
            instant: 0,
            machine,
            mix,
        })
    }

    /// Starts the machine: idle tasks, the class, and the first events of the mix. Call it in
    /// place.
    pub fn begin(&mut self) {
        for cpu in 0..self.machine.cpus {
            self.native.begin_rq(cpu);
            self.make_idle_task(cpu);
        }
        for group in 0..self.groups.len() {
            let level = i32::try_from(self.groups[group].level).unwrap_or(i32::MAX);
            let object = self.native.group(group);
            object.level.set(level);
            object.task_group.idle.set(self.groups[group].idle.into());
            self.native.set_quota(group, self.groups[group].quota);
            let above = (group != 0).then(|| self.native.group(self.groups[group].parent));
            let parent = above.map_or(std::ptr::null(), |above| &raw const above.task_group);
            object.task_group.parent.set(parent);
        }
        self.begin_cores();
        let class = self.normal;
        class.begin(self);
        let mix = Rc::clone(&self.mix);
        self.events.push(mix.warmup_ns, Event::Warmup);
        for (kind, task) in (0..).zip(&mix.tasks) {
            if !task.template {
                self.events.push(task.start_ns, Event::Start { kind });
            }
        }
        for kind in 0..mix.vms.len() {
            self.events.push(0, Event::StartVm { kind: events::short(kind) });
        }
        for (irq, each) in (0..).zip(&mix.irqs) {
            self.events.push(each.every_ns, Event::Irq { irq });
        }
        for (change, timed) in (0..).zip(&mix.changes) {
            self.events.push(timed.at_ns, Event::Change { change });
        }
    }

    /// Runs the machine up to a time. Call it in place. Returns early if the run was stopped.
    /// Dividing a run into steps does not change its result.
    pub fn run_until(&mut self, until: Ns) {
        while self.races.is_some() && !self.stopped {
            if !self.race_on(until) {
                break;
            }
        }
        while !self.stopped {
            match self.events.next_ns() {
                Some(at) if at <= until => {}
                _ => break,
            }
            let Some((at, event)) = self.events.pop() else { break };
            if at > self.now {
                self.instant = self.events.taken();
            } else if self.events.taken() - self.instant > EVENTS_AT_ONCE {
                self.fault(format!("time does not pass: {EVENTS_AT_ONCE} events at once"));
                self.stopped = true;
            }
            self.now = at;
            self.handle(event);
            self.finish();
            self.forget_cancelled();
        }
        if !self.stopped {
            self.now = until;
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::RunEnd { cpu, seq } => self.run_end(cpu as usize, seq),
            Event::Tick { cpu, seq } => self.tick(cpu as usize, seq),
            Event::Resched { cpu } => self.resched_arrives(cpu as usize),
            Event::Timer { task, seq } => self.timer_fires(task as usize, seq),
            Event::VmExit { cpu, seq } => self.vm_exit(cpu as usize, seq),
            Event::BpfTimer { timer, seq } => self.bpf_timer(timer as usize, seq),
            Event::Server { cpu, seq } => self.server_fires(cpu as usize, seq),
            Event::Irq { irq } => self.irq(irq as usize),
            Event::Start { kind } => self.start_tasks(kind as usize),
            Event::StartVm { kind } => self.start_vms(kind as usize),
            Event::Change { change } => self.change(change as usize),
            Event::Daemon => self.daemon(),
            Event::Warmup => self.warmup_ends(),
            Event::Hrtick { cpu, seq } => self.hrtick(cpu as usize, seq),
            Event::Watchdog | Event::Period { .. } | Event::Slack { .. } => {
                let class = self.normal;
                class.event(self, event);
            }
        }
    }

    /// The CPU of the event leaves the kernel. It selects a task if it must, and does the work that
    /// had to wait for its lock.
    fn finish(&mut self) {
        let cpu = self.this_cpu;
        let class = self.normal;
        class.unlocked(self, cpu);
        if self.rqs[cpu].need_resched && self.now >= self.rqs[cpu].switch_until && !self.stopped {
            self.lock_rq(cpu);
            self.schedule(cpu);
            self.unlock_rq(cpu);
            class.unlocked(self, cpu);
        }
        let rq = &mut self.rqs[cpu];
        if rq.need_resched && !rq.resched_sent {
            // A switch is still in progress, or the selection of a task has requested another
            // selection. The interrupt comes when the switch is complete.
            rq.resched_sent = true;
            let at = rq.switch_until.max(self.now + LOOK_AGAIN_NS);
            self.events.push(at, Event::Resched { cpu: events::short(cpu) });
        }
    }

    /// Where an operation runs now: the CPU, the time and the running task.
    #[must_use]
    pub fn at(&self) -> At {
        At { cpu: self.this_cpu, now_ns: self.now, current: self.rqs[self.this_cpu].curr }
    }

    /// Records a fault. Faults that differ only in numbers and names are recorded only a few times.
    pub fn fault(&mut self, what: String) {
        const FAULTS_MAX: usize = 64;
        const ALIKE_MAX: usize = 4;
        let alike = self.faults.iter().filter(|fault| words(&fault.what).eq(words(&what))).count();
        if self.faults.len() < FAULTS_MAX && alike < ALIKE_MAX {
            self.faults.push(Fault { at_ns: self.now, what });
        }
    }

    /// Tells the observer, if there is one.
    pub fn observe(&mut self, tell: impl FnOnce(&mut dyn Observer, &Self)) {
        if let Some(mut observer) = self.observer.take() {
            tell(&mut *observer, self);
            self.observer = Some(observer);
        }
    }

    /// What a task has used so far, including the time since it last began to run.
    #[must_use]
    pub fn account(&self, id: TaskId) -> Account {
        let task = &self.tasks[id];
        let mut account = task.measured();
        if self.rqs[task.cpu].curr == id {
            account.ran_ns += self.now.saturating_sub(self.rqs[task.cpu].exec_start);
        }
        if let Some(since) = task.queued_since {
            account.longest_wait_ns = account.longest_wait_ns.max(self.now - since);
        }
        account
    }

    /// The statistics about where tasks were put, up to now.
    #[must_use]
    pub fn placement_now(&self) -> Placement {
        let mut placement = self.placement.clone();
        placement.up_to(self.now);
        placement
    }

    /// Whether a task is the idle task of a CPU.
    #[must_use]
    pub fn is_idle_task(&self, task: TaskId) -> bool {
        task < self.machine.cpus
    }
}
