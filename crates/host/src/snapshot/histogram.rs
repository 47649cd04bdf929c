// SPDX-License-Identifier: GPL-2.0-only
//! Durations counted by powers of two.

use serde::{Deserialize, Serialize};

/// Buckets of a [`Histogram`] (`PC_HIST_BUCKETS`).
pub const HISTOGRAM_BUCKETS: usize = 32;

/// A histogram in powers of two: bucket n counts [2^n, 2^(n+1)) ns, bucket 0 also 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    /// Counts; [`HISTOGRAM_BUCKETS`] of them, or none at all.
    pub buckets: Vec<u64>,
}

impl Histogram {
    /// How many values were counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Nanoseconds below which `permille` of the values lie: the upper end of
    /// the bucket that holds the value, so it errs high by at most a factor
    /// of two. `None` without values.
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

    /// Counts since `earlier`, an older state of the same histogram.
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
