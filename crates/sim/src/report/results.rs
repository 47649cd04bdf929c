// SPDX-License-Identifier: GPL-2.0-only
//! Writes results.json, schema 1, which lab/paracord_lab/results.py describes and reads. A run is
//! one round.
//!
//! The name of a metric begins with what is measured, ends with the unit, and has the task's name
//! between. Therefore two metrics never have the same name, whatever the tasks are called.

use serde::Serialize;
use serde_json::{Value, json};

use super::{End, Finished, KindSum, as_f64, scheduler_word, units, version};

const SCHEMA: u32 = 1;
/// A simulated machine has no architecture.
const ARCH: &str = "any";
const HOST: &str = "simulated";

#[derive(Serialize)]
struct Series {
    config: &'static str,
    metric: String,
    unit: &'static str,
    median: f64,
    rounds: [f64; 1],
}

/// The text of the file, with a configuration for each run.
pub fn json(name: &str, runs: &[Finished]) -> String {
    let kernel = runs.first().map_or("7.3", |run| version(run.kernel));
    let results: Vec<Series> = runs.iter().flat_map(series).collect();
    let verdicts: Vec<Value> = runs.iter().map(verdict).collect();
    let data = json!({
        "schema": SCHEMA,
        "scenario": name,
        "arch": ARCH,
        "kernel": kernel,
        "host": HOST,
        "partial": runs.iter().any(Finished::is_interrupted),
        "results": results,
        "verdicts": verdicts,
    });
    format!("{data:#}\n")
}

fn series(run: &Finished) -> Vec<Series> {
    let config = scheduler_word(run.scheduler);
    let mut all = Vec::new();
    let mut add = |metric: String, unit: &'static str, value: f64| {
        all.push(Series {
            config,
            metric: format!("{metric}_{unit}"),
            unit,
            median: value,
            rounds: [value],
        });
    };
    for kind in &run.kinds {
        let KindSum { name, .. } = kind;
        add(format!("cpu_{name}"), "share", run.share(kind.ran_ns));
        if let Some((least, most)) = kind.each_ns {
            add(format!("least_{name}"), "share", run.share(least));
            add(format!("most_{name}"), "share", run.share(most));
        }
        add(format!("longest-wait_{name}"), "us", as_f64(kind.longest_wait_ns) / 1e3);
        add(format!("switches_{name}"), "count", as_f64(kind.switches));
        add(format!("migrations_{name}"), "count", as_f64(kind.migrations));
        if let Some(waits) = kind.wakeup_p99_ns {
            add(format!("wakeup-p99_{name}"), "us", as_f64(waits) / 1e3);
        }
        if let Some((average, longest)) = kind.latency_ns {
            add(format!("latency_{name}"), "us", as_f64(average) / 1e3);
            add(format!("longest-latency_{name}"), "us", as_f64(longest) / 1e3);
        }
    }
    let placement = &run.outcome.placement;
    add("node-moves".to_owned(), "count", as_f64(placement.node_moves));
    add("cache-moves".to_owned(), "count", as_f64(placement.cache_moves));
    add("crowded-cores".to_owned(), "share", run.share(placement.crowded_ns));
    add("events".to_owned(), "count", as_f64(run.outcome.events));
    all
}

/// The verdict: whether the run had faults. An interrupted run without faults is undecided.
fn verdict(run: &Finished) -> Value {
    let faults = &run.outcome.faults;
    let status = match (faults.len(), run.end) {
        (0, End::Interrupted) => "undecided",
        (0, _) => "pass",
        _ => "fail",
    };
    let count = u32::try_from(faults.len()).unwrap_or(u32::MAX);
    let mut data = json!({
        "name": format!("{}_faults", scheduler_word(run.scheduler)),
        "status": status,
        "value": f64::from(count),
        "limit": 0.0,
        "unit": "count",
        "relation": "<=",
        "rounds": [f64::from(count)],
    });
    let mut reasons = run.fault_lines();
    if run.is_interrupted() {
        let (reached, length) = (units::seconds(run.reached_ns), units::seconds(run.run_ns));
        reasons.push(format!("interrupted at {reached} of {length}"));
    }
    if !reasons.is_empty() {
        data["reason"] = Value::from(reasons.join("; "));
    }
    data
}
