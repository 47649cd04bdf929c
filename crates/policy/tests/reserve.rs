// SPDX-License-Identifier: GPL-2.0-only
//! Boosts use the part of a quota that is left. Over any interval, a group gets at most its quota,
//! plus the maximum of its reserve once.

use paracord_policy::reserve::next;
use proptest::prelude::*;

const MS: u64 = 1_000_000;

#[test]
fn who_uses_the_quota_up_has_nothing_for_boosts() {
    let mut left = 0;
    for _ in 0..100 {
        left = next(left, 20 * MS, 20 * MS, 20 * MS);
        assert_eq!(left, 0);
    }
    assert_eq!(next(left, 20 * MS, 5 * MS, 20 * MS), 15 * MS as i64);
}

#[test]
fn what_was_used_too_much_is_owed() {
    let left = next(0, 20 * MS, 50 * MS, 20 * MS);
    assert_eq!(left, -30 * MS as i64);
    assert_eq!(next(left, 20 * MS, 0, 20 * MS), -10 * MS as i64);
    assert_eq!(
        next(left, 20 * MS, 1000 * MS, 20 * MS),
        -320 * MS as i64,
        "the debt is limited to 16 times the maximum"
    );
}

proptest! {
    /// The reserve is updated at random intervals. Between two updates, the group runs in the fair
    /// class within its quota, and boosts use at most the reserve that is left.
    #[test]
    fn over_any_time_a_group_has_its_quota(
        percent in 1u64..300, burst_ms in 0u64..50,
        looks in prop::collection::vec((50u64..400, 0u64..=100, 0u64..=100), 1..300),
    ) {
        let quota_ns = |ns: u64| ns * percent / 100;
        let most = quota_ns(100 * MS) + burst_ms * MS;
        let (mut left, mut used, mut time) = (0i64, 0u64, 0u64);
        for (ms, wants, boosts) in looks {
            let granted = quota_ns(ms * MS);
            let boosted = u64::try_from(left).unwrap_or(0) * boosts / 100;
            let ran = granted * wants / 100 + boosted;
            left = next(left, granted, ran, most);
            (used, time) = (used + ran, time + ms * MS);
            prop_assert!(left <= most as i64);
            prop_assert!(used <= quota_ns(time) + most, "{used} of {}", quota_ns(time));
        }
    }

    #[test]
    fn any_numbers_are_survived(left: i64, granted: u64, used: u64, most: u64) {
        let next = next(left, granted, used, most);
        prop_assert!(next <= most.min(1 << 44) as i64);
    }
}
