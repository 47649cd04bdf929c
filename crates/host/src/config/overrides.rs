// SPDX-License-Identifier: GPL-2.0-only
//! What is said of one key, by a section or by `paracord vm set`.

use super::value::Value;

/// One key that a section or `paracord vm set` overrides, already checked;
/// [`super::parse_override`] makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    pub(super) key: String,
    pub(super) value: Value,
}

/// Adds to what was said before; what is said of a key again takes its place, or it would grow for ever.
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
