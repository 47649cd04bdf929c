// SPDX-License-Identifier: GPL-2.0-only
//! Histograms of durations, with powers of two as bounds.

use serde::{Deserialize, Serialize};

/// Number of buckets of a [`Histogram`] (`PC_HIST_BUCKETS`).
pub const HISTOGRAM_BUCKETS: usize = 32;

/// A histogram of durations: bucket n counts durations in [2^n, 2^(n+1)) ns, and bucket 0 also
/// counts 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    /// The counts of the buckets. Either there are [`HISTOGRAM_BUCKETS`] counts, or none.
    pub buckets: Vec<u64>,
}

impl Histogram {
    /// Number of values that were counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Returns the time in ns below which `permille` thousandths of the values lie. The result is
    /// the upper bound of the bucket that contains this time, so it is too high by at most a factor
    /// of two. Returns `None` if there are no values.
    pub fn percentile_ns(&self, permille: u32) -> Option<u64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let rank = (u128::from(count) * u128::from(permille.min(1000))).div_ceil(1000).max(1);
        let mut seen = 0u128;
        for (n, &bucket) in self.buckets.iter().enumerate() {
            seen += u128::from(bucket);
            if seen >= rank {
                return Some(1u64.checked_shl(n as u32 + 1).unwrap_or(u64::MAX));
            }
        }
        None
    }

    /// The counts since `earlier`, an older state of the same histogram.
    pub fn since(&self, earlier: &Histogram) -> Histogram {
        let old = earlier.buckets.iter().copied().chain(std::iter::repeat(0));
        Histogram {
            buckets: self.buckets.iter().zip(old).map(|(n, o)| n.saturating_sub(o)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_upper_ends() {
        let mut h = Histogram { buckets: vec![0; HISTOGRAM_BUCKETS] };
        assert_eq!(h.percentile_ns(500), None);
        h.buckets[10] = 99;
        h.buckets[20] = 1;
        assert_eq!(h.percentile_ns(500), Some(2048));
        assert_eq!(h.percentile_ns(990), Some(2048));
        assert_eq!(h.percentile_ns(999), Some(1 << 21));
        assert_eq!(h.percentile_ns(0), Some(2048));
    }
}
