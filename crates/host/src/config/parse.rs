// SPDX-License-Identifier: GPL-2.0-only
//! Turns TOML text into a [`Config`], key by key, with the descriptions of keys in [`super::keys`].

use std::path::Path;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::keys::{self, Key};
use super::lookup;
use super::value::{Given, Kind, Value};
use super::{Config, ConfigError, Override, RegionKeys, RegionSection, VmSection};
use crate::place::{Host, Placement};
use crate::regions::region_name::is_region_name;
use crate::settings::Reason;

/// Maximum size of a configuration. A configuration takes up a few kB, so a larger file is probably
/// not a configuration.
const FILE_MAX_BYTES: u64 = 1 << 20;

/// Reads and checks the file at `path`.
///
/// # Errors
/// The text of the error is one line, with the file, the line number and the key.
pub fn load(path: &Path) -> Result<Config, ConfigError> {
    load_text(path).and_then(|text| parse(&text, path))
}

/// Like [`load`], but also refuses placements that are not possible on `host`.
///
/// # Errors
/// The text of the error is one line, with the file, the line number and the key.
pub fn load_for(host: &Host, path: &Path) -> Result<Config, ConfigError> {
    load_text(path).and_then(|text| parse_for(Some(host), &text, path))
}

fn load_text(path: &Path) -> Result<String, ConfigError> {
    let unreadable = |why: String| {
        ConfigError::new("", format!("cannot be read: {why}")).in_file(path, "", None)
    };
    let meta = std::fs::metadata(path).map_err(|e| unreadable(e.to_string()))?;
    if !meta.is_file() || meta.len() > FILE_MAX_BYTES {
        return Err(unreadable(format!("not a regular file of at most {FILE_MAX_BYTES} bytes")));
    }
    std::fs::read_to_string(path).map_err(|e| unreadable(e.to_string()))
}

/// Parses and checks `text`. Errors contain `file` as the name of the file.
///
/// # Errors
/// The text of the error is one line, with the file, the line number and the key.
pub fn parse(text: &str, file: &Path) -> Result<Config, ConfigError> {
    parse_for(None, text, file)
}

/// Like [`parse`]. If `host` is given, also refuses placements that are not possible on that host.
///
/// # Errors
/// The text of the error is one line, with the file, the line number and the key.
pub fn parse_for(host: Option<&Host>, text: &str, file: &Path) -> Result<Config, ConfigError> {
    let doc = DeTable::parse(text).map_err(|e| {
        let reason = e.message().lines().collect::<Vec<_>>().join(", ");
        ConfigError::new("", reason).in_file(file, text, e.span().map(|s| s.start))
    })?;
    let mut config = Config::default();
    read_document(doc.get_ref(), host, &mut config)
        .and_then(|()| config.check().map_err(|e| (e, None)))
        .map_err(|(e, offset)| e.in_file(file, text, offset))?;
    Ok(config)
}

/// An error, and its byte offset in the text.
type Placed = (ConfigError, Option<usize>);
type SpannedValue<'i> = Spanned<DeValue<'i>>;

fn given(value: &DeValue) -> Given {
    match value {
        DeValue::String(s) => Given::Text(s.to_string()),
        DeValue::Integer(i) => match i64::from_str_radix(i.as_str(), i.radix()) {
            Ok(n) => Given::Int(n),
            Err(_) => Given::Other("an integer beyond 64 bits"),
        },
        DeValue::Float(x) => x.as_str().parse().map_or(Given::Other("a float"), Given::Float),
        DeValue::Boolean(b) => Given::Bool(*b),
        DeValue::Datetime(_) => Given::Other("a date"),
        DeValue::Array(_) => Given::Other("an array"),
        DeValue::Table(_) => Given::Other("a section"),
    }
}

fn checked(section: &str, name: &str, kind: Kind, value: &SpannedValue) -> Result<Value, Placed> {
    kind.check(given(value.get_ref())).map_err(|reason| {
        (ConfigError::new(lookup::join(section, name), reason), Some(value.span().start))
    })
}

fn table<'v, 'i>(name: &str, value: &'v SpannedValue<'i>) -> Result<&'v DeTable<'i>, Placed> {
    match value.get_ref() {
        DeValue::Table(t) => Ok(t),
        other => Err((
            ConfigError::new(name, format!("must be a section [{name}], not {}", given(other))),
            Some(value.span().start),
        )),
    }
}

/// Reads the scalar keys of a section. The caller reads the `subsections`.
fn read_keys<T>(
    section: &str,
    from: &DeTable,
    known: &[Key<T>],
    subsections: &[&str],
    to: &mut T,
) -> Result<(), Placed> {
    for (name, value) in from {
        let word: &str = name.get_ref();
        if let Some(key) = known.iter().find(|k| k.name == word) {
            (key.set)(to, checked(section, word, key.kind, value)?);
        } else if !subsections.contains(&word) {
            let names = known.iter().map(|k| k.name).chain(subsections.iter().copied());
            return Err((lookup::unknown(section, word, names), Some(name.span().start)));
        }
    }
    Ok(())
}

fn read_document(doc: &DeTable, host: Option<&Host>, config: &mut Config) -> Result<(), Placed> {
    let plain = keys::SECTIONS.iter().map(|(name, _)| *name);
    let sections: Vec<&str> = plain.chain(["boost", "vm", "region"]).collect();
    read_keys("", doc, keys::GLOBAL, &sections, config)?;
    for (name, known) in keys::SECTIONS {
        if let Some(value) = doc.get(*name) {
            read_keys(name, table(name, value)?, known, &[], config)?;
        }
    }
    if let Some(value) = doc.get("boost") {
        let boost = table("boost", value)?;
        let reasons = Reason::ALL.map(Reason::name);
        read_keys("boost", boost, keys::BOOST, &reasons, &mut config.vm_rules.boost)?;
        for r in Reason::ALL {
            if let Some(value) = boost.get(r.name()) {
                let section = format!("boost.{}", r.name());
                let from = table(&section, value)?;
                read_keys(&section, from, keys::REASON, &[], config.vm_rules.boost.reason_mut(r))?;
            }
        }
    }
    if let Some(value) = doc.get("region") {
        let mut sections: Vec<_> = table("region", value)?.iter().collect();
        sections.sort_by_key(|(name, _)| name.span().start);
        for (name, value) in sections {
            config.regions.push(read_region(name, value)?);
        }
    }
    if let Some(value) = doc.get("vm") {
        let vms = table("vm", value)?;
        let mut sections: Vec<_> = vms.iter().collect();
        // `vms` is sorted by name, but sections apply in the order of the file.
        sections.sort_by_key(|(name, _)| name.span().start);
        for (name, value) in sections {
            config.vm_rules.sections.push(read_vm(name.get_ref(), value)?);
            if let Some(host) = host {
                check_place(host, name.get_ref(), value)?;
            }
        }
    }
    Ok(())
}

/// Checks whether the placement of a section is possible on the host.
fn check_place(host: &Host, pattern: &str, value: &SpannedValue) -> Result<(), Placed> {
    let place = value.get_ref().get("place");
    let Some((place, text)) = place.and_then(|place| Some((place, place.get_ref().as_str()?)))
    else {
        return Ok(());
    };
    let refused = text.parse::<Placement>().map_err(|e| e.to_string()).and_then(|p| host.check(&p));
    refused.map_err(|why| {
        let key = lookup::join(&format!("vm.\"{pattern}\""), "place");
        (ConfigError::new(key, why), Some(place.span().start))
    })
}

fn read_region(name: &Spanned<DeString>, value: &SpannedValue) -> Result<RegionSection, Placed> {
    let section = format!("region.\"{}\"", name.get_ref());
    if !is_region_name(name.get_ref()) {
        let why = "is no name of a region: use 1 to 64 letters, digits, \"_\", \"-\" and \".\", not beginning with \".\"";
        return Err((ConfigError::new(section, why), Some(name.span().start)));
    }
    let mut keys = RegionKeys::default();
    read_keys(&section, table(&section, value)?, keys::REGION, &[], &mut keys)?;
    Ok(RegionSection { name: name.get_ref().to_string(), keys })
}

fn read_vm(pattern: &str, value: &SpannedValue) -> Result<VmSection, Placed> {
    let section = format!("vm.\"{pattern}\"");
    let mut overrides = Vec::new();
    for (name, value) in table(&section, value)? {
        let word: &str = name.get_ref();
        if lookup::reason_named(word).is_some() {
            let inner = format!("{section}.{word}");
            for (key, value) in table(&inner, value)? {
                push_override(
                    &mut overrides,
                    &section,
                    &format!("{word}.{}", key.get_ref()),
                    key.span().start,
                    value,
                )?;
            }
        } else {
            push_override(&mut overrides, &section, word, name.span().start, value)?;
        }
    }
    Ok(VmSection { pattern: pattern.to_owned(), overrides })
}

fn push_override(
    overrides: &mut Vec<Override>,
    section: &str,
    key: &str,
    key_offset: usize,
    value: &SpannedValue,
) -> Result<(), Placed> {
    let Some(kind) = lookup::vm_kind(key) else {
        return Err((lookup::refused_in_vm(section, key), Some(key_offset)));
    };
    overrides.push(Override { key: key.to_owned(), value: checked(section, key, kind, value)? });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        parse(text, "p.toml".as_ref()).unwrap_err().to_string()
    }

    #[test]
    fn errors_name_file_line_key_range_and_nearest_key() {
        for (text, wants) in [
            ("rt_priority = 100", ["p.toml:1: rt_priority: 100", "from 1 to 98"]),
            ("\n\nrt_prioritty = 8", ["p.toml:3: rt_prioritty: unknown key", "\"rt_priority\""]),
            ("[bost]\n", ["p.toml:1: bost: unknown key", "\"boost\""]),
            ("[boost.wake]\ngrant_us = -1", ["p.toml:2: boost.wake.grant_us: -1", "from 0 to"]),
            (
                "[boost]\nvcpu_budget_pct = 100.5",
                ["p.toml:2: boost.vcpu_budget_pct: 100.5", "to 100"],
            ),
            ("boost = 3", ["p.toml:1: boost: must be a section", "[boost]"]),
            ("[boost]\nwake = true", ["p.toml:2: boost.wake: must be a section", "[boost.wake]"]),
            ("mode = \"yes\"", ["p.toml:1: mode: \"yes\"", "\"on\", \"observe\" or \"off\""]),
            ("mode = [1]", ["p.toml:1: mode: an array", "\"off\""]),
            ("run_dir = \"x\"", ["p.toml:1: run_dir: \"x\"", "absolute path"]),
            ("a = \n", ["p.toml:1: ", ""]),
            ("mode = \"on\"\nmode = \"off\"", ["p.toml:2: ", "duplicate"]),
            ("[vm.\"x*\"]\nmod = \"on\"", ["p.toml:2: vm.\"x*\".mod: unknown", "\"mode\""]),
            ("[boost]\nperiod_ms = 9", ["p.toml:2: boost.period_ms: 9", "from 10 to 10000"]),
            (
                "[boost]\npenalty_max_periods = 65537",
                ["p.toml:2: boost.penalty_max_periods: 65537", "from 1 to 65536"],
            ),
            ("[vm.x]\nperiod_ms = 50", ["p.toml:2: vm.\"x\".period_ms:", "set it in [boost]"]),
            (
                "[vm.x.wake]\ngrant_us = \"a\"",
                ["p.toml:2: vm.\"x\".wake.grant_us: \"a\"", "whole number"],
            ),
            ("[vm.x]\nplace = \"0=1 0=2\"", ["p.toml:2: vm.\"x\".place: vCPU 0", "placed twice"]),
            ("[vm.x]\nplace = 4", ["p.toml:2: vm.\"x\".place: 4", "a placement such as"]),
            ("[vm.x]\nplace_mode = \"no\"", ["p.toml:2: vm.\"x\".place_mode", "\"hints\""]),
            ("[vm.x]\nplaced = \"\"", ["p.toml:2: vm.\"x\".placed: unknown", "\"place\""]),
            ("place = \"0=1\"", ["p.toml:1: place: unknown key", ""]),
            ("[boost]\nplace = \"0=1\"", ["p.toml:2: boost.place: unknown key", ""]),
            ("[region.\"a/b\"]\n", ["p.toml:1: region.\"a/b\": is no name", "64 letters"]),
            ("[region.a]\nvcpu = 2", ["p.toml:2: region.\"a\".vcpu: unknown", "\"vcpus\""]),
            ("[region.a]\nvcpus = 0", ["p.toml:2: region.\"a\".vcpus: 0", "from 1 to 4096"]),
            ("[region.a]\nowner = \"7:x\"", ["p.toml:2: region.\"a\".owner: \"7:x\"", "UID:GID"]),
            ("[region.a]\nowner = true", ["p.toml:2: region.\"a\".owner: true", "a user as name"]),
            ("[metrics]\nlisten = \"0.0.0.0:1\"", ["p.toml:2: metrics.listen", "loopback"]),
            ("rt_priority = 99999999999999999999", ["p.toml:1: rt_priority", "64 bits"]),
        ] {
            let e = error(text);
            assert!(wants.iter().all(|w| e.contains(w)), "{text:?} gave {e}");
            assert_eq!(e.lines().count(), 1, "{e}");
        }
    }

    #[test]
    fn a_hosts_lack_of_cpus_is_named_by_file_and_line_when_it_is_asked() {
        let root = crate::place::host::tests::Root::juno("parse");
        let text = "[vm.a]\nplace = \"0=cluster:4\"\n[vm.\"b*\"]\n\nplace = \"all=0-3 1=9\"\n";
        assert!(parse(text, "p.toml".as_ref()).is_ok());
        let host = root.read();
        let line = parse_for(Some(&host), text, "p.toml".as_ref()).unwrap_err().to_string();
        let says = "p.toml:5: vm.\"b*\".place: vCPU 1: this host has no CPU 9: it has CPUs 0-5";
        assert_eq!(line, says);
    }

    #[test]
    fn an_empty_file_is_the_default() {
        assert_eq!(parse("", "x".as_ref()).unwrap(), Config::default());
    }

    #[test]
    fn a_missing_file_is_named() {
        let e = load("/nonexistent/p.toml".as_ref()).unwrap_err().to_string();
        assert!(e.starts_with("/nonexistent/p.toml: cannot be read"), "{e}");
        let e = load("/dev".as_ref()).unwrap_err().to_string();
        assert!(e.contains("not a regular file"), "{e}");
    }
}
