// SPDX-License-Identifier: GPL-2.0-only
//! A run of a mix, from the mix to what each task got.

use std::{io, rc::Rc};

use crate::{
    check, ext, fair,
    kernel::{Account, Fault, Kernel, Placement, Program, SchedClass, State},
    mix::{Mix, Scheduler},
    time::Ns,
};

/// What a task got of the machine, after the warm-up.
#[derive(Clone, Debug)]
pub struct Had {
    /// Name of the task.
    pub name: Rc<str>,
    /// Kind of the task.
    pub kind: Kind,
    /// Whether the task has ended.
    pub ended: bool,
    /// Measurements of the task.
    pub account: Account,
    /// Only for vCPUs: times from the timer until the vCPU runs, the average and the maximum.
    pub latency_ns: Option<(Ns, Ns)>,
}

/// The kind of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Index into [`Mix::tasks`].
    Task(usize),
    /// Index into [`Mix::vms`].
    Vm(usize),
}

/// The results of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// All tasks, including those that have ended, in the order of their numbers.
    pub tasks: Vec<Had>,
    /// Statistics about where tasks were put.
    pub placement: Placement,
    /// Violations of rules.
    pub faults: Vec<Fault>,
    /// Length of the time in which shares are measured.
    pub measured_ns: Ns,
    /// Number of events that were handled.
    pub events: u64,
}

/// A simulated machine that runs a mix.
pub struct Simulation {
    kernel: Kernel,
    begun: bool,
    seen: check::Seen,
}

impl Simulation {
    /// Makes a machine at time 0.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn new(mix: Mix) -> io::Result<Self> {
        let class: &'static dyn SchedClass = match mix.scheduler {
            Scheduler::Ext => &ext::EXT,
            Scheduler::Stock => &fair::FAIR,
        };
        let sensed = mix.scheduler == Scheduler::Ext;
        Ok(Self {
            kernel: Kernel::new(Rc::new(mix), class, sensed)?,
            begun: false,
            seen: check::Seen::default(),
        })
    }

    /// Calls `look` on the machine, which may read or change it, while the machine is in place.
    pub fn with<R>(&mut self, look: impl FnOnce(&mut Kernel) -> R) -> R {
        let running = self.kernel.native.enter();
        if !self.begun {
            self.begun = true;
            self.kernel.begin();
        }
        let result = look(&mut self.kernel);
        self.kernel.native.leave(running);
        result
    }

    /// Runs the machine up to a time.
    pub fn run_until(&mut self, until: Ns) {
        let mut seen = std::mem::take(&mut self.seen);
        self.with(|kernel| {
            let seen = &mut seen;
            while kernel.now < until && !kernel.stopped {
                // Checks are made at multiples of an interval, whatever the steps of the run are.
                let next = (kernel.now / check::EVERY_NS + 1) * check::EVERY_NS;
                kernel.run_until(next.min(until));
                if kernel.now == next {
                    check::look(kernel, seen);
                }
            }
        });
        self.seen = seen;
    }

    /// The run has reached its end. Makes the checks for the end of a run.
    pub fn end(&mut self) {
        self.with(check::look_at_end);
    }

    /// Whether the run has ended early.
    #[must_use]
    pub fn stopped(&self) -> bool {
        self.kernel.stopped
    }

    /// The results so far.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let k = &self.kernel;
        let mut tasks = Vec::new();
        for (id, task) in k.tasks.iter().enumerate().filter(|(_, task)| task.state != State::Dead) {
            let (kind, latency_ns) = match &task.program {
                Program::Idle => continue,
                Program::Phases { .. } => (Kind::Task(task.kind), None),
                Program::Guest(vcpu) => {
                    let (sum, count, longest) = vcpu.latency;
                    (Kind::Vm(task.kind), sum.checked_div(count).map(|average| (average, longest)))
                }
            };
            tasks.push(Had {
                name: Rc::clone(&task.name),
                kind,
                ended: false,
                account: k.account(id),
                latency_ns,
            });
        }
        for (name, kind, account) in &k.ended {
            tasks.push(Had {
                name: Rc::clone(name),
                kind: Kind::Task(*kind),
                ended: true,
                account: *account,
                latency_ns: None,
            });
        }
        Outcome {
            tasks,
            placement: k.placement_now(),
            faults: k.faults.clone(),
            measured_ns: k.now.saturating_sub(k.mix.warmup_ns),
            events: k.events.taken(),
        }
    }
}

/// Runs a mix from its beginning to its end.
///
/// # Errors
/// There is not enough memory.
pub fn run(mix: Mix) -> io::Result<Outcome> {
    let until = mix.run_ns;
    let mut simulation = Simulation::new(mix)?;
    simulation.run_until(until);
    simulation.end();
    Ok(simulation.outcome())
}

impl Outcome {
    /// CPU share of all tasks of a kind together, in thousandths of a CPU.
    #[must_use]
    pub fn permille(&self, kind: Kind) -> u64 {
        let ran: Ns =
            self.tasks.iter().filter(|had| had.kind == kind).map(|had| had.account.ran_ns).sum();
        ran * 1000 / self.measured_ns.max(1)
    }
}
