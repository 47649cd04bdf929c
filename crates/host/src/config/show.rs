// SPDX-License-Identifier: GPL-2.0-only
//! Shows the effective configuration as TOML. Keys that have their default value are commented out.
//! The result is a valid configuration file.

use std::fmt::Write;

use super::keys::{self, Key};
use super::{Config, RegionKeys};
use crate::settings::Reason;

fn section<T>(
    out: &mut String,
    header: &str,
    keys: &[Key<T>],
    now: &T,
    default: &T,
    explain: bool,
) {
    if !header.is_empty() {
        let _ = writeln!(out, "\n[{header}]");
    }
    for k in keys {
        if explain {
            let _ = writeln!(out, "# {} Allowed: {}.", k.doc, k.kind);
        }
        let (value, default) = ((k.get)(now), (k.get)(default));
        let mark = if value == default { "# " } else { "" };
        let _ = writeln!(out, "{mark}{} = {value}", k.name);
    }
}

/// Renders `config`. With `explain`, comments describe the meaning and the range of each key. Keys
/// in the sections of VMs get no comments.
pub fn show(config: &Config, explain: bool) -> String {
    let default = Config::default();
    let mut out = String::new();
    for (header, keys) in [("", keys::GLOBAL)].iter().chain(keys::SECTIONS) {
        section(&mut out, header, keys, config, &default, explain);
    }
    section(
        &mut out,
        "boost",
        keys::BOOST,
        &config.vm_rules.boost,
        &default.vm_rules.boost,
        explain,
    );
    for r in Reason::ALL {
        let header = format!("boost.{}", r.name());
        // Each reason has the same three keys, so they are explained only once.
        let explain = explain && r == Reason::Wake;
        section(
            &mut out,
            &header,
            keys::REASON,
            config.vm_rules.boost.reason(r),
            default.vm_rules.boost.reason(r),
            explain,
        );
    }
    for region in &config.regions {
        let header = format!("region.{}", toml::Value::from(region.name.as_str()));
        let default = RegionKeys::default();
        section(&mut out, &header, keys::REGION, &region.keys, &default, explain);
    }
    for vm in &config.vm_rules.sections {
        let _ = writeln!(out, "\n[vm.{}]", toml::Value::from(vm.pattern.as_str()));
        for o in &vm.overrides {
            let _ = writeln!(out, "{} = {}", o.key, o.value);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    #[test]
    fn what_is_shown_parses_to_the_same_configuration() {
        let text = "rt_priority = 20\n[metrics]\nlisten = \"127.0.0.1:9095\"\n[boost.rt]\nenabled = false\nbudget_pct = 12.25\n\
                    [vm.\"z*\"]\nmode = \"off\"\nwake.grant_us = 5\n[region.web]\nvcpus = 4\nowner = 107\n[region.\"db.1\"]\n[vm.\"a\\\"b\"]\nactuation_min_us = 7\n";
        let config = parse(text, "x".as_ref()).unwrap();
        for explain in [false, true] {
            let shown = show(&config, explain);
            assert_eq!(parse(&shown, "shown".as_ref()).unwrap(), config, "{shown}");
        }
    }

    #[test]
    fn defaults_are_commented_and_uncommenting_them_changes_nothing() {
        let shown = show(&Config::default(), false);
        let keys = shown.lines().filter(|l| l.contains(" = "));
        assert!(keys.clone().count() > 20 && keys.clone().all(|l| l.starts_with("# ")), "{shown}");
        let uncommented = shown.replace("# ", "");
        assert_eq!(parse(&uncommented, "x".as_ref()).unwrap(), Config::default());
    }
}
