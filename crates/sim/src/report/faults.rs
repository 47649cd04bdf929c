// SPDX-License-Identifier: GPL-2.0-only
//! Writes faults as lines. Faults that differ only in numbers and names become one line: the first
//! fault, and the number of further ones.

use std::collections::HashSet;

use paracord_sim::kernel::Fault;
use paracord_sim::mix::Mix;

use super::units;

/// A fault without the words that vary between times and mixes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultKind(Vec<String>);

/// The names in a mix: of tasks, VMs and groups.
#[derive(Clone, Debug)]
pub struct Names(HashSet<String>);

impl Names {
    /// Collects the names of a mix.
    pub fn of(mix: &Mix) -> Self {
        let tasks = mix.tasks.iter().map(|task| task.name.clone());
        let vms = mix.vms.iter().map(|vm| vm.name.clone());
        Self(tasks.chain(vms).chain(mix.groups.iter().map(|group| group.path.clone())).collect())
    }

    /// The kind of a fault: its words, without numbers and names.
    pub fn kind(&self, fault: &Fault) -> FaultKind {
        let said = |word: &&str| {
            let word = word.trim_end_matches([',', ':', ';']);
            !word.contains(|c: char| c.is_ascii_digit()) && !self.0.contains(word)
        };
        FaultKind(fault.what.split_whitespace().filter(said).map(str::to_owned).collect())
    }

    /// Faults as lines.
    pub fn lines(&self, faults: &[Fault]) -> Vec<String> {
        let mut kinds: Vec<(FaultKind, &Fault, usize)> = Vec::new();
        for fault in faults {
            let kind = self.kind(fault);
            match kinds.iter_mut().find(|(known, ..)| *known == kind) {
                Some((_, _, count)) => *count += 1,
                None => kinds.push((kind, fault, 1)),
            }
        }
        let line = |(_, fault, count): &(FaultKind, &Fault, usize)| match count {
            1 => fault_line(fault),
            count => format!("{} (and {} more like it)", fault_line(fault), count - 1),
        };
        kinds.iter().map(line).collect()
    }
}

/// A fault in one line.
pub fn fault_line(fault: &Fault) -> String {
    let what: Vec<&str> = fault.what.lines().map(str::trim).collect();
    format!("fault at {}: {}", units::exact_seconds(fault.at_ns), what.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_that_differ_in_names_and_numbers_are_one_line() {
        let text = "machine cpus=2\nrun 1s\ntask hog count=2 : run forever\n";
        let names = Names::of(&Mix::parse("test", text).expect("a mix"));
        let fault = |at_ns, what: &str| Fault { at_ns, what: what.to_owned() };
        let faults = [
            fault(22_000_000, "hog has waited for 22 ms while CPU 1 idles"),
            fault(23_000_000, "CPU 1 looks who runs next without end; hog runs there"),
            fault(30_000_000, "hog.1 has waited for 30 ms while CPU 0 idles"),
        ];
        assert_eq!(
            names.lines(&faults),
            [
                "fault at 0.022000000 s: hog has waited for 22 ms while CPU 1 idles \
                 (and 1 more like it)",
                "fault at 0.023000000 s: CPU 1 looks who runs next without end; hog runs there",
            ]
        );
    }
}
