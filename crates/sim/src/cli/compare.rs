// SPDX-License-Identifier: GPL-2.0-only
//! `paracord-sim compare`.

use std::process::ExitCode;

use paracord_sim::mix::Scheduler;

use super::args::CompareArgs;
use super::drive::drive;
use super::exit::{self, Failure};
use super::interrupt::Interrupt;
use super::progress::Progress;
use super::run::Outputs;
use crate::report::{scheduler_word, versus};

/// Runs a mix under one scheduler, then under the other.
///
/// # Errors
/// A bad mix, a file that cannot be written, or not enough memory.
pub fn compare(args: &CompareArgs) -> Result<ExitCode, Failure> {
    let mut mix = args.source.load()?;
    let name = args.source.name();
    let outputs = Outputs::open(&args.files, &name)?;
    let interrupt = Interrupt::new()?;
    let mut runs = Vec::new();
    for scheduler in [Scheduler::Ext, Scheduler::Stock] {
        mix.scheduler = scheduler;
        let word = scheduler_word(scheduler);
        let observer = outputs.trace.as_ref().map(|trace| trace.observer(&mix, Some(word)));
        let mut progress = Progress::new(format!("{word}: "));
        runs.push(drive(&mix, false, observer, &interrupt, &mut progress)?);
    }
    mix.scheduler = Scheduler::Ext;
    let text = versus::table(&name, &runs[0], &runs[1]);
    outputs.write(&name, &mix, &runs, &text)?;
    let faults = runs.iter().any(|run| !run.outcome.faults.is_empty());
    Ok(exit::code(faults, interrupt.raised()))
}
