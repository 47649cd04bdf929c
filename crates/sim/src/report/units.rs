// SPDX-License-Identifier: GPL-2.0-only
//! Writes numbers for people.

use paracord_sim::time::{NS_PER_MS, NS_PER_S, NS_PER_US};

/// Nanoseconds as `12 ns`, `3.4 us`, `120 ms`, `2.0 s`.
pub fn duration(ns: u64) -> String {
    scaled(ns, &[(" ns", 1), (" us", NS_PER_US), (" ms", NS_PER_MS), (" s", NS_PER_S)])
}

/// A count as `0`, `999`, `12k`, `3.4M`.
pub fn count(n: u64) -> String {
    scaled(n, &[("", 1), ("k", 1_000), ("M", 1_000_000), ("G", 1_000_000_000)])
}

/// Nanoseconds as seconds, with as many digits as needed but at most three after the point: `8 s`,
/// `2.345 s`.
pub fn seconds(ns: u64) -> String {
    let text = format!("{}.{:03}", ns / NS_PER_S, ns / NS_PER_MS % 1000);
    format!("{} s", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Nanoseconds as seconds with all digits: `1.234567890 s`.
pub fn exact_seconds(ns: u64) -> String {
    format!("{}.{:09} s", ns / NS_PER_S, ns % NS_PER_S)
}

/// A share of a CPU in percent: `66.67`.
pub fn percent(share: f64) -> String {
    format!("{:.2}", share * 100.0)
}

/// A difference of shares, in percentage points: `+0.12`.
pub fn points(share: f64) -> String {
    let text = format!("{:+.2}", share * 100.0);
    if text == "-0.00" { "+0.00".to_owned() } else { text }
}

fn scaled(n: u64, units: &[(&str, u64)]) -> String {
    let fits = |(_, size): &&(&str, u64)| n >= *size;
    let (unit, size) = units.iter().rev().find(fits).copied().unwrap_or(units[0]);
    let (whole, tenth) = (n / size, n % size * 10 / size);
    if size > 1 && whole < 10 { format!("{whole}.{tenth}{unit}") } else { format!("{whole}{unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(duration(0), "0 ns");
        assert_eq!(duration(3_450), "3.4 us");
        assert_eq!(duration(120_000_000), "120 ms");
        assert_eq!(count(12_345), "12k");
        assert_eq!(seconds(8_000_000_000), "8 s");
        assert_eq!(seconds(2_345_678_901), "2.345 s");
        assert_eq!(seconds(0), "0 s");
        assert_eq!(exact_seconds(1_234_567_890), "1.234567890 s");
        assert_eq!(percent(0.666_67), "66.67");
        assert_eq!((points(-0.000_001), points(0.1)), ("+0.00".to_owned(), "+10.00".to_owned()));
    }
}
