// SPDX-License-Identifier: GPL-2.0-only
//! `paracord-sim contract`.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use paracord_sim::mix::{Mix, Scheduler};
use serde_json::{Value, json};

use super::args::ContractArgs;
use super::drive::drive;
use super::exit::{self, Failure};
use super::interrupt::Interrupt;
use super::output::{self, Output};
use super::progress::Progress;
use crate::contract::{Both, CASES, Figure, Ran, Setting, played};
use crate::report::columns::{columns, row};

/// The figures of a case on a machine.
struct Said {
    case: &'static str,
    cpus: usize,
    figures: Vec<Figure>,
}

/// Measures all cases on all machines, and prints which keep their limits.
///
/// # Errors
/// An unknown case, a file that cannot be written, or not enough memory.
pub fn contract(args: &ContractArgs) -> Result<ExitCode, Failure> {
    let unknown = args.only.iter().find(|only| CASES.iter().all(|case| case.name != only.as_str()));
    if let Some(unknown) = unknown {
        let names: Vec<&str> = CASES.iter().map(|case| case.name).collect();
        let names = names.join(", ");
        return Err(Failure::new(format!("no case is called {unknown:?}: there are {names}")));
    }
    let json_to_stdout = args.json.as_deref() == Some(Path::new("-"));
    let file = args.json.as_deref().filter(|_| !json_to_stdout).map(Output::create).transpose()?;
    let interrupt = Interrupt::new()?;
    let mut said = Vec::new();
    for cpus in &args.cpus {
        let cpus = *cpus as usize;
        let setting = Setting::new(cpus, args.long, args.seed, args.seconds);
        for case in CASES
            .iter()
            .filter(|case| args.only.is_empty() || args.only.iter().any(|only| only == case.name))
        {
            let mut number = 0;
            let mut run = |text: &str| {
                number += 1;
                let name = format!("{}-{number}-{cpus}", case.name);
                match (&args.write, &args.played) {
                    (Some(directory), _) => write(directory, &name, text),
                    (None, Some(directory)) => read(directory, &name),
                    (None, None) => {
                        let label = format!("{} on {cpus} CPUs: ", case.name);
                        simulate(text, &label, &interrupt)
                    }
                }
            };
            let figures = (case.run)(&setting, &mut run);
            if interrupt.raised() {
                break;
            }
            said.push(Said { case: case.name, cpus, figures: figures? });
        }
    }
    if args.write.is_some() {
        return Ok(exit::code(false, interrupt.raised()));
    }
    let json = format!("{:#}\n", results(&said, interrupt.raised()));
    if let Some(file) = file {
        file.write_whole(&json)?;
    }
    let shown = if json_to_stdout { json } else { table(&said) };
    output::print(&shown)?;
    let fails = said.iter().flat_map(|said| &said.figures).any(|figure| !figure.passes());
    Ok(exit::code(fails, interrupt.raised()))
}

fn simulate(text: &str, label: &str, interrupt: &Interrupt) -> Result<Both, Failure> {
    let mut mix = Mix::parse("contract", text)?;
    let mut run = |scheduler| -> Result<Ran, Failure> {
        mix.scheduler = scheduler;
        Ok(drive(&mix, false, None, interrupt, &mut Progress::new(label))?.into())
    };
    let (ext, stock) = (run(Scheduler::Ext)?, run(Scheduler::Stock)?);
    Ok(Both { ext, stock })
}

/// Writes the mix to a file, so that the lab can play it. Nothing runs here, and no figures are
/// shown.
fn write(directory: &Path, name: &str, text: &str) -> Result<Both, Failure> {
    Output::create_in(directory, &format!("{name}.mix"))?.write_whole(text)?;
    let nothing = Ran { shares: Vec::new(), faults: None, placed: None };
    Ok(Both { ext: nothing.clone(), stock: nothing })
}

/// Reads the results of a mix that the lab has played.
fn read(directory: &Path, name: &str) -> Result<Both, Failure> {
    let of = |scheduler: &str| {
        let path = directory.join(format!("{name}.{scheduler}.json"));
        let failure = |why: String| Failure::new(format!("{}: {why}", path.display()));
        let said = fs::read_to_string(&path).map_err(|e| failure(e.to_string()))?;
        played(&said).map_err(failure)
    };
    Ok(Both { ext: of("ext")?, stock: of("stock")? })
}

fn table(said: &[Said]) -> String {
    let mut rows = vec![row(&["CASE", "CPUS", "EXT", "STOCK", "VALUE", "LIMIT", "VERDICT"])];
    let (mut passed, mut failed) = (0, 0);
    for Said { case, cpus, figures } in said {
        for figure in figures {
            let name = if figure.of.is_empty() {
                (*case).to_owned()
            } else {
                format!("{case}, {}", figure.of)
            };
            let limit = format!("{} {}", if figure.at_most { "<=" } else { ">=" }, figure.limit);
            let number = |number: f64| format!("{number:.3}");
            let verdict = if figure.passes() { "pass" } else { "FAIL" };
            *if figure.passes() { &mut passed } else { &mut failed } += 1;
            rows.push(vec![
                name,
                cpus.to_string(),
                number(figure.ext),
                number(figure.stock),
                number(figure.value),
                limit,
                verdict.to_owned(),
            ]);
        }
    }
    format!("{}\n{passed} passed, {failed} failed\n", columns(&rows))
}

/// The verdicts in the lab's schema.
fn results(said: &[Said], partial: bool) -> Value {
    let mut verdicts = Vec::new();
    for Said { case, cpus, figures } in said {
        for figure in figures {
            let of = if figure.of.is_empty() { String::new() } else { format!(" ({})", figure.of) };
            verdicts.push(json!({
                "name": format!("{case}_{cpus}_cpus{of}"),
                "status": if figure.passes() { "pass" } else { "fail" },
                "value": figure.value,
                "limit": figure.limit,
                "unit": "ratio",
                "relation": if figure.at_most { "<=" } else { ">=" },
                "rounds": [figure.value],
                "beside": {"ext": figure.ext, "stock": figure.stock},
            }));
        }
    }
    json!({
        "schema": 1,
        "scenario": "contract",
        "arch": "any",
        "kernel": "7.3",
        "host": "simulated",
        "partial": partial,
        "results": [],
        "verdicts": verdicts,
    })
}
