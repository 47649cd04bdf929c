// SPDX-License-Identifier: GPL-2.0-only
//! Looks up keys by name: the keys of a VM section, and the keys that `paracord vm set` sets. For
//! an unknown key, finds the existing key with the most similar name.

use super::boost::BoostKeys;
use super::keys::{BOOST, Key, PIN, PLACE, REASON, VM};
use super::place::PlaceKeys;
use super::value::{Given, Kind, Value};
use super::{ConfigError, Override};
use crate::settings::Reason;

/// The boost reason with this name, such as `wake`.
pub(super) fn reason_named(word: &str) -> Option<Reason> {
    Reason::ALL.into_iter().find(|r| r.name() == word)
}

/// The name of a key, preceded by the name of its section.
pub(super) fn join(section: &str, key: &str) -> String {
    if section.is_empty() { key.to_owned() } else { format!("{section}.{key}") }
}

fn find<'k, T>(keys: &'k [Key<T>], name: &str) -> Option<&'k Key<T>> {
    keys.iter().find(|k| k.name == name)
}

/// Keys of `[boost]` that apply to the whole host. All VMs share the CPUs, so a VM cannot have its
/// own values of these keys.
const HOST_WIDE: [&str; 2] = ["period_ms", "cpu_kept_pct"];

fn boost_keys_of_a_vm() -> impl Iterator<Item = &'static Key<BoostKeys>> {
    BOOST.iter().filter(|k| !HOST_WIDE.contains(&k.name))
}

/// The values that a key of a VM section accepts; `None` for an unknown or host-wide key.
pub fn vm_kind(key: &str) -> Option<Kind> {
    if let Some((reason, rest)) = key.split_once('.') {
        reason_named(reason)?;
        return find(REASON, rest).map(|k| k.kind);
    }
    let place = find(PLACE, key).map(|k| k.kind).or_else(|| find(PIN, key).map(|k| k.kind));
    place.or_else(|| VM.iter().chain(boost_keys_of_a_vm()).find(|k| k.name == key).map(|k| k.kind))
}

/// Stores a checked value if `key` is one of the placement keys. `section`: the section that
/// contains the key.
pub(super) fn apply_to_place(keys: &mut PlaceKeys, section: &str, key: &str, value: Value) {
    if let Some(k) = find(PLACE, key) {
        (k.set)(keys, value);
        keys.section = section.to_owned();
    }
}

/// Stores a checked value under a key of a VM section. Unknown keys have been refused before.
pub(super) fn apply_to_vm(settings: &mut BoostKeys, key: &str, value: Value) {
    if let Some((reason, rest)) = key.split_once('.') {
        if let (Some(r), Some(k)) = (reason_named(reason), find(REASON, rest)) {
            (k.set)(settings.reason_mut(r), value);
        }
    } else if let Some(k) = find(VM, key) {
        (k.set)(settings, value);
    } else if let Some(k) = find(BOOST, key) {
        (k.set)(settings, value);
    }
}

/// All keys that a VM section may contain.
pub fn vm_keys() -> Vec<String> {
    let mut names: Vec<String> = VM.iter().map(|k| k.name.to_owned()).collect();
    names.extend(PIN.iter().map(|k| k.name.to_owned()));
    names.extend(PLACE.iter().map(|k| k.name.to_owned()));
    names.extend(boost_keys_of_a_vm().map(|k| k.name.to_owned()));
    for r in Reason::ALL {
        names.extend(REASON.iter().map(|k| format!("{}.{}", r.name(), k.name)));
    }
    names
}

/// Checks an argument `key=value` of `paracord vm set`.
///
/// # Errors
/// If the key is unknown or cannot be set at run time, or if the value is not allowed. The error
/// suggests the nearest key, says what to do instead, or lists the allowed values.
pub fn parse_override(key: &str, word: &str) -> Result<Override, ConfigError> {
    if find(PLACE, key).is_some() {
        return Err(ConfigError::new(key, "is set with `paracord vm place`"));
    }
    if find(PIN, key).is_some() {
        return Err(ConfigError::new(
            key,
            "says to which VMs a section of the configuration applies",
        ));
    }
    let Some(kind) = vm_kind(key) else { return Err(refused_in_vm("", key)) };
    match kind.check(Given::from_word(word)) {
        Ok(value) => Ok(Override { key: key.to_owned(), value }),
        Err(reason) => Err(ConfigError::new(key, reason)),
    }
}

/// Error for a key that [`vm_kind`] does not know.
pub(super) fn refused_in_vm(section: &str, key: &str) -> ConfigError {
    if HOST_WIDE.contains(&key) {
        let reason = "belongs to the host's CPUs, which all VMs share: set it in [boost]";
        return ConfigError::new(join(section, key), reason);
    }
    unknown(section, key, vm_keys().iter().map(String::as_str))
}

/// Error for an unknown key of `section`. It suggests the nearest key of `known`.
pub(super) fn unknown<'n>(
    section: &str,
    key: &str,
    known: impl Iterator<Item = &'n str>,
) -> ConfigError {
    let near = known
        .map(|k| (strsim::damerau_levenshtein(k, key), k))
        .filter(|(distance, k)| *distance <= 2.max(k.len() / 3))
        .min();
    let reason = match near {
        Some((_, k)) => format!("unknown key; did you mean \"{k}\"?"),
        None => "unknown key; `paracord config show` lists all keys".to_owned(),
    };
    ConfigError::new(join(section, key), reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::config::keys::{GLOBAL, Key, SECTIONS};

    #[test]
    fn override_errors_name_the_range_and_the_nearest_key() {
        let e = parse_override("wake.grant_uss", "1").unwrap_err().to_string();
        assert!(e.contains("did you mean \"wake.grant_us\""), "{e}");
        let e = parse_override("vcpu_budget_pct", "101").unwrap_err().to_string();
        assert!(e.contains("from 0 to 100"), "{e}");
        assert!(parse_override("vcpu_budget_pct", "12.5").is_ok());
        assert!(parse_override("wake.enabled", "false").is_ok());
        assert!(parse_override("mode", "observe").is_ok());
        assert!(parse_override("sleep.grant_us", "1").is_err());
        let e = parse_override("place", "0=1").unwrap_err().to_string();
        assert!(e.contains("paracord vm place"), "{e}");
        let e = parse_override("cpu_kept_pct", "10").unwrap_err().to_string();
        assert!(e.contains("set it in [boost]"), "{e}");
    }

    #[test]
    fn setting_what_was_read_changes_nothing() {
        fn check<T: Clone + PartialEq + std::fmt::Debug>(keys: &[Key<T>], t: &T) {
            for k in keys {
                let mut copy = t.clone();
                (k.set)(&mut copy, (k.get)(t));
                assert_eq!(&copy, t, "{}", k.name);
            }
        }
        let c = Config::default();
        check(GLOBAL, &c);
        for (_, keys) in SECTIONS {
            check(keys, &c);
        }
        check(BOOST, &c.vm_rules.boost);
        check(VM, &c.vm_rules.boost);
        check(PLACE, &PlaceKeys { place: "0-1=4-5".parse().unwrap(), ..PlaceKeys::default() });
        for r in Reason::ALL {
            check(REASON, c.vm_rules.boost.reason(r));
        }
    }
}
