// SPDX-License-Identifier: GPL-2.0-only
//! The results of a run, as tables and as results.json.

pub mod columns;
mod faults;
mod kinds;
pub mod plan;
pub mod results;
pub mod table;
pub mod units;
pub mod versus;

use std::fmt::Display;

use paracord_sim::machine::Machine;
use paracord_sim::mix::{KernelVersion, Mix, Scheduler};
use paracord_sim::run::Outcome;
use paracord_sim::time::Ns;

pub use faults::{Names, fault_line};
pub use kinds::KindSum;

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It reached its end.
    Complete,
    /// A fault stopped it.
    Stopped,
    /// The user interrupted it.
    Interrupted,
}

/// A run that has ended.
pub struct Finished {
    /// Results of the run.
    pub outcome: Outcome,
    /// Simulated time when it ended.
    pub reached_ns: Ns,
    /// Why the run ended.
    pub end: End,
    /// The scheduler.
    pub scheduler: Scheduler,
    /// The sums over all tasks of each kind, in the order of the mix.
    pub kinds: Vec<KindSum>,
    /// Length of the time in which shares are measured.
    pub measured_ns: Ns,
    /// The first part of the title of the tables: machine, kernel, seed.
    about: String,
    names: Names,
    machine: Machine,
    kernel: KernelVersion,
    run_ns: Ns,
    warmup_ns: Ns,
}

impl Finished {
    /// Sums up a run.
    pub fn new(mix: &Mix, outcome: Outcome, reached_ns: Ns, end: End) -> Self {
        // If the run ended during its warm-up, shares are measured over the whole run.
        let over = mix.warmup_ns < reached_ns;
        let measured_ns = if over { reached_ns - mix.warmup_ns } else { reached_ns };
        let kinds = kinds::sums(mix, &outcome);
        let about = format!("{}, kernel {}, seed {}", size(mix), version(mix.kernel), mix.seed);
        Self {
            outcome,
            reached_ns,
            end,
            scheduler: mix.scheduler,
            kinds,
            measured_ns,
            about,
            names: Names::of(mix),
            machine: mix.machine.clone(),
            kernel: mix.kernel,
            run_ns: mix.run_ns,
            warmup_ns: mix.warmup_ns,
        }
    }

    /// Whether the user interrupted the run.
    pub fn is_interrupted(&self) -> bool {
        self.end == End::Interrupted
    }

    /// The faults, with one line for each kind of fault.
    pub fn fault_lines(&self) -> Vec<String> {
        self.names.lines(&self.outcome.faults)
    }

    /// Running time as a share of a CPU.
    pub fn share(&self, ran_ns: Ns) -> f64 {
        as_f64(ran_ns) / as_f64(self.measured_ns.max(1))
    }

    /// The length of the run, and the part of it that is not measured.
    fn length(&self) -> String {
        let (reached, run) = (units::seconds(self.reached_ns), units::seconds(self.run_ns));
        match self.end {
            End::Complete if self.warmup_ns == 0 => run,
            End::Complete => format!("{run}, shares from {} on", units::seconds(self.warmup_ns)),
            End::Stopped => format!("stopped by a fault at {reached} of {run}"),
            End::Interrupted => format!("PARTIAL, interrupted at {reached} of {run}"),
        }
    }
}

/// Whole numbers in a run are far below 2^53, so the conversion is exact.
#[allow(clippy::cast_precision_loss, reason = "an hour is 3.6e12 ns")]
fn as_f64(number: u64) -> f64 {
    number as f64
}

/// The name of a scheduler.
pub fn scheduler_word(scheduler: Scheduler) -> &'static str {
    match scheduler {
        Scheduler::Ext => "ext",
        Scheduler::Stock => "stock",
    }
}

fn version(kernel: KernelVersion) -> &'static str {
    match kernel {
        KernelVersion::V6_12 => "6.12",
        KernelVersion::V7_3 => "7.3",
    }
}

/// A machine, and the number of tasks and vCPUs on it, in a few words.
pub fn size(mix: &Mix) -> String {
    let tasks: u64 = mix.tasks.iter().map(|task| u64::from(task.count)).sum();
    let vcpus: u64 = mix.vms.iter().map(|vm| u64::from(vm.count) * u64::from(vm.vcpus)).sum();
    let mut text = format!("{}, {}", plural(mix.machine.cpus, "CPU"), plural(tasks, "task"));
    if vcpus > 0 {
        text.push_str(&format!(", {}", plural(vcpus, "vCPU")));
    }
    text
}

/// `1 task`, `2 tasks`.
pub fn plural(count: impl Display, noun: &str) -> String {
    let count = count.to_string();
    let ending = match (count.as_str(), noun.ends_with('x')) {
        ("1", _) => "",
        (_, true) => "es",
        _ => "s",
    };
    format!("{count} {noun}{ending}")
}
