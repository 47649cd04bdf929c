// SPDX-License-Identifier: GPL-2.0-only
//! Determines which settings a VM gets: those of `[boost]`, then those of each `[vm."PATTERN"]`
//! section that applies to the VM, then the changes by `paracord vm set`. Later settings override
//! earlier ones.

use super::boost::BoostKeys;
use super::keys;
use super::lookup;
use super::overrides::Override;
use super::place::PlaceKeys;
use super::value::Value;
use crate::settings::BoostConfig;

/// The properties of a VM and its process that determine which sections apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who<'a> {
    /// Name of the VM, which the VM's user chooses.
    pub name: &'a str,
    /// User that the process runs as. `None`: not known, so no section that names a user applies.
    pub uid: Option<u32>,
    /// Control group of the process. `None`: not known, as for `uid`.
    pub cgroup: Option<&'a str>,
    /// UUID of the VM, which the VM's user chooses. `None`: not known, as for `uid`.
    pub uuid: Option<&'a str>,
    /// Name of the process. `None`: not known, as for `uid`.
    pub vmm: Option<&'a str>,
}

impl<'a> From<&'a str> for Who<'a> {
    fn from(name: &'a str) -> Who<'a> {
        Who { name, uid: None, cgroup: None, uuid: None, vmm: None }
    }
}

/// A `[vm."PATTERN"]` section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmSection {
    /// Pattern for the VM's name, with `*` and `?`.
    pub pattern: String,
    /// The keys of the section.
    pub overrides: Vec<Override>,
}

impl VmSection {
    fn applies_to(&self, who: Who) -> bool {
        let fits = |property: Option<&str>, pattern: &str| {
            property.is_some_and(|property| pattern_matches(pattern, property))
        };
        let pinned = self.overrides.iter().all(|o| match (o.key.as_str(), &o.value) {
            (keys::PIN_UID, Value::Int(uid)) => who.uid == Some(*uid),
            (keys::PIN_CGROUP, Value::Text(pattern)) => fits(who.cgroup, pattern),
            (keys::PIN_UUID, Value::Text(pattern)) => {
                fits(who.uuid.map(str::to_lowercase).as_deref(), &pattern.to_lowercase())
            }
            (keys::PIN_VMM, Value::Text(pattern)) => fits(who.vmm, as_comm(pattern)),
            _ => true,
        });
        pinned && pattern_matches(&self.pattern, who.name)
    }
}

/// The configured settings of VMs: values for all VMs, and sections for VMs that match a pattern.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VmRules {
    /// `[boost]`.
    pub boost: BoostKeys,
    /// The sections of VMs, in the order of the file. They apply in this order.
    pub sections: Vec<VmSection>,
}

impl VmRules {
    /// The configuration of a VM. `overrides` apply after all sections, the oldest override first.
    pub fn resolve<'a>(&self, who: impl Into<Who<'a>>, overrides: &[Override]) -> BoostConfig {
        let (mut boost, who) = (self.boost, who.into());
        let sections = self.sections.iter().filter(|s| s.applies_to(who));
        for o in sections.flat_map(|s| &s.overrides).chain(overrides) {
            lookup::apply_to_vm(&mut boost, &o.key, o.value.clone());
        }
        BoostConfig::from(&boost)
    }

    /// The placement that the configuration contains for a VM's vCPUs.
    pub fn place<'a>(&self, who: impl Into<Who<'a>>) -> PlaceKeys {
        let (mut keys, who) = (PlaceKeys::default(), who.into());
        for section in self.sections.iter().filter(|s| s.applies_to(who)) {
            let header = format!("vm.{:?}", section.pattern);
            for o in &section.overrides {
                lookup::apply_to_place(&mut keys, &header, &o.key, o.value.clone());
            }
        }
        keys
    }
}

/// Shortens a VMM pattern to 15 characters, because the kernel keeps only the first 15 characters
/// of a process name. A pattern with a wildcard among its first 15 characters is not shortened.
fn as_comm(pattern: &str) -> &str {
    const KEPT: usize = 15;
    match pattern.char_indices().nth(KEPT) {
        Some((end, _)) if !pattern[..end].contains(['*', '?']) => &pattern[..end],
        _ => pattern,
    }
}

/// Whether `name` matches `pattern`. `*` stands for any number of characters, `?` for exactly one.
/// A match takes at most quadratic time, whatever the pattern.
fn pattern_matches(pattern: &str, name: &str) -> bool {
    let (p, n): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut pi, mut ni) = (0, 0);
    // For the last `*`: the position after the `*` in the pattern, and the end of the part of the
    // name that the `*` matches.
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

    /// The user of a VM chooses the VM's name. Without pinning, any user could claim the settings
    /// that are meant for another VM.
    #[test]
    fn a_section_can_be_pinned_to_a_user_and_a_control_group() {
        let text = "[vm.\"web*\"]\nuid = 107\ncgroup = \"/machine.slice/*\"\nmode = \"off\"\nplace = \"0=4\"\n\
                    [vm.\"*\"]\nuid = 0\nactuation_min_us = 70\n";
        let rules = parse(text, "f".as_ref()).unwrap().vm_rules;
        let who =
            |name, uid, cgroup| Who { uid: Some(uid), cgroup: Some(cgroup), ..Who::from(name) };
        let mode = |who| rules.resolve(who, &[]).mode;
        let meant = who("web-1", 107, "/machine.slice/qemu-1.scope");
        assert_eq!((mode(meant), rules.place(meant).place.to_string()), (Mode::Off, "0=4".into()));
        for other in [
            who("web-1", 1000, "/machine.slice/qemu-1.scope"),
            who("web-1", 107, "/user.slice/x"),
            who("db", 107, "/machine.slice/qemu-1.scope"),
            Who::from("web-1"),
        ] {
            assert_eq!(
                (mode(other), rules.place(other).section),
                (Mode::On, String::new()),
                "{other:?}"
            );
        }
        assert_eq!(rules.resolve(who("x", 0, "/"), &[]).actuation_min_us, 70);
        let refused = |text| parse(text, "f".as_ref()).unwrap_err().to_string();
        assert!(refused("[vm.a]\nuid = \"root\"\n").contains("vm.\"a\".uid"));
        assert!(refused("[vm.a]\ncgroup = \"x\"\n").contains("absolute path"));
        let set = lookup::parse_override("uid", "0").unwrap_err().to_string();
        assert!(set.contains("section"), "{set}");
    }

    #[test]
    fn a_section_can_be_pinned_to_a_uuid_and_a_vmm() {
        let text = "[vm.\"*\"]\nuuid = \"6d5f*\"\nmode = \"off\"\n[vm.\"*\"]\nvmm = \"qemu-*\"\nactuation_min_us = 70\n";
        let refused = parse(text, "f".as_ref()).map(drop);
        assert!(refused.is_err(), "TOML has each section once");
        let text = text.replacen("vm.\"*\"", "vm.\"?*\"", 1);
        let rules = parse(&text, "f".as_ref()).unwrap().vm_rules;
        let of = |uuid, vmm| {
            let who = Who { uuid, vmm: Some(vmm), ..Who::from("web") };
            let config = rules.resolve(who, &[]);
            (config.mode == Mode::Off, config.actuation_min_us == 70)
        };
        assert_eq!(of(Some("6D5F2b1c"), "qemu-system-x86"), (true, true));
        assert_eq!(of(Some("7d5f2b1c"), "crosvm"), (false, false));
        assert_eq!(of(None, "crosvm"), (false, false));
        assert_eq!(as_comm("cloud-hypervisor"), "cloud-hyperviso");
        assert_eq!(as_comm("qemu-system-x86_64*"), "qemu-system-x86");
        assert_eq!(
            (as_comm("qemu-*-x86_64_and_more"), as_comm("kvm")),
            ("qemu-*-x86_64_and_more", "kvm")
        );
        let empty = parse("[vm.a]\nvmm = \"\"\n", "f".as_ref()).unwrap_err().to_string();
        assert!(empty.contains("vm.\"a\".vmm") && empty.contains("pattern"), "{empty}");
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
        let set = lookup::parse_override("actuation_min_us", "90").unwrap();
        assert_eq!(rules.resolve("web-1", &[set]).actuation_min_us, 90);
        assert_eq!(rules.resolve("db", &[]), BoostConfig::from(&rules.boost));
        assert!(!rules.resolve("a", &[]).use_region && rules.resolve("b", &[]).use_region);
    }
}
