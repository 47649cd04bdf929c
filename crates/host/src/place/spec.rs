// SPDX-License-Identifier: GPL-2.0-only
//! Requested placements such as `0=0-3 1=cluster:4 all=capacity:max`, and their conversion from and
//! to text.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use paracord_abi::layout::PARACORD_SLOTS_MAX;
use paracord_sys::affinity::{CPUS_MAX, CpuMask};
use serde::{Deserialize, Serialize};

/// What a placement does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PlaceMode {
    /// The vCPU's thread runs only on the CPUs of the placement, and the guest is told the
    /// placement.
    #[default]
    Affinity,
    /// The guest is told the placement, but the thread is not changed.
    Hints,
}

impl PlaceMode {
    /// The word for this mode in the configuration.
    pub fn word(self) -> &'static str {
        match self {
            PlaceMode::Affinity => "affinity",
            PlaceMode::Hints => "hints",
        }
    }
}

/// To which vCPUs a placement applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// All vCPUs that are not named individually, including vCPUs that appear later.
    All,
    /// The vCPU with this KVM vcpu_id.
    Vcpu(u32),
}

/// Where a vCPU is to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cpus {
    /// Anywhere, as if it had never been placed.
    Any,
    /// On a CPU of its own, as long as there are enough CPUs. The largest CPUs are assigned first.
    Auto,
    /// On these CPUs.
    List(CpuMask),
    /// On the CPUs of the cluster whose first CPU has this number.
    Cluster(u32),
    /// On the CPUs with the largest capacity.
    Largest,
    /// On the CPUs with the smallest capacity.
    Smallest,
}

/// Where the vCPUs of a VM are to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement(BTreeMap<Who, Cpus>);

impl Placement {
    /// Whether no vCPU is placed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Where a vCPU is to run; `None`: the placement does not cover this vCPU.
    pub fn of(&self, vcpu_id: u32) -> Option<Cpus> {
        self.0.get(&Who::Vcpu(vcpu_id)).or_else(|| self.0.get(&Who::All)).copied()
    }

    /// The vCPUs that are named individually.
    pub fn named(&self) -> impl Iterator<Item = u32> {
        self.0.keys().filter_map(|who| match who {
            Who::Vcpu(vcpu_id) => Some(*vcpu_id),
            Who::All => None,
        })
    }

    /// All parts of the placement: first the part for all vCPUs, then the parts for single vCPUs in
    /// order of vcpu_id.
    pub fn iter(&self) -> impl Iterator<Item = (Who, Cpus)> {
        self.0.iter().map(|(who, cpus)| (*who, *cpus))
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Who::All => write!(f, "all"),
            Who::Vcpu(vcpu_id) => write!(f, "{vcpu_id}"),
        }
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cpus::Any => write!(f, "any"),
            Cpus::Auto => write!(f, "auto"),
            Cpus::List(cpus) => write!(f, "{cpus}"),
            Cpus::Cluster(first) => write!(f, "cluster:{first}"),
            Cpus::Largest => write!(f, "capacity:max"),
            Cpus::Smallest => write!(f, "capacity:min"),
        }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (who, cpus)) in self.iter().enumerate() {
            let separator = if n == 0 { "" } else { " " };
            write!(f, "{separator}{who}={cpus}")?;
        }
        Ok(())
    }
}

/// Why a text is not a placement, one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoPlacement(String);

/// The syntax, for messages to users.
pub const SYNTAX: &str = "VCPU[-VCPU]=CPUS or all=CPUS, CPUS being a list such as 0-3,8, cluster:N, capacity:max, capacity:min, auto or any";

fn wrong(word: &str, why: &str) -> NoPlacement {
    let word: String = word.chars().take(120).collect();
    NoPlacement(format!("{word:?}: {why}: write {SYNTAX}"))
}

fn plain_number(digits: &str, limit: u32) -> Option<u32> {
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| digits.parse().ok()).flatten().filter(|n| *n < limit)
}

fn vcpus(text: &str, word: &str) -> Result<Vec<Who>, NoPlacement> {
    if text == "all" {
        return Ok(vec![Who::All]);
    }
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |digits| plain_number(digits, PARACORD_SLOTS_MAX);
    match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last => Ok((first..=last).map(Who::Vcpu).collect()),
        _ => Err(wrong(word, &format!("names no vCPUs (0 to {})", PARACORD_SLOTS_MAX - 1))),
    }
}

fn cpus(text: &str, word: &str) -> Result<Cpus, NoPlacement> {
    if let Some(first) = text.strip_prefix("cluster:") {
        let why = || format!("a cluster is named by its first CPU, 0 to {}", CPUS_MAX - 1);
        return plain_number(first, CPUS_MAX).map(Cpus::Cluster).ok_or_else(|| wrong(word, &why()));
    }
    Ok(match text {
        "any" => Cpus::Any,
        "auto" => Cpus::Auto,
        "capacity:max" => Cpus::Largest,
        "capacity:min" => Cpus::Smallest,
        list => CpuMask::from_nonempty_list(list)
            .map(Cpus::List)
            .map_err(|_| wrong(word, "names no CPUs"))?,
    })
}

impl FromStr for Placement {
    type Err = NoPlacement;

    /// Parses words that are separated by white space. The word `auto` stands for `all=auto`. An
    /// empty text places no vCPU.
    fn from_str(text: &str) -> Result<Placement, NoPlacement> {
        let mut placement = Placement::default();
        for word in text.split_ascii_whitespace() {
            let (left, right) = match word {
                "auto" => ("all", "auto"),
                word => word.split_once('=').ok_or_else(|| wrong(word, "no placement"))?,
            };
            let cpus = cpus(right, word)?;
            for who in vcpus(left, word)? {
                if placement.0.insert(who, cpus).is_some() {
                    let whom = if who == Who::All { "all" } else { &format!("vCPU {who}") };
                    return Err(NoPlacement(format!("{whom} is placed twice: name each once")));
                }
            }
        }
        Ok(placement)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn error(text: &str) -> String {
        text.parse::<Placement>().unwrap_err().to_string()
    }

    #[test]
    fn what_is_not_named_itself_is_where_all_are() {
        let placement: Placement = " all=cluster:4  0-1=0-3,8 7=any ".parse().unwrap();
        assert_eq!(placement.of(1), Some(Cpus::List("0-3,8".parse().unwrap())));
        assert_eq!((placement.of(2), placement.of(7)), (Some(Cpus::Cluster(4)), Some(Cpus::Any)));
        assert_eq!(placement.named().collect::<Vec<_>>(), [0, 1, 7]);
        assert_eq!(placement.to_string(), "all=cluster:4 0=0-3,8 1=0-3,8 7=any");
        assert_eq!("auto".parse::<Placement>().unwrap().of(3), Some(Cpus::Auto));
        assert_eq!("0=1".parse::<Placement>().unwrap().of(1), None);
        assert!("".parse::<Placement>().unwrap().is_empty());
    }

    #[test]
    fn mistakes_are_one_line_that_names_the_word() {
        for (text, says) in [
            ("0", "\"0\": no placement: write VCPU"),
            ("x=1", "\"x=1\": names no vCPUs (0 to 4095)"),
            ("3-1=1", "\"3-1=1\": names no vCPUs"),
            ("0=", "\"0=\": names no CPUs"),
            ("0=3-1", "\"0=3-1\": names no CPUs"),
            ("0=1024", "names no CPUs"),
            ("0=cluster:big", "a cluster is named by its first CPU"),
            ("4096=0", "names no vCPUs"),
            ("0=capacity:mid", "names no CPUs"),
            ("0-2=1 2=3", "vCPU 2 is placed twice"),
            ("auto all=1", "all is placed twice"),
        ] {
            let line = error(text);
            assert!(line.contains(says) && line.lines().count() == 1, "{text:?}: {line}");
        }
        assert!(error(&format!("0={}", "x".repeat(10_000))).len() < 600);
    }

    fn any_cpus() -> impl Strategy<Value = Cpus> {
        prop_oneof![
            Just(Cpus::Any),
            Just(Cpus::Auto),
            Just(Cpus::Largest),
            Just(Cpus::Smallest),
            (0..CPUS_MAX).prop_map(Cpus::Cluster),
            prop::collection::btree_set(0..CPUS_MAX, 1..20)
                .prop_map(|cpus| Cpus::List(cpus.into_iter().collect())),
        ]
    }

    fn any_placement() -> impl Strategy<Value = Placement> {
        let who = prop_oneof![Just(Who::All), (0..PARACORD_SLOTS_MAX).prop_map(Who::Vcpu)];
        prop::collection::btree_map(who, any_cpus(), 0..20).prop_map(Placement)
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(placement in any_placement()) {
            prop_assert_eq!(placement.to_string().parse::<Placement>().unwrap(), placement);
        }

        #[test]
        fn no_text_panics_and_each_refusal_is_one_bounded_line(text in "[0-9a-z=:,\\- \\n\u{7f}-\u{ff}]{0,200}") {
            match text.parse::<Placement>() {
                Ok(placement) => prop_assert_eq!(placement.to_string().parse(), Ok(placement)),
                Err(refused) => {
                    let line = refused.to_string();
                    prop_assert!(line.lines().count() == 1 && line.len() < 2000, "{}", line);
                }
            }
        }
    }
}
