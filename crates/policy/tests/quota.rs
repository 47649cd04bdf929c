// SPDX-License-Identifier: GPL-2.0-only
//! Quotas: over a long time, a group gets what its quota allows, no matter how late overruns are
//! noticed.

use paracord_policy::pc_quota;
use paracord_policy::quota::{again_ns, give, is_set, portion_ns, refill, take};
use proptest::prelude::*;

const MS: u64 = 1_000_000;

fn quota(quota_ns: u64, period_ns: u64, burst_ns: u64) -> pc_quota {
    pc_quota { quota_ns, period_ns, burst_ns, left_ns: quota_ns as i64, ..pc_quota::default() }
}

#[test]
fn max_and_garbage_are_no_limits() {
    assert!(is_set(1000, 100 * MS) && is_set(5_000 * MS, 100 * MS));
    assert!(!is_set(u64::MAX, 100 * MS) && !is_set(30 * MS, 0) && !is_set(30 * MS, u64::MAX));
}

#[test]
fn a_pool_has_one_quota_per_period() {
    let mut q = quota(30 * MS, 100 * MS, 0);
    assert_eq!(take(&mut q, 20 * MS), 20 * MS);
    assert_eq!(take(&mut q, 20 * MS), 10 * MS, "the rest of the pool");
    assert_eq!(take(&mut q, 1), 0);
    refill(&mut q, 99 * MS);
    assert_eq!(take(&mut q, 1), 0, "the next period has not begun");
    refill(&mut q, 350 * MS);
    assert_eq!(q.period_at_ns, 300 * MS);
    assert_eq!(take(&mut q, 60 * MS), 30 * MS, "unused quota is lost");
}

#[test]
fn a_burst_keeps_what_was_left() {
    let mut q = quota(30 * MS, 100 * MS, 20 * MS);
    refill(&mut q, 100 * MS);
    assert_eq!(take(&mut q, 100 * MS), 50 * MS);
}

#[test]
fn a_debt_takes_as_many_periods_as_it_is_worth() {
    let mut q = quota(MS, 1000 * MS, 0);
    give(&mut q, -(5 * MS as i64));
    assert_eq!(q.left_ns, -4 * MS as i64);
    assert_eq!(again_ns(&q), 5000 * MS);
    refill(&mut q, 4000 * MS);
    assert_eq!(take(&mut q, MS), 0);
    refill(&mut q, 5000 * MS);
    assert_eq!(take(&mut q, MS), MS);
}

#[test]
fn portions_of_small_quotas_are_small() {
    assert_eq!(portion_ns(&quota(100 * MS, 100 * MS, 0)), 5 * MS);
    assert_eq!(portion_ns(&quota(8 * MS, 100 * MS, 0)), MS);
    assert_eq!(portion_ns(&quota(1000, 100 * MS, 0)), MS);
}

proptest! {
    /// CPUs take portions from the pool, overrun them by up to a tick, and pay the overruns back.
    #[test]
    fn over_time_a_group_has_its_quota(
        percent in 1u64..300, period_ms in 1u64..200, overruns in prop::collection::vec(0u64..4 * MS, 400),
    ) {
        let quota_ns = period_ms * MS * percent / 100;
        let mut q = quota(quota_ns, period_ms * MS, 0);
        let (mut now, mut ran) = (0, 0u64);
        for overrun in overruns.iter().cycle().take(20_000) {
            refill(&mut q, now);
            let wanted = portion_ns(&q);
            let got = take(&mut q, wanted);
            if got == 0 {
                prop_assert!(again_ns(&q) > now);
                now = again_ns(&q);
                continue;
            }
            let one = got + overrun;
            give(&mut q, -(*overrun as i64));
            ran += one;
            now += one / 4;
        }
        let most = (now / (period_ms * MS) + 1) * quota_ns + 4 * MS;
        prop_assert!(ran <= most, "ran {ran} of {most}");
    }

    #[test]
    fn any_record_is_survived(
        quota_ns in 0..1u64 << 44, period_ns in 1..1000 * MS, burst_ns: u64, left_ns: i64, period_at_ns: u64, now: u64,
        wanted in 0..1u64 << 44,
    ) {
        prop_assert!(is_set(quota_ns, period_ns));
        let left_ns = left_ns / 4;
        let mut q = pc_quota { quota_ns, period_ns, burst_ns, left_ns, period_at_ns, ..pc_quota::default() };
        refill(&mut q, now);
        let got = take(&mut q, wanted);
        prop_assert!(got <= wanted);
        let _ = again_ns(&q);
    }
}
