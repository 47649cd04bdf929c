// SPDX-License-Identifier: GPL-2.0-only
//! Writes packaging/paracord.toml and the tables of docs/config.md from the keys
//! and the policy's defaults (`make generate`). Text around the tables is kept.

use std::path::Path;

use paracord_host::config::{Config, PlaceKeys, RegionKeys, keys, show};

const EXAMPLE_HEAD: &str = "\
# SPDX-License-Identifier: GPL-2.0-only
# Configuration of paracord: every key with its default. `paracord config check FILE` checks a file;
# docs/config.md explains how sections combine.

";

fn rows<T>(keys: &[keys::Key<T>], columns: &[&T]) -> String {
    keys.iter()
        .map(|k| {
            let values: Vec<String> = columns.iter().map(|t| format!("`{}`", (k.get)(t))).collect();
            format!("| `{}` | {} | {} | {} |\n", k.name, values.join(" | "), k.kind, k.doc)
        })
        .collect()
}

/// Replaces the rows of the first table below `heading`.
fn replace(text: &str, heading: &str, rows: &str) -> Option<String> {
    const RULE_END: &str = "---|\n";
    let section = text.find(&format!("\n## {heading}\n"))?;
    let start = section + text[section..].find(RULE_END)? + RULE_END.len();
    // From the end of the rule: the table may have no row yet.
    let end = start + text[start - 1..].find("\n\n")?;
    Some(format!("{}{rows}{}", &text[..start], &text[end..]))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let c = Config::default();
    std::fs::write(
        root.join("packaging/paracord.toml"),
        EXAMPLE_HEAD.to_owned() + &show(&c, true),
    )?;
    let document = root.join("docs/config.md");
    let mut text = std::fs::read_to_string(&document)?;
    let (place, pin) = (PlaceKeys::default(), keys::PinKeys::default());
    let reasons: Vec<_> = c.vm_rules.boost.reasons.iter().collect();
    for (heading, rows) in [
        ("Global keys", rows(keys::GLOBAL, &[&c])),
        ("[control]", rows(keys::CONTROL, &[&c])),
        ("[counters]", rows(keys::COUNTERS, &[&c])),
        ("[metrics]", rows(keys::METRICS, &[&c])),
        ("[perf]", rows(keys::PERF, &[&c])),
        ("[supervisor]", rows(keys::SUPERVISOR, &[&c])),
        ("[boost]", rows(keys::BOOST, &[&c.vm_rules.boost])),
        (&keys::reason_headings(), rows(keys::REASON, &reasons)),
        ("[region.\"NAME\"]", rows(keys::REGION, &[&RegionKeys::default()])),
        (
            "[vm.\"NAME\"]",
            rows(keys::VM, &[&c.vm_rules.boost])
                + &rows(keys::PLACE, &[&place])
                + &rows(keys::PIN, &[&pin]),
        ),
    ] {
        text =
            replace(&text, heading, &rows).ok_or(format!("docs/config.md: no table {heading}"))?;
    }
    std::fs::write(document, text)?;
    Ok(())
}
