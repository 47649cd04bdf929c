// SPDX-License-Identifier: GPL-2.0-only
//! Formats numbers for people, with few digits and a unit.

use paracord_host::snapshot::Histogram;

/// Nanoseconds as `12ns`, `3.4µs`, `120ms`, `2.0s`.
pub fn duration(ns: u64) -> String {
    scaled(ns, &[("ns", 1), ("µs", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)])
}

/// Seconds as `42s`, `5m12s`, `3h04m`, `2d03h`.
pub fn uptime(s: u64) -> String {
    match s {
        0..60 => format!("{s}s"),
        60..3600 => format!("{}m{:02}s", s / 60, s % 60),
        3600..86_400 => format!("{}h{:02}m", s / 3600, s / 60 % 60),
        _ => format!("{}d{:02}h", s / 86_400, s / 3600 % 24),
    }
}

/// A count as `0`, `999`, `12k`, `3.4M`.
pub fn count(n: u64) -> String {
    scaled(n, &[("", 1), ("k", 1_000), ("M", 1_000_000), ("G", 1_000_000_000)])
}

fn scaled(n: u64, units: &[(&str, u64)]) -> String {
    let fits = |(_, size): &&(&str, u64)| n >= *size;
    let (unit, size) = units.iter().rev().find(fits).copied().unwrap_or(units[0]);
    let (whole, tenth) = (n / size, n % size * 10 / size);
    if size > 1 && whole < 10 { format!("{whole}.{tenth}{unit}") } else { format!("{whole}{unit}") }
}

/// A percentile with its unit; `-` if the histogram is empty.
pub fn percentile(h: &Histogram, permille: u32) -> String {
    h.percentile_ns(permille).map_or_else(|| "-".to_owned(), duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        assert_eq!(duration(0), "0ns");
        assert_eq!(duration(999), "999ns");
        assert_eq!(duration(3_450), "3.4µs");
        assert_eq!(duration(120_000_000), "120ms");
        assert_eq!(duration(u64::MAX), "18446744073s");
        assert_eq!(count(12_345), "12k");
        assert_eq!(count(3_400_000), "3.4M");
        assert_eq!(uptime(3_700), "1h01m");
        assert_eq!(uptime(200_000), "2d07h");
    }
}
