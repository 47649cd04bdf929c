// SPDX-License-Identifier: GPL-2.0-only
//! The functions that KVM calls when a vCPU is to take an interrupt.

use std::{ffi::OsStr, fs, path::Path};

use crate::symbols::has_function;

/// A function of KVM, and the sensor's program for it.
type Probe = (&'static str, &'static str);

/// The kick function, under all names that KVM has given it, the newest name first.
const KICKS: [Probe; 2] =
    [("__kvm_vcpu_kick", "sensor_kick_new"), ("kvm_vcpu_kick", "sensor_kick")];

/// If the hardware posts interrupts, this is the only function that KVM calls for a vCPU that does
/// not run.
const WAKE_UP: Probe = ("kvm_vcpu_wake_up", "sensor_wake_up");

/// The functions of KVM that one variant of the sensor watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watched {
    kick: Option<Probe>,
    wake_up: bool,
}

impl Watched {
    /// The variant that watches no function of KVM.
    pub const NOTHING: Self = Self { kick: None, wake_up: false };

    /// Whether the variant includes the program of this name. Every variant includes all programs
    /// that are not among the probes above.
    pub fn loads(&self, program: &OsStr) -> bool {
        if program == WAKE_UP.1 {
            return self.wake_up;
        }
        !KICKS.iter().any(|(_, kick)| program == *kick)
            || self.kick.is_some_and(|(_, kick)| program == kick)
    }

    /// The kick function that is watched.
    pub fn kick(&self) -> Option<&'static str> {
        self.kick.map(|(function, _)| function)
    }

    /// Whether KVM's wakeups are also watched.
    pub fn wake_ups(&self) -> bool {
        self.wake_up
    }
}

/// The kick function of a kernel with these symbols (the content of /proc/kallsyms).
#[must_use]
pub fn kick_function(kallsyms: &str) -> Option<&'static str> {
    KICKS
        .into_iter()
        .map(|(function, _)| function)
        .find(|function| has_function(kallsyms, function))
}

/// The variants to try on a kernel with these symbols, the best first. `wake_ups`: whether wakeups
/// matter on this host.
pub fn candidates(kallsyms: &str, wake_ups: bool) -> Vec<Watched> {
    let wake_ups = wake_ups && has_function(kallsyms, WAKE_UP.0);
    let mut found = Vec::new();
    for kick in KICKS.into_iter().filter(|(function, _)| has_function(kallsyms, function)) {
        if wake_ups {
            found.push(Watched { kick: Some(kick), wake_up: true });
        }
        found.push(Watched { kick: Some(kick), wake_up: false });
    }
    found
}

/// Whether KVM lets the hardware post interrupts to vCPUs (APICv, AVIC). `modules`: /sys/module.
pub fn posted_interrupts(modules: &Path) -> bool {
    ["kvm_intel/parameters/enable_apicv", "kvm_amd/parameters/avic"].iter().any(|parameter| {
        let value = fs::read_to_string(modules.join(parameter)).unwrap_or_default();
        matches!(value.trim(), "Y" | "1")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KALLSYMS: &str = "0000000000000000 T __kvm_vcpu_kick\t[kvm]\n\
                            0000000000000000 d kvm_vcpu_kick\n\
                            0000000000000000 T kvm_vcpu_wake_up\t[kvm]\n\
                            0000000000000000 T kvm_vcpu_kick_other\n";

    #[test]
    fn wakeups_are_watched_where_interrupts_are_posted_or_not_at_all() {
        let names = |wake_ups| -> Vec<_> {
            let all = candidates(KALLSYMS, wake_ups);
            all.iter().map(|watched| (watched.kick(), watched.wake_ups())).collect()
        };
        let kick = Some("__kvm_vcpu_kick");
        assert_eq!(names(false), [(kick, false)]);
        assert_eq!(names(true), [(kick, true), (kick, false)]);
        assert!(candidates("", true).is_empty());
    }

    #[test]
    fn one_kick_program_is_loaded_and_the_others_are_not() {
        let watched = candidates(KALLSYMS, false)[0];
        let loads = |program: &str| watched.loads(OsStr::new(program));
        assert!(loads("sensor_exit") && loads("sensor_kick_new"));
        assert!(!loads("sensor_kick") && !loads("sensor_wake_up"));
        assert!(!Watched::NOTHING.loads(OsStr::new("sensor_kick_new")));
    }

    #[test]
    fn posted_interrupts_are_a_parameter_of_the_module() {
        let dir = std::env::temp_dir().join(format!("paracord-kicks-{}", std::process::id()));
        let parameters = dir.join("kvm_amd/parameters");
        fs::create_dir_all(&parameters).unwrap();
        for (text, expected) in [("N\n", false), ("Y\n", true), ("1\n", true), ("0\n", false)] {
            fs::write(parameters.join("avic"), text).unwrap();
            assert_eq!(posted_interrupts(&dir), expected, "{text:?}");
        }
        fs::remove_dir_all(&dir).unwrap();
        assert!(!posted_interrupts(&dir));
    }
}
