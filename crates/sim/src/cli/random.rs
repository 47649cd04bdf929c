// SPDX-License-Identifier: GPL-2.0-only
//! `paracord-sim random`: runs mixes from consecutive seeds, and prints a line for each.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use paracord_sim::mix::{Mix, random};

use super::args::RandomArgs;
use super::drive::drive;
use super::exit::{self, Failure};
use super::interrupt::Interrupt;
use super::output::{Output, print};
use super::progress::Progress;
use super::shrink::{Smaller, shrink};
use crate::report::{Finished, Names, fault_line, plural, scheduler_word, size, units};

/// Draws and runs mixes.
///
/// # Errors
/// A file cannot be written, or there is not enough memory.
pub fn random(args: &RandomArgs) -> Result<ExitCode, Failure> {
    let interrupt = Interrupt::new()?;
    let mut failed = 0;
    let mut first = None;
    let mut ran = 0;
    for seed in (0..args.count).map(|number| args.seed.wrapping_add(number)) {
        let mix = draw(args, seed);
        if args.count == 1 && !args.shrink {
            // The mix is written before it runs, so that it is saved even if it makes the program
            // crash.
            write_mix(args.write.as_deref(), &mix)?;
        }
        let mut progress = Progress::new(format!("seed {seed}: "));
        let finished = drive(&mix, args.races, None, &interrupt, &mut progress)?;
        drop(progress);
        print(&line(seed, &mix, &finished))?;
        if finished.is_interrupted() {
            break;
        }
        ran += 1;
        if !finished.outcome.faults.is_empty() {
            failed += 1;
            first.get_or_insert((seed, mix, finished));
        }
    }
    if args.count > 1 {
        print(&format!("{ran} of {} run, {failed} with a fault\n", plural(args.count, "mix")))?;
    }
    if let Some((seed, mix, finished)) = first {
        keep(args, seed, &mix, &finished, &interrupt)?;
    } else if args.shrink && !interrupt.raised() {
        print("no fault: nothing to shrink\n")?;
    }
    Ok(exit::code(failed > 0, interrupt.raised()))
}

fn draw(args: &RandomArgs, seed: u64) -> Mix {
    let cpus = usize::try_from(args.cpus).unwrap_or(1);
    Mix { scheduler: args.scheduler.scheduler(), ..random::mix(seed, cpus) }
}

/// The line for a seed, with the faults of its run.
fn line(seed: u64, mix: &Mix, finished: &Finished) -> String {
    let length = units::seconds(finished.reached_ns);
    let events = units::count(finished.outcome.events);
    let came_of_it = match finished.outcome.faults.len() {
        _ if finished.is_interrupted() => "interrupted".to_owned(),
        0 => "ok".to_owned(),
        faults => plural(faults, "fault"),
    };
    let mut text = format!("seed {seed}: {}, {length}, {events} events: {came_of_it}\n", size(mix));
    for line in finished.fault_lines() {
        text.push_str("  ");
        text.push_str(&line);
        text.push('\n');
    }
    text
}

fn write_mix(path: Option<&Path>, mix: &Mix) -> Result<(), Failure> {
    path.map_or(Ok(()), |path| Output::create(path)?.write_whole(&mix.to_string()))
}

/// Writes the first mix that failed, shrunk if the user wants that, and prints how to run it again.
fn keep(
    args: &RandomArgs,
    seed: u64,
    mix: &Mix,
    finished: &Finished,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let races = if args.races { "--races " } else { "" };
    if !args.shrink {
        if args.count > 1 {
            write_mix(args.write.as_deref(), mix)?;
        }
        return print(&match &args.write {
            Some(path) => format!("run it again: paracord-sim run {races}{}\n", quoted(path)),
            None => {
                let scheduler = scheduler_word(mix.scheduler);
                let cpus = args.cpus;
                format!(
                    "run it again: paracord-sim random {races}--seed {seed} --cpus {cpus} \
                     --scheduler {scheduler}; smaller: with --shrink\n"
                )
            }
        });
    }
    let path = args
        .write
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("seed-{seed}-cpus-{}.mix", args.cpus)));
    let output = Output::create(&path)?;
    let Smaller { mix, tries, faults } = shrink(mix, args.races, finished, interrupt)?;
    let lines = Names::of(&mix).lines(&faults);
    let comment: String = lines.iter().map(|line| format!("# {line}\n")).collect();
    let origin = format!("# Of seed {seed} on {}, shrunk.\n", plural(args.cpus, "CPU"));
    output.write_whole(&format!("{origin}{comment}{mix}"))?;
    let early = if interrupt.raised() { ", interrupted" } else { "" };
    print(&format!(
        "shrunk to {}, {} ({tries} runs{early}): {}\nrun it again: paracord-sim run {races}{}\n",
        size(&mix),
        units::seconds(mix.run_ns),
        faults.first().map_or_else(String::new, fault_line),
        quoted(&path)
    ))
}

/// A path in the form that a shell accepts.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,@%".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}
