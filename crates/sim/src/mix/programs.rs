// SPDX-License-Identifier: GPL-2.0-only
//! Checks the phases of a task as a program: the phases must take time, and must release what they
//! take.

use super::error::{Flaw, Part, at};
use super::limits::{PHASES_MAX, RUN_MAX_NS};
use super::value::time;
use super::{FOREVER, Mix, Phase, Span, Task, attributes};
use crate::time::Ns;

/// What happens after the last phase of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The task ends.
    Exit,
    /// The last phase never ends.
    Forever,
    /// The phases begin again.
    Again,
}

/// How the phases of a task end.
pub(super) fn end(task: &Task) -> End {
    match task.phases.last() {
        Some(Phase::Exit) => End::Exit,
        Some(Phase::Run(Span { min_ns: FOREVER, .. })) => End::Forever,
        _ => End::Again,
    }
}

/// Whether a phase itself takes simulated time, whatever other tasks do.
pub(super) fn takes_time(phase: &Phase) -> bool {
    matches!(phase, Phase::Run(_) | Phase::Sleep(_) | Phase::Period(_))
}

/// Checks that the phases of every task can run.
pub(super) fn check(mix: &Mix) -> Result<(), Flaw> {
    for (index, task) in mix.tasks.iter().enumerate() {
        program(mix, task).map_err(at(Part::Task(index)))?;
    }
    Ok(())
}

fn program(mix: &Mix, task: &Task) -> Result<(), String> {
    let phases = &task.phases;
    if phases.is_empty() {
        return Err("no phases; write for example : run forever".to_owned());
    }
    if phases.len() > PHASES_MAX {
        let count = phases.len();
        return Err(format!("{count} phases are too many; write at most {PHASES_MAX}"));
    }
    phases.iter().try_for_each(|phase| operands(mix, phase))?;
    let last = phases.len() - 1;
    for (position, phase) in phases.iter().enumerate() {
        let ends = matches!(phase, Phase::Exit | Phase::Run(Span { min_ns: FOREVER, .. }));
        if ends && position < last {
            let text = super::phases::text(mix, *phase);
            return Err(format!("what follows {text} never happens; make {text} the last phase"));
        }
    }
    locks(mix, task)?;
    time_of_a_loop(task)
}

fn operands(mix: &Mix, phase: &Phase) -> Result<(), String> {
    match *phase {
        Phase::Run(Span { min_ns: FOREVER, max_ns: FOREVER }) | Phase::Yield | Phase::Exit => {
            Ok(())
        }
        Phase::Run(span) => lasts("run", span.min_ns, span.max_ns),
        Phase::Sleep(span) => lasts("sleep", span.min_ns, span.max_ns),
        Phase::Period(ns) => lasts("period", ns, ns),
        Phase::Post { queue, .. } | Phase::Wait(queue) => index("queue", queue, mix.queues.len()),
        Phase::Spin { queue, to } => index("queue", queue, mix.queues.len())
            .and_then(|()| index("task", to, mix.tasks.len())),
        Phase::Lock(lock) | Phase::Unlock(lock) => index("lock", lock, mix.locks.len()),
        Phase::Fork(task) => attributes::task_index(mix, task),
        Phase::MoveTo(group) => attributes::group_index(mix, group),
    }
}

fn lasts(verb: &str, min_ns: Ns, max_ns: Ns) -> Result<(), String> {
    if min_ns == 0 {
        return Err(format!("{verb} of no time; write at least {verb} 1ns"));
    }
    if min_ns > max_ns || max_ns > RUN_MAX_NS {
        let most = time(RUN_MAX_NS);
        return Err(format!("{verb}: no such times; write two rising times of at most {most}"));
    }
    Ok(())
}

fn index(kind: &str, index: usize, count: usize) -> Result<(), String> {
    if index < count {
        return Ok(());
    }
    Err(format!("no {kind} has index {index}; write one of the mix's {kind}s"))
}

/// A task must release each mutex that it holds before the task ends or its phases begin again.
fn locks(mix: &Mix, task: &Task) -> Result<(), String> {
    let mut held: Vec<usize> = Vec::new();
    for phase in &task.phases {
        match phase {
            Phase::Lock(lock) if held.contains(lock) => {
                let name = &mix.locks[*lock];
                return Err(format!("lock {name} waits for itself; write unlock {name} before"));
            }
            Phase::Lock(lock) => held.push(*lock),
            Phase::Unlock(lock) => {
                let Some(position) = held.iter().position(|holds| holds == lock) else {
                    let name = &mix.locks[*lock];
                    return Err(format!(
                        "unlock {name} does not hold it; write lock {name} before"
                    ));
                };
                held.remove(position);
            }
            _ => {}
        }
    }
    let Some(lock) = held.first() else { return Ok(()) };
    let name = &mix.locks[*lock];
    Err(match end(task) {
        End::Exit => format!("exits with lock {name} held; write unlock {name} before exit"),
        End::Forever => format!("runs forever with lock {name} held; write unlock {name} before"),
        End::Again => {
            format!("begins anew with lock {name} held; write unlock {name} as the last phase")
        }
    })
}

/// Phases that repeat must take time. Otherwise simulated time would not pass.
fn time_of_a_loop(task: &Task) -> Result<(), String> {
    let phases = &task.phases;
    if end(task) != End::Again || phases.iter().any(takes_time) {
        return Ok(());
    }
    if !phases.iter().any(|phase| matches!(phase, Phase::Wait(_) | Phase::Spin { .. })) {
        return Err("the phases take no time, so that the run never ends; add run 1ms".to_owned());
    }
    // If two tasks wake each other and do nothing else, time does not pass.
    if phases.iter().any(|phase| matches!(phase, Phase::Post { .. } | Phase::Fork(_))) {
        return Err("wakes or forks others and takes no time itself; add run 1us".to_owned());
    }
    Ok(())
}
