// SPDX-License-Identifier: GPL-2.0-only
//! What a run came to, as tables and as results.json.

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

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// At its end.
    Complete,
    /// By a fault.
    Stopped,
    /// By the user.
    Interrupted,
}

/// A run that is over.
pub struct Finished {
    /// What came of it.
    pub outcome: Outcome,
    /// Simulated time when it ended.
    pub reached_ns: Ns,
    /// How it ended.
    pub end: End,
    /// Who scheduled.
    pub scheduler: Scheduler,
    /// What all tasks of a kind together had, in the mix's order.
    pub kinds: Vec<KindSum>,
    /// Time over which shares are measured.
    pub measured_ns: Ns,
    /// Title of its tables, without its end: machine, kernel, seed.
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
        // What ended within its warm-up has measured all of it.
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

    /// Whether the user ended it.
    pub fn is_interrupted(&self) -> bool {
        self.end == End::Interrupted
    }

    /// Its faults, a line for each kind of them.
    pub fn fault_lines(&self) -> Vec<String> {
        self.names.lines(&self.outcome.faults)
    }

    /// Running time as a share of a CPU.
    pub fn share(&self, ran_ns: Ns) -> f64 {
        as_f64(ran_ns) / as_f64(self.measured_ns.max(1))
    }

    /// How long it ran, and what that leaves out.
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

/// Whole numbers of a run are far below 2^53.
#[allow(clippy::cast_precision_loss, reason = "an hour is 3.6e12 ns")]
fn as_f64(number: u64) -> f64 {
    number as f64
}

/// A scheduler's word.
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

/// A machine and what runs on it, in a few words.
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
