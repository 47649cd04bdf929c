// SPDX-License-Identifier: GPL-2.0-only
//! The table of one run. The same mix always gives exactly the same text.

use std::fmt::Write;

use super::columns::{columns, row};
use super::{Finished, KindSum, scheduler_word, units};

/// What the tasks of each kind got, and the faults.
pub fn table(name: &str, run: &Finished) -> String {
    let scheduler = scheduler_word(run.scheduler);
    let mut text = format!("{name}: {scheduler}, {}, {}\n\n", run.about, run.length());
    let latencies = run.kinds.iter().any(|kind| kind.latency_ns.is_some());
    let mut heading = row(&[
        "TASK",
        "NUMBER",
        "CPU %",
        "PER TASK %",
        "WAKEUP P99",
        "LONGEST WAIT",
        "SWITCHES",
        "MIGRATIONS",
    ]);
    if latencies {
        heading.extend(row(&["LATENCY", "WORST"]));
    }
    let mut rows = vec![heading];
    rows.extend(run.kinds.iter().map(|kind| kind_row(run, kind, latencies)));
    text.push_str(&columns(&rows));
    if run.kinds.iter().any(|kind| kind.ended > 0) {
        text.push_str("NUMBER a+b: a are there, b have ended\n");
    }
    if latencies {
        text.push_str("LATENCY: from a vCPU's timer to its running, on average\n");
    }
    if let Some(line) = placement_line(run) {
        let _ = writeln!(text, "{line}");
    }
    if !run.outcome.faults.is_empty() {
        text.push('\n');
    }
    for line in run.fault_lines() {
        let _ = writeln!(text, "{line}");
    }
    text
}

/// How tasks were placed, on a machine that has several caches, several nodes, or several threads
/// per core.
pub fn placement_line(run: &Finished) -> Option<String> {
    let placement = &run.outcome.placement;
    let mut said = Vec::new();
    if run.machine.nodes > 1 {
        said.push(format!("{} moves between nodes", placement.node_moves));
    }
    if run.machine.caches > run.machine.nodes {
        said.push(format!("{} moves between caches", placement.cache_moves));
    }
    if run.machine.smt > 1 {
        let share = units::percent(run.share(placement.crowded_ns));
        said.push(format!("{share} % of a core crowded beside idle ones"));
    }
    (!said.is_empty()).then(|| said.join(", "))
}

fn kind_row(run: &Finished, kind: &KindSum, latencies: bool) -> Vec<String> {
    let mut cells = vec![
        kind.name.clone(),
        kind.number(),
        units::percent(run.share(kind.ran_ns)),
        per_task(run, kind),
        kind.p99(),
        units::duration(kind.longest_wait_ns),
        kind.switches.to_string(),
        kind.migrations.to_string(),
    ];
    if latencies {
        let nothing = || ("-".to_owned(), "-".to_owned());
        let both = |(average, longest)| (units::duration(average), units::duration(longest));
        let (average, longest) = kind.latency_ns.map_or_else(nothing, both);
        cells.extend([average, longest]);
    }
    cells
}

/// The smallest and the largest share of a task.
pub fn per_task(run: &Finished, kind: &KindSum) -> String {
    let Some((least, most)) = kind.each_ns else { return "-".to_owned() };
    let (least, most) = (units::percent(run.share(least)), units::percent(run.share(most)));
    if least == most { least } else { format!("{least}..{most}") }
}
