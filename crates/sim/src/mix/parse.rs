// SPDX-License-Identifier: GPL-2.0-only
//! Reads text into a [`Mix`]: the lines that declare parts, the lines that may occur once, and the
//! lines that must occur.

use std::collections::HashMap;
use std::path::Path;

use super::error::{Flaw, MixError, Part};
use super::lines::{Key, Keys, Line, lines, one_word, unknown};
use super::names::Names;
use super::value::{nearest, quoted, seed, within_ns};
use super::{KernelVersion, Mix, Scheduler, Timed, changes, declare, limits};
use crate::machine::Machine;
use crate::time::Ns;

/// First words of lines.
const WORDS: [&str; 12] = [
    "machine",
    "kernel",
    "scheduler",
    "seed",
    "run",
    "group",
    "queue",
    "lock",
    "task",
    "vm",
    "irq",
    "at",
];

/// Maximum size of a file. The file of the largest mix is smaller.
const FILE_MAX_BYTES: u64 = 64 << 20;

/// The seed without a `seed` line.
pub(super) const DEFAULT_SEED: u64 = 1;

impl Mix {
    /// Reads and checks the text of a file. Errors name the file `name`.
    ///
    /// # Errors
    /// One line with the file, the line number, what is wrong, and what to write instead.
    pub fn parse(name: impl AsRef<Path>, text: &str) -> Result<Self, MixError> {
        parse(&name.as_ref().display().to_string(), text)
    }
}

/// Reads and checks the file at `path`.
///
/// # Errors
/// One line with the file, the line number, what is wrong, and what to write instead.
pub fn load(path: &Path) -> Result<Mix, MixError> {
    let name = path.display().to_string();
    let refused = |why: String| MixError::new(&name, 1, why);
    let unreadable = |e: std::io::Error| refused(format!("cannot be read: {e}"));
    let meta = std::fs::metadata(path).map_err(unreadable)?;
    if !meta.is_file() || meta.len() > FILE_MAX_BYTES {
        return Err(refused(format!("not a regular file of at most {FILE_MAX_BYTES} bytes")));
    }
    parse_bytes(&name, &std::fs::read(path).map_err(unreadable)?)
}

/// Like [`Mix::parse`], for bytes that may not be text.
///
/// # Errors
/// One line with the file, the line number, what is wrong, and what to write instead.
pub fn parse_bytes(name: &str, bytes: &[u8]) -> Result<Mix, MixError> {
    match std::str::from_utf8(bytes) {
        Ok(text) => parse(name, text),
        Err(e) => {
            let line = 1 + bytes[..e.valid_up_to()].iter().filter(|b| **b == b'\n').count();
            Err(MixError::new(name, line, "not UTF-8 text; write a text file".to_owned()))
        }
    }
}

fn parse(name: &str, text: &str) -> Result<Mix, MixError> {
    let refused = |(line, reason)| MixError::new(name, line, reason);
    let lines = lines(text).collect::<Result<Vec<_>, _>>().map_err(refused)?;
    let names = Names::of(&lines).map_err(refused)?;
    let mut reader = Reader::new(&names);
    for line in &lines {
        reader.read(line).map_err(|reason| refused((line.number, reason)))?;
    }
    reader.finish(lines.last().map_or(1, |line| line.number)).map_err(refused)
}

/// The content of the lines so far.
struct Reader<'n, 't> {
    names: &'n Names<'t>,
    mix: Mix,
    /// Line of each declared part.
    places: HashMap<Part, usize>,
    /// Line of each word that may occur only once.
    once: HashMap<&'t str, usize>,
    /// Changes and their lines.
    changes: Vec<(Timed, usize)>,
}

impl<'n, 't> Reader<'n, 't> {
    fn new(names: &'n Names<'t>) -> Self {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let mix = Mix {
            machine: Machine::flat(1),
            kernel: KernelVersion::V7_3,
            scheduler: Scheduler::Ext,
            seed: DEFAULT_SEED,
            run_ns: 0,
            warmup_ns: 0,
            groups: Vec::new(),
            queues: owned(&names.queues.all),
            locks: owned(&names.locks.all),
            tasks: Vec::new(),
            vms: Vec::new(),
            irqs: Vec::new(),
            changes: Vec::new(),
        };
        Self { names, mix, places: HashMap::new(), once: HashMap::new(), changes: Vec::new() }
    }

    fn read(&mut self, line: &Line<'t>) -> Result<(), String> {
        let rest = line.rest;
        if matches!(line.word, "machine" | "kernel" | "scheduler" | "seed" | "run") {
            if let Some(first) = self.once.insert(line.word, line.number) {
                let word = line.word;
                return Err(format!("{word} stands in line {first} already; write one such line"));
            }
        }
        let mix = &mut self.mix;
        let part = match line.word {
            "machine" => {
                mix.machine = declare::machine(rest)?;
                Part::Machine
            }
            "kernel" => {
                mix.kernel = match one_word("kernel", rest, "kernel 7.3")? {
                    "7.3" => KernelVersion::V7_3,
                    "6.12" => KernelVersion::V6_12,
                    word => {
                        let shown = quoted(word);
                        return Err(format!("unknown kernel {shown}; write kernel 7.3 or 6.12"));
                    }
                };
                return Ok(());
            }
            "scheduler" => {
                mix.scheduler = match one_word("scheduler", rest, "scheduler ext")? {
                    "ext" => Scheduler::Ext,
                    "stock" => Scheduler::Stock,
                    word => {
                        return Err(unknown("scheduler", word, ["ext", "stock"].into_iter()));
                    }
                };
                return Ok(());
            }
            "seed" => {
                mix.seed = seed(one_word("seed", rest, "seed 1")?)?;
                return Ok(());
            }
            "run" => {
                (mix.run_ns, mix.warmup_ns) = run(rest)?;
                Part::Run
            }
            "group" => {
                mix.groups.push(declare::group(rest, mix.groups.len(), self.names)?);
                Part::Group(mix.groups.len() - 1)
            }
            "queue" | "lock" => {
                one_word(line.word, rest, "queue work")?;
                return Ok(());
            }
            "task" => {
                mix.tasks.push(declare::task(rest, self.names)?);
                Part::Task(mix.tasks.len() - 1)
            }
            "vm" => {
                mix.vms.push(declare::vm(rest, self.names)?);
                Part::Vm(mix.vms.len() - 1)
            }
            "irq" => {
                mix.irqs.push(declare::irq(rest)?);
                Part::Irq(mix.irqs.len() - 1)
            }
            "at" => {
                let read = changes::read(rest, self.names)?;
                self.changes.extend(read.into_iter().map(|change| (change, line.number)));
                return Ok(());
            }
            word => return Err(unknown_word(word)),
        };
        self.places.insert(part, line.number);
        Ok(())
    }

    /// Completes the mix and checks it as a whole.
    fn finish(mut self, last_line: usize) -> Result<Mix, (usize, String)> {
        for (word, example) in [("machine", "machine cpus=2"), ("run", "run 8s")] {
            if !self.once.contains_key(word) {
                let reason = format!("no {word} line in the file; write for example {example}");
                return Err((last_line, reason));
            }
        }
        // The sort is stable, so changes at the same time happen in the order of the file.
        self.changes.sort_by_key(|(timed, _)| timed.at_ns);
        for (index, (timed, line)) in self.changes.into_iter().enumerate() {
            self.mix.changes.push(timed);
            self.places.insert(Part::Change(index), line);
        }
        match self.mix.check() {
            Ok(()) => Ok(self.mix),
            Err(Flaw { part, reason }) => {
                Err((self.places.get(&part).copied().unwrap_or(last_line), reason))
            }
        }
    }
}

fn unknown_word(word: &str) -> String {
    let shown = quoted(word);
    match nearest(word, WORDS.into_iter()) {
        Some(near) => format!("unknown word {shown}; did you mean {near}?"),
        None => format!("unknown word {shown}; begin a line with one of {}", WORDS.join(", ")),
    }
}

/// Reads `run T warmup=T`.
fn run(rest: &str) -> Result<(Ns, Ns), String> {
    const KEYS: &[Key] = &[Key("warmup", "warmup=500ms")];
    let (word, rest) = super::lines::first_word("run", rest, "run 8s")?;
    let run_ns = super::value::duration(word)?;
    let keys = Keys::read(rest, KEYS)?;
    within_ns("run", run_ns, &(1..=limits::RUN_MAX_NS))?;
    Ok((run_ns, keys.time("warmup")?.unwrap_or(0)))
}
