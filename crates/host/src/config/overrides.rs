// SPDX-License-Identifier: GPL-2.0-only
//! Values of single keys, set by a section or by `paracord vm set`.

use super::value::Value;

/// One key that a section or `paracord vm set` overrides, with its checked value.
/// [`super::parse_override`] creates an override.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    pub(super) key: String,
    pub(super) value: Value,
}

/// Adds `new` to the earlier overrides. A new value of a key replaces the old one; otherwise the
/// list would grow forever.
pub fn say(before: &mut Vec<Override>, new: Vec<Override>) {
    for one in new {
        before.retain(|other| other.key != one.key);
        before.push(one);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::config::parse_override;

    #[test]
    fn what_is_said_again_takes_the_place_of_what_was_said_before() {
        let one = |key, value| parse_override(key, value).unwrap();
        let mut said = vec![one("vcpu_budget_pct", "10"), one("mode", "off")];
        say(&mut said, vec![one("vcpu_budget_pct", "20"), one("wake.grant_us", "5")]);
        say(&mut said, vec![one("vcpu_budget_pct", "30")]);
        let want = [one("mode", "off"), one("wake.grant_us", "5"), one("vcpu_budget_pct", "30")];
        assert_eq!(said, want);
    }
}
