// SPDX-License-Identifier: GPL-2.0-only
//! The table that compares two runs of a mix, under ext and under stock.

use std::collections::HashMap;
use std::fmt::Write;

use paracord_sim::run::Kind;
use paracord_sim::time::Ns;

use super::columns::{columns, row};
use super::table::{per_task, placement_line};
use super::{Finished, scheduler_word, units};

/// Makes a table with the shares and waits of both runs, and the task whose shares differ most.
pub fn table(name: &str, ext: &Finished, stock: &Finished) -> String {
    let mut text = format!("{name}: ext and stock, {}, {}\n\n", ext.about, ext.length());
    if ext.end != stock.end {
        let _ = writeln!(text, "stock: {}\n", stock.length());
    }
    let mut rows = vec![row(&[
        "TASK",
        "NUMBER",
        "EXT CPU %",
        "STOCK CPU %",
        "DIFFERENCE",
        "EXT PER TASK %",
        "STOCK PER TASK %",
        "EXT P99",
        "STOCK P99",
        "EXT WAIT",
        "STOCK WAIT",
    ])];
    for (ours, theirs) in ext.kinds.iter().zip(&stock.kinds) {
        let shares = (ext.share(ours.ran_ns), stock.share(theirs.ran_ns));
        rows.push(vec![
            ours.name.clone(),
            ours.number(),
            units::percent(shares.0),
            units::percent(shares.1),
            units::points(shares.0 - shares.1),
            per_task(ext, ours),
            per_task(stock, theirs),
            ours.p99(),
            theirs.p99(),
            units::duration(ours.longest_wait_ns),
            units::duration(theirs.longest_wait_ns),
        ]);
    }
    text.push_str(&columns(&rows));
    text.push('\n');
    if let Some(far) = farthest(ext, stock) {
        let _ = writeln!(
            text,
            "largest difference: {} has {} % of a CPU under ext and {} % under stock ({} points)",
            far.name,
            units::percent(far.ext),
            units::percent(far.stock),
            units::points(far.ext - far.stock)
        );
    }
    for run in [ext, stock] {
        if let Some(line) = placement_line(run) {
            let _ = writeln!(text, "{}: {line}", scheduler_word(run.scheduler));
        }
        for line in run.fault_lines() {
            let _ = writeln!(text, "{}: {line}", scheduler_word(run.scheduler));
        }
    }
    text
}

/// The shares of a task in both runs.
struct Shares {
    name: String,
    ext: f64,
    stock: f64,
}

/// The task whose shares differ most, among the tasks that exist at the end of both runs.
fn farthest(ext: &Finished, stock: &Finished) -> Option<Shares> {
    // Forked tasks of a kind have the same name, so they are distinguished by their order.
    let there = |run: &Finished| {
        let mut tasks: HashMap<(Kind, String, u64), Ns> = HashMap::new();
        let mut named: HashMap<(Kind, &str), u64> = HashMap::new();
        for had in run.outcome.tasks.iter().filter(|had| !had.ended) {
            let number = named.entry((had.kind, &*had.name)).or_default();
            tasks.insert((had.kind, had.name.to_string(), *number), had.account.ran_ns);
            *number += 1;
        }
        tasks
    };
    let theirs = there(stock);
    let mut ours: Vec<_> = there(ext).into_iter().collect();
    // If several tasks differ equally, the first one is taken.
    ours.sort();
    let both = ours.into_iter().filter_map(|(task, ran_ns)| {
        let stock = stock.share(*theirs.get(&task)?);
        Some(Shares { name: task.1, ext: ext.share(ran_ns), stock })
    });
    both.reduce(|far, next| {
        if (next.ext - next.stock).abs() > (far.ext - far.stock).abs() { next } else { far }
    })
}
