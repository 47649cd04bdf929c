// SPDX-License-Identifier: GPL-2.0-only
//! `paracord-sim run`.

use std::process::ExitCode;

use paracord_sim::mix::Mix;

use super::args::{Files, RunArgs};
use super::drive::drive;
use super::exit::{self, Failure};
use super::interrupt::Interrupt;
use super::output::{Output, print};
use super::progress::Progress;
use crate::report::{Finished, results, table};
use crate::trace::Trace;

/// Runs a mix.
///
/// # Errors
/// A bad mix, a file that cannot be written, or not enough memory.
pub fn run(args: &RunArgs) -> Result<ExitCode, Failure> {
    let mut mix = args.source.load()?;
    mix.scheduler = args.scheduler.map_or(mix.scheduler, |word| word.scheduler());
    let name = args.source.name();
    let outputs = Outputs::open(&args.files, &name)?;
    let interrupt = Interrupt::new()?;
    let observer = outputs.trace.as_ref().map(|trace| trace.observer(&mix, None));
    let mut progress = Progress::new("");
    let finished = drive(&mix, args.races, observer, &interrupt, &mut progress)?;
    drop(progress);
    let text = table::table(&name, &finished);
    outputs.write(&name, &mix, std::slice::from_ref(&finished), &text)?;
    Ok(exit::code(!finished.outcome.faults.is_empty(), finished.is_interrupted()))
}

/// The files and streams to which results are written.
pub struct Outputs {
    /// The trace.
    pub trace: Option<Trace<Output>>,
    json: Vec<Output>,
    json_to_stdout: bool,
    mix: Option<Output>,
}

impl Outputs {
    /// Opens all files.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn open(files: &Files, name: &str) -> Result<Self, Failure> {
        let json_to_stdout = files.json_to_stdout();
        let mut json = Vec::new();
        if let Some(path) = files.json.as_deref().filter(|_| !json_to_stdout) {
            json.push(Output::create(path)?);
        }
        let mut mix = None;
        if let Some(directory) = &files.out {
            json.push(Output::create_in(directory, "results.json")?);
            mix = Some(Output::create_in(directory, &format!("{name}.mix"))?);
        }
        let trace = files.trace.as_deref().map(Output::create).transpose()?;
        Ok(Self { trace: trace.map(Trace::new), json, json_to_stdout, mix })
    }

    /// Writes the results of the runs, with one run per scheduler.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(
        self,
        name: &str,
        mix: &Mix,
        runs: &[Finished],
        table: &str,
    ) -> Result<(), Failure> {
        if let Some(trace) = self.trace {
            let (output, written) = trace.close();
            written.map_err(|e| output.failure(&e))?;
            output.finish()?;
        }
        let json = results::json(name, runs);
        for output in self.json {
            output.write_whole(&json)?;
        }
        if let Some(output) = self.mix {
            output.write_whole(&mix.to_string())?;
        }
        print(if self.json_to_stdout { &json } else { table })
    }
}
