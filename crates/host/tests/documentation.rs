// SPDX-License-Identifier: GPL-2.0-only
//! Tests that the documents and the program name the same keys and metrics.
#![allow(clippy::unwrap_used, reason = "a failed assumption of a test fails it")]

use std::collections::BTreeSet;

use paracord_host::config::{Config, PlaceKeys, RegionKeys, keys, parse, show};
use paracord_host::metrics;

const CONFIG: &str = include_str!("../../../docs/config.md");
const METRICS: &str = include_str!("../../../docs/metrics.md");
const EXAMPLE: &str = include_str!("../../../packaging/paracord.toml");

/// First cells of the table rows of a document, or of one of its sections.
fn first_cells(text: &str) -> BTreeSet<String> {
    text.lines()
        .filter_map(|l| l.strip_prefix("| `")?.split('`').next())
        .map(str::to_owned)
        .collect()
}

fn section<'t>(text: &'t str, heading: &str) -> &'t str {
    let start = text.find(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no {heading}"));
    let rest = &text[start + 4..];
    &rest[..rest.find("\n## ").unwrap_or(rest.len())]
}

fn names<T>(keys: &[keys::Key<T>]) -> BTreeSet<String> {
    keys.iter().map(|k| k.name.to_owned()).collect()
}

#[test]
fn every_key_is_documented_and_no_other() {
    for (heading, known) in [
        ("Global keys", names(keys::GLOBAL)),
        ("[control]", names(keys::CONTROL)),
        ("[metrics]", names(keys::METRICS)),
        ("[perf]", names(keys::PERF)),
        ("[supervisor]", names(keys::SUPERVISOR)),
        ("[boost]", names(keys::BOOST)),
        (&keys::reason_headings(), names(keys::REASON)),
        ("[region.\"NAME\"]", names(keys::REGION)),
        ("[vm.\"NAME\"]", &(&names(keys::VM) | &names(keys::PLACE)) | &names(keys::PIN)),
    ] {
        assert_eq!(first_cells(section(CONFIG, heading)), known, "{heading}");
    }
}

/// A row is `| key | default | allowed | meaning |`.
fn check_rows<T>(heading: &str, keys: &[keys::Key<T>], default: &T) {
    let text = section(CONFIG, heading);
    for k in keys {
        let row = text.lines().find(|l| l.starts_with(&format!("| `{}` |", k.name))).unwrap();
        for part in [format!("| `{}` |", (k.get)(default)), k.kind.to_string(), k.doc.to_owned()] {
            assert!(row.contains(&part), "{heading} {}: {part:?} not in {row}", k.name);
        }
    }
}

#[test]
fn documented_defaults_and_ranges_are_those_of_the_program() {
    let c = Config::default();
    check_rows("Global keys", keys::GLOBAL, &c);
    check_rows("[control]", keys::CONTROL, &c);
    check_rows("[metrics]", keys::METRICS, &c);
    check_rows("[perf]", keys::PERF, &c);
    check_rows("[counters]", keys::COUNTERS, &c);
    check_rows("[supervisor]", keys::SUPERVISOR, &c);
    check_rows("[boost]", keys::BOOST, &c.vm_rules.boost);
    check_rows("[region.\"NAME\"]", keys::REGION, &RegionKeys::default());
    check_rows("[vm.\"NAME\"]", keys::PLACE, &PlaceKeys::default());
    let reasons = section(CONFIG, &keys::reason_headings());
    for k in keys::REASON {
        let values = c.vm_rules.boost.reasons.map(|r| format!("`{}`", (k.get)(&r)));
        let row = format!("| `{}` | {} | {} | {} |", k.name, values.join(" | "), k.kind, k.doc);
        assert!(reasons.contains(&row), "{row}");
    }
}

#[test]
fn the_example_configuration_is_what_config_show_explains() {
    assert!(EXAMPLE.ends_with(&show(&Config::default(), true)), "run: make generate");
    assert_eq!(parse(EXAMPLE, "example".as_ref()).unwrap(), Config::default());
}

#[test]
fn the_example_sections_of_the_document_are_valid() {
    let start = CONFIG.find("```toml\n").unwrap() + 8;
    let text = &CONFIG[start..start + CONFIG[start..].find("```").unwrap()];
    assert_eq!(parse(text, "docs".as_ref()).unwrap().vm_rules.sections.len(), 3);
}

#[test]
fn every_metric_is_documented_and_no_other() {
    let names: BTreeSet<String> = metrics::NAMES().into_iter().collect();
    assert_eq!(first_cells(METRICS), names);
}
