// SPDX-License-Identifier: GPL-2.0-only
//! Splits a file into lines: comments are removed, and each line is split into its first word and
//! its `key=value` words.

use std::ops::RangeInclusive;

use super::limits::LINE_MAX_BYTES;
use super::value::{self, duration, int, nearest, quoted};
use crate::time::Ns;

/// A line that declares something.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'t> {
    /// Number of the line, from 1.
    pub(super) number: usize,
    /// The first word, which says what the line declares.
    pub(super) word: &'t str,
    /// The rest of the line.
    pub(super) rest: &'t str,
}

/// The lines that are neither empty nor comments. An error consists of a line number and a reason.
pub(super) fn lines(text: &str) -> impl Iterator<Item = Result<Line<'_>, (usize, String)>> {
    text.split('\n').zip(1..).filter_map(|(line, number)| {
        if line.len() > LINE_MAX_BYTES {
            let bytes = line.len();
            let reason = format!("{bytes} bytes; write lines of at most {LINE_MAX_BYTES} bytes");
            return Some(Err((number, reason)));
        }
        let said = line.split_once('#').map_or(line, |(said, _)| said).trim_ascii();
        if said.is_empty() {
            return None;
        }
        let (word, rest) = said.split_once(|c: char| c.is_ascii_whitespace()).unwrap_or((said, ""));
        Some(Ok(Line { number, word, rest }))
    })
}

/// A key or flag that a line may have, and an example of it.
pub(super) struct Key(pub(super) &'static str, pub(super) &'static str);

/// The message about an unknown word. It contains the most similar known word, or all known words.
pub(super) fn unknown<'k>(
    what: &str,
    word: &str,
    known: impl Iterator<Item = &'k str> + Clone,
) -> String {
    let instead = match nearest(word, known.clone()) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("write one of {}", known.collect::<Vec<_>>().join(", ")),
    };
    format!("unknown {what} {}; {instead}", quoted(word))
}

/// The word of a line that must have exactly one word.
pub(super) fn one_word<'t>(what: &str, rest: &'t str, example: &str) -> Result<&'t str, String> {
    let mut words = rest.split_ascii_whitespace();
    match (words.next(), words.next()) {
        (Some(word), None) => Ok(word),
        (None, _) => Err(format!("{what} lacks its value; write for example {example}")),
        (Some(_), Some(more)) => {
            Err(format!("{} is one word too many; write for example {example}", quoted(more)))
        }
    }
}

/// Splits off the first word.
pub(super) fn first_word<'t>(
    what: &str,
    rest: &'t str,
    example: &str,
) -> Result<(&'t str, &'t str), String> {
    let rest = rest.trim_ascii();
    if rest.is_empty() {
        return Err(format!("{what} lacks its name; write for example {example}"));
    }
    Ok(rest.split_once(|c: char| c.is_ascii_whitespace()).unwrap_or((rest, "")))
}

/// The `key=value` words and flags of a line.
#[derive(Debug)]
pub(super) struct Keys<'t> {
    given: Vec<(&'static str, &'t str)>,
}

impl<'t> Keys<'t> {
    /// Reads the words after a line's positional words. A known key whose example has no `=` is a
    /// flag.
    pub(super) fn read(rest: &'t str, known: &'static [Key]) -> Result<Self, String> {
        let mut given: Vec<(&'static str, &'t str)> = Vec::new();
        for word in rest.split_ascii_whitespace() {
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (word, None),
            };
            let Some(Key(key, example)) = known.iter().find(|Key(key, _)| *key == name) else {
                if known.is_empty() {
                    return Err(format!("{} is one word too many; leave it out", quoted(word)));
                }
                return Err(unknown("key", name, known.iter().map(|Key(key, _)| *key)));
            };
            let value = match (value, example.contains('=')) {
                (None, false) => "",
                (Some(_), false) => return Err(format!("{key} has no value; write only {key}")),
                (None | Some(""), true) => {
                    return Err(format!("{key} lacks its value; write for example {example}"));
                }
                (Some(value), true) => value,
            };
            if given.iter().any(|(before, _)| before == key) {
                return Err(format!("{key} is given twice; write it once"));
            }
            given.push((key, value));
        }
        Ok(Self { given })
    }

    /// The keys and their values, in the order in which the line has them.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'static str, &'t str)> + '_ {
        self.given.iter().copied()
    }

    /// The value of a key, as a word.
    pub(super) fn word(&self, key: &str) -> Option<&'t str> {
        self.given.iter().find(|(name, _)| *name == key).map(|(_, value)| *value)
    }

    /// Whether the line has a flag.
    pub(super) fn flag(&self, key: &str) -> bool {
        self.word(key).is_some()
    }

    /// The value of a key as a whole number.
    pub(super) fn int(
        &self,
        key: &str,
        range: &RangeInclusive<i64>,
    ) -> Result<Option<i64>, String> {
        self.word(key).map(|word| int(key, word, range)).transpose()
    }

    /// The value of a key as a whole number that is not negative, or the default.
    pub(super) fn count<T: TryFrom<i64>>(
        &self,
        key: &str,
        range: &RangeInclusive<i64>,
        default: T,
    ) -> Result<T, String> {
        match self.int(key, range)? {
            None => Ok(default),
            Some(n) => T::try_from(n).map_err(|_| format!("{key}={n} is out of range")),
        }
    }

    /// The value of a key as a time.
    pub(super) fn time(&self, key: &str) -> Result<Option<Ns>, String> {
        let word = self.word(key);
        word.map(|word| duration(word).map_err(|e| format!("{key}: {e}"))).transpose()
    }

    /// The value of a key as a time. The line must have the key.
    pub(super) fn needed_time(&self, key: &str, example: &str) -> Result<Ns, String> {
        self.time(key)?.ok_or_else(|| format!("{key} is missing; write for example {example}"))
    }

    /// The value of a key as a set of CPUs.
    pub(super) fn cpus(&self, key: &str) -> Result<Option<crate::machine::CpuSet>, String> {
        self.word(key).map(value::cpus).transpose()
    }
}
