// SPDX-License-Identifier: GPL-2.0-only
//! Words that stand for values: numbers, times, spans, quotas, names, sets of CPUs. This file reads
//! them, writes them, and refuses them if they are out of range.

use std::fmt::{self, Write};
use std::ops::RangeInclusive;

use super::limits::{NAME_MAX_BYTES, PATH_MAX_BYTES, RUN_MAX_NS};
use super::{FOREVER, Quota, Span};
use crate::machine::CpuSet;
use crate::time::{NS_PER_MS, NS_PER_S, NS_PER_US, Ns};

/// Largest first: a time is written in the first that divides it.
const UNITS: [(&str, Ns); 4] = [("s", NS_PER_S), ("ms", NS_PER_MS), ("us", NS_PER_US), ("ns", 1)];

/// Quotes a word of the file for a message: one line of limited length, whatever the word contains.
pub(super) fn quoted(word: &str) -> String {
    const SHOWN_CHARS: usize = 60;
    let mut shown: String = word.chars().take(SHOWN_CHARS).flat_map(char::escape_debug).collect();
    if word.chars().nth(SHOWN_CHARS).is_some() {
        shown.push_str("...");
    }
    format!("'{shown}'")
}

/// Finds the known word that is most similar to `word`, if one is similar enough.
pub(super) fn nearest<'n>(word: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    if word.len() > PATH_MAX_BYTES {
        return None;
    }
    known
        .map(|k| (strsim::damerau_levenshtein(k, word), k))
        .filter(|(distance, k)| *distance <= 2.min(k.len() / 2).max(k.len() / 3))
        .min()
        .map(|(_, k)| k)
}

/// Reads a whole number in a range.
pub(super) fn int(key: &str, word: &str, range: &RangeInclusive<i64>) -> Result<i64, String> {
    let (least, most) = (range.start(), range.end());
    let instead = format!("write a whole number from {least} to {most}");
    let digits = word.strip_prefix('-').unwrap_or(word);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("{key}={}: not a whole number; {instead}", quoted(word)));
    }
    let value =
        word.parse().map_err(|_| format!("{key}={}: too large; {instead}", quoted(word)))?;
    within(key, value, range)?;
    Ok(value)
}

/// Reads a seed: any 64-bit number, in decimal.
pub(super) fn seed(word: &str) -> Result<u64, String> {
    let digits = word.bytes().all(|b| b.is_ascii_digit());
    let value = if digits { word.parse().ok() } else { None };
    value.ok_or_else(|| {
        format!("{} is not a seed; write a whole number from 0 to {}", quoted(word), u64::MAX)
    })
}

/// Reads a time such as `1.5ms`, which is at most [`RUN_MAX_NS`].
pub(super) fn duration(word: &str) -> Result<Ns, String> {
    let shown = quoted(word);
    if let Some(rest) = word.strip_prefix('-') {
        let instead = if duration(rest).is_ok() { rest } else { "5ms" };
        return Err(format!("{shown}: times are not negative; write for example {instead}"));
    }
    let unit_at = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
    let (number, unit) = word.split_at(unit_at);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || fraction.is_empty() || fraction.contains('.') {
        return Err(format!("{shown} is not a time; write a number and a unit, such as 1.5ms"));
    }
    if unit.is_empty() {
        return Err(format!("{shown} has no unit; write ns, us, ms or s after it"));
    }
    let Some((_, unit_ns)) = UNITS.into_iter().find(|(name, _)| *name == unit) else {
        return Err(format!("{shown}: unknown unit {}; write ns, us, ms or s", quoted(unit)));
    };
    let most = time(RUN_MAX_NS);
    let long = || format!("{shown} is too long; no time of a mix is longer than {most}");
    let whole_ns =
        whole.parse::<Ns>().ok().and_then(|n| n.checked_mul(unit_ns)).ok_or_else(long)?;
    let fine = || format!("{shown} is finer than a nanosecond; write a whole number of ns");
    let fraction_ns = fraction_ns(fraction, unit_ns).ok_or_else(fine)?;
    // The fraction is part of one unit, and the largest unit is a second.
    whole_ns.checked_add(fraction_ns).filter(|ns| *ns <= RUN_MAX_NS).ok_or_else(long)
}

/// The digits after the point, in nanoseconds. `None` if this is not a whole number.
fn fraction_ns(digits: &str, unit_ns: Ns) -> Option<Ns> {
    let digits = digits.trim_end_matches('0');
    let mut rest_ns = unit_ns;
    let mut sum_ns = 0;
    for digit in digits.bytes() {
        if rest_ns % 10 != 0 {
            return None;
        }
        rest_ns /= 10;
        sum_ns += Ns::from(digit - b'0') * rest_ns;
    }
    Some(sum_ns)
}

/// Writes a time in the largest unit that divides it.
pub(super) fn time(ns: Ns) -> impl fmt::Display {
    let (unit, unit_ns) = match ns {
        0 => ("ns", 1),
        _ => UNITS.into_iter().find(|(_, unit_ns)| ns % unit_ns == 0).unwrap_or(("ns", 1)),
    };
    format!("{}{unit}", ns / unit_ns)
}

/// Reads `T` or `T..T`.
pub(super) fn span(word: &str) -> Result<Span, String> {
    let (min, max) = word.split_once("..").unwrap_or((word, word));
    let (min_ns, max_ns) = (duration(min)?, duration(max)?);
    if min_ns > max_ns {
        return Err(format!("{} ends before it begins; write {max}..{min}", quoted(word)));
    }
    Ok(Span { min_ns, max_ns })
}

/// Writes what [`span`] reads, and `forever`.
pub(super) fn span_text(span: Span) -> String {
    match span {
        Span { min_ns: FOREVER, .. } => "forever".to_owned(),
        Span { min_ns, max_ns } if min_ns == max_ns => time(min_ns).to_string(),
        Span { min_ns, max_ns } => format!("{}..{}", time(min_ns), time(max_ns)),
    }
}

/// Reads `QUOTA/PERIOD` or `max`. `burst_ns` comes from another key.
pub(super) fn quota(word: &str, burst_ns: Option<Ns>) -> Result<Option<Quota>, String> {
    if word == "max" {
        return match burst_ns {
            None => Ok(None),
            Some(_) => Err("burst without a limit; leave burst out, or write a quota".to_owned()),
        };
    }
    let Some((quota, period)) = word.split_once('/') else {
        let shown = quoted(word);
        return Err(format!("quota={shown} has no period; write for example quota=30ms/100ms"));
    };
    let (quota_ns, period_ns) = (duration(quota)?, duration(period)?);
    Ok(Some(Quota { quota_ns, period_ns, burst_ns: burst_ns.unwrap_or(0) }))
}

/// Writes `quota=… burst=…`: what [`quota`] reads, with the keys.
pub(super) fn quota_text(quota: Option<Quota>) -> String {
    let Some(Quota { quota_ns, period_ns, burst_ns }) = quota else {
        return "quota=max".to_owned();
    };
    let mut text = format!("quota={}/{}", time(quota_ns), time(period_ns));
    if burst_ns != 0 {
        // Writing to a String cannot fail.
        let _ = write!(text, " burst={}", time(burst_ns));
    }
    text
}

/// Reads a set of CPUs. A later check compares it with the machine.
pub(super) fn cpus(word: &str) -> Result<CpuSet, String> {
    word.parse().map_err(|_| {
        format!(
            "cpus={}: not a list of CPUs below 1024; write for example cpus=0-3,8",
            quoted(word)
        )
    })
}

/// Checks that a word can be a name.
pub(super) fn name(word: &str) -> Result<(), String> {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    if word.is_empty() || word.len() > NAME_MAX_BYTES || !word.bytes().all(fits) {
        return Err(format!(
            "{} is not a name; write up to {NAME_MAX_BYTES} letters, digits, '-' and '_'",
            quoted(word)
        ));
    }
    Ok(())
}

/// Checks that a word can be the path of a group.
pub(super) fn path(word: &str) -> Result<(), String> {
    if word.len() > PATH_MAX_BYTES {
        let shown = quoted(word);
        return Err(format!("{shown} is too long; a path has at most {PATH_MAX_BYTES} letters"));
    }
    if word.starts_with('/') || word.ends_with('/') {
        let shown = quoted(word);
        return Err(format!(
            "{shown} is not the path of a group; write it without outer slashes: web/a"
        ));
    }
    word.split('/').try_for_each(name)
}

/// Checks that a number is in its range.
pub(super) fn within(key: &str, value: i64, range: &RangeInclusive<i64>) -> Result<(), String> {
    if range.contains(&value) {
        return Ok(());
    }
    let (least, most) = (range.start(), range.end());
    Err(format!("{key}={value} is out of range; write a number from {least} to {most}"))
}

/// Checks that a time is in its range.
pub(super) fn within_ns(key: &str, value: Ns, range: &RangeInclusive<Ns>) -> Result<(), String> {
    if range.contains(&value) {
        return Ok(());
    }
    let (value, least, most) = (time(value), time(*range.start()), time(*range.end()));
    Err(format!("{key}={value} is out of range; write a time from {least} to {most}"))
}

/// Checks that the number of entries of a kind does not exceed its limit.
pub(super) fn at_most(what: &str, count: u64, most: u64) -> Result<(), String> {
    if count <= most {
        return Ok(());
    }
    Err(format!("{what}: {count} in all is too many; a mix has at most {most}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_exactly() {
        for (word, ns) in [
            ("0ns", 0),
            ("7ns", 7),
            ("1us", 1_000),
            ("1.5ms", 1_500_000),
            ("0.000000001s", 1),
            ("1.50s", 1_500_000_000),
            ("3600s", RUN_MAX_NS),
        ] {
            assert_eq!(duration(word), Ok(ns), "{word}");
            assert_eq!(duration(&time(ns).to_string()), Ok(ns), "{word}");
        }
        for (word, says) in [
            ("5", "has no unit"),
            ("", "is not a time"),
            ("ms", "is not a time"),
            (".5ms", "is not a time"),
            ("1.ms", "is not a time"),
            ("1..5ms", "is not a time"),
            ("-5ms", "times are not negative; write for example 5ms"),
            ("5m", "unknown unit 'm'"),
            ("1.5ns", "finer than a nanosecond"),
            ("0.0000000001s", "finer than a nanosecond"),
            ("3601s", "too long"),
            ("99999999999999999999s", "too long"),
            ("18446744073709551615s", "too long"),
        ] {
            let e = duration(word).expect_err(word);
            assert!(e.contains(says), "{word}: {e}");
        }
    }

    #[test]
    fn quoted_words_stay_on_one_line() {
        assert_eq!(quoted("a\u{b}\nb"), "'a\\u{b}\\nb'");
        assert!(quoted(&"\u{2028}".repeat(5000)).len() < 1000);
    }
}
