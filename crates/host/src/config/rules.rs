// SPDX-License-Identifier: GPL-2.0-only
//! Which settings a VM gets: the global ones, then every `[vm."PATTERN"]` section
//! that matches its name, then what `paracord vm set` changed.

use super::boost::BoostKeys;
use super::lookup;
use super::place::PlaceKeys;
use super::value::Value;
use crate::settings::BoostConfig;

/// One key that a section or `paracord vm set` overrides, already checked;
/// [`keys::parse_override`] makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    pub(super) key: String,
    pub(super) value: Value,
}

/// A `[vm."PATTERN"]` section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmSection {
    /// VM name with `*` and `?`.
    pub pattern: String,
    /// In the order of the file.
    pub overrides: Vec<Override>,
}

/// How VMs are boosted, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VmRules {
    /// `[boost]`.
    pub boost: BoostKeys,
    /// In the order of the file, which is the order in which they apply.
    pub sections: Vec<VmSection>,
}

impl VmRules {
    /// The configuration of the VM called `name`; `overrides` apply last, oldest first.
    pub fn resolve(&self, name: &str, overrides: &[Override]) -> BoostConfig {
        let mut boost = self.boost;
        let sections = self.sections.iter().filter(|s| pattern_matches(&s.pattern, name));
        for o in sections.flat_map(|s| &s.overrides).chain(overrides) {
            lookup::apply_to_vm(&mut boost, &o.key, o.value.clone());
        }
        BoostConfig::from(&boost)
    }

    /// Where the vCPUs of the VM called `name` run.
    pub fn place(&self, name: &str) -> PlaceKeys {
        let mut keys = PlaceKeys::default();
        for section in self.sections.iter().filter(|s| pattern_matches(&s.pattern, name)) {
            let header = format!("vm.{:?}", section.pattern);
            for o in &section.overrides {
                lookup::apply_to_place(&mut keys, &header, &o.key, o.value.clone());
            }
        }
        keys
    }
}

/// Whether `name` matches `pattern`: `*` is any run of characters, `?` any one.
/// At most quadratic time, whatever the pattern.
fn pattern_matches(pattern: &str, name: &str) -> bool {
    let (p, n): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut pi, mut ni) = (0, 0);
    // After the last `*`: where to go on in the pattern, and what it has eaten.
    let mut star: Option<(usize, usize)> = None;
    while ni < n.len() {
        if pi < p.len() && p[pi] == '*' {
            star = Some((pi + 1, ni));
            pi += 1;
        } else if pi < p.len() && (p[pi] == '?' || p[pi] == n[ni]) {
            pi += 1;
            ni += 1;
        } else if let Some((after, eaten)) = star {
            star = Some((after, eaten + 1));
            pi = after;
            ni = eaten + 1;
        } else {
            return false;
        }
    }
    p[pi..].iter().all(|&c| c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::keys;
    use crate::config::parse;
    use crate::place::PlaceMode;
    use crate::settings::{Mode, Reason};

    #[test]
    fn stars_and_question_marks() {
        for (pattern, name, want) in [
            ("vm1", "vm1", true),
            ("vm1", "vm10", false),
            ("vm*", "vm10", true),
            ("*", "", true),
            ("?", "", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("v?-*-eu", "vm-x-y-eu", true),
            ("grün?", "grünx", true),
        ] {
            assert_eq!(pattern_matches(pattern, name), want, "{pattern} {name}");
        }
    }

    #[test]
    fn the_last_section_that_places_counts() {
        let text = "[vm.\"*\"]\nplace = \"all=cluster:0\"\nplace_mode = \"hints\"\n[vm.web]\nplace = \"0=4\"\n";
        let rules = parse(text, "f".as_ref()).unwrap().vm_rules;
        let (web, db) = (rules.place("web"), rules.place("db"));
        assert_eq!((web.place.to_string(), web.mode), ("0=4".into(), PlaceMode::Hints));
        assert_eq!((web.section.as_str(), db.section.as_str()), ("vm.\"web\"", "vm.\"*\""));
        assert_eq!(db.place.to_string(), "all=cluster:0");
        assert_eq!(rules.resolve("web", &[]), BoostConfig::from(&rules.boost));
    }

    #[test]
    fn sections_apply_in_file_order_and_runtime_wins() {
        let text = "[vm.\"web-*\"]\nactuation_min_us = 50\n[vm.\"web-1\"]\nactuation_min_us = 70\nmode = \"off\"\n\
                    [boost.wake]\ngrant_us = 77\n[vm.a]\nregion = \"off\"";
        let rules = parse(text, "f".as_ref()).unwrap().vm_rules;
        assert_eq!(rules.resolve("web-2", &[]).actuation_min_us, 50);
        let one = rules.resolve("web-1", &[]);
        assert_eq!((one.actuation_min_us, one.mode), (70, Mode::Off));
        assert_eq!(one.reason[Reason::Wake as usize].grant_max_us, 77);
        let set = keys::parse_override("actuation_min_us", "90").unwrap();
        assert_eq!(rules.resolve("web-1", &[set]).actuation_min_us, 90);
        assert_eq!(rules.resolve("db", &[]), BoostConfig::from(&rules.boost));
        assert!(!rules.resolve("a", &[]).use_region && rules.resolve("b", &[]).use_region);
    }
}
