// SPDX-License-Identifier: GPL-2.0-only
//! Reads and writes the phases after the colon of a task.

use super::lines::unknown;
use super::names::Names;
use super::value::{duration, quoted, span, span_text, time};
use super::{FOREVER, Mix, Phase, Span};

/// First words of phases, each with an example.
const KNOWN: [(&str, &str); 12] = [
    ("run", "run 1ms"),
    ("sleep", "sleep 1ms"),
    ("period", "period 10ms"),
    ("post", "post QUEUE"),
    ("wait", "wait QUEUE"),
    ("spin", "spin QUEUE TASK"),
    ("lock", "lock LOCK"),
    ("unlock", "unlock LOCK"),
    ("fork", "fork TASK"),
    ("yield", "yield"),
    ("exit", "exit"),
    ("group", "group PATH"),
];

/// Reads phases, which are separated by commas.
pub(super) fn read(text: &str, names: &Names) -> Result<Vec<Phase>, String> {
    if text.trim_ascii().is_empty() {
        return Err("no phase after the colon; write for example : run 1ms, sleep 1ms".to_owned());
    }
    text.split(',').map(|phase| one(phase.trim_ascii(), names)).collect()
}

fn one(text: &str, names: &Names) -> Result<Phase, String> {
    let mut words = text.split_ascii_whitespace();
    let Some(verb) = words.next() else {
        return Err("an empty phase; write one comma between two phases".to_owned());
    };
    let Some((_, example)) = KNOWN.iter().find(|(name, _)| *name == verb) else {
        return Err(unknown("phase", verb, KNOWN.iter().map(|(name, _)| *name)));
    };
    let operand = words.next();
    let more = words.next();
    let extra = if matches!(verb, "post" | "spin") { words.next() } else { more };
    let (operand, extra) = match verb {
        "yield" | "exit" => ("", operand),
        _ => (
            operand
                .ok_or_else(|| format!("{verb} lacks its value; write for example {example}"))?,
            extra,
        ),
    };
    if let Some(extra) = extra {
        return Err(format!(
            "{} is one word too many; write {example}, and a comma between two phases",
            quoted(extra)
        ));
    }
    match verb {
        "run" if operand == "forever" => Ok(Phase::Run(Span { min_ns: FOREVER, max_ns: FOREVER })),
        "run" => span(operand).map(Phase::Run),
        "sleep" if operand == "forever" => {
            Err("only run can be forever; write a time, or wait for a queue".to_owned())
        }
        "sleep" => span(operand).map(Phase::Sleep),
        "period" => duration(operand).map(Phase::Period),
        "post" => match more {
            None => Ok(Phase::Post { queue: names.queues.find(operand)?, sync: false }),
            Some("sync") => Ok(Phase::Post { queue: names.queues.find(operand)?, sync: true }),
            Some(word) => {
                Err(format!("{} after post; write post QUEUE or post QUEUE sync", quoted(word)))
            }
        },
        "wait" => names.queues.find(operand).map(Phase::Wait),
        "spin" => {
            let to =
                more.ok_or_else(|| format!("spin lacks a task; write for example {example}"))?;
            Ok(Phase::Spin { queue: names.queues.find(operand)?, to: names.tasks.find(to)? })
        }
        "lock" => names.locks.find(operand).map(Phase::Lock),
        "unlock" => names.locks.find(operand).map(Phase::Unlock),
        "fork" => names.tasks.find(operand).map(Phase::Fork),
        "yield" => Ok(Phase::Yield),
        "exit" => Ok(Phase::Exit),
        _ => names.group(operand).map(Phase::MoveTo),
    }
}

/// Writes what [`read`] reads.
pub(super) fn text(mix: &Mix, phase: Phase) -> String {
    match phase {
        Phase::Run(span) => format!("run {}", span_text(span)),
        Phase::Sleep(span) => format!("sleep {}", span_text(span)),
        Phase::Period(ns) => format!("period {}", time(ns)),
        Phase::Post { queue, sync } => {
            format!("post {}{}", mix.queues[queue], if sync { " sync" } else { "" })
        }
        Phase::Wait(queue) => format!("wait {}", mix.queues[queue]),
        Phase::Spin { queue, to } => format!("spin {} {}", mix.queues[queue], mix.tasks[to].name),
        Phase::Lock(lock) => format!("lock {}", mix.locks[lock]),
        Phase::Unlock(lock) => format!("unlock {}", mix.locks[lock]),
        Phase::Fork(task) => format!("fork {}", mix.tasks[task].name),
        Phase::Yield => "yield".to_owned(),
        Phase::Exit => "exit".to_owned(),
        Phase::MoveTo(group) => format!("group {}", mix.group_path(group)),
    }
}
