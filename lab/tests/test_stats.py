# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
import math

import pytest

from paracord_lab import stats


def test_median_error_of_one_round_is_unknown():
    assert math.isinf(stats.median_error([3.0]))


def test_median_error_ignores_one_bad_round():
    assert stats.median_error([0.05, 0.06, 9.0]) < 0.02


def test_median_error_grows_with_spread():
    assert stats.median_error([1.0, 2.0, 3.0]) > stats.median_error([1.9, 2.0, 2.1])


def test_percentile_counts_samples_not_buckets():
    histogram = {10: 990, 5000: 9, 90000: 1}
    assert stats.percentile(histogram, 0.5) == 10
    assert stats.percentile(histogram, 0.99) == 10
    assert stats.percentile(histogram, 0.991) == 5000
    assert stats.percentile(histogram, 1.0) == 90000


def test_percentile_of_nothing_is_an_error():
    with pytest.raises(stats.StatsError, match="empty"):
        stats.percentile({}, 0.99)


def test_merge_adds_counts():
    assert stats.merge([{1: 2, 3: 1}, {3: 4}]) == {1: 2, 3: 5}


def test_excess_ratio_takes_the_idle_floor_away():
    # 300 µs emulator floor: 330 against 900 busy is 5 % of the excess, not 37 %.
    assert stats.excess_ratio(330, 300, 900, 300) == pytest.approx(0.05)


def test_excess_ratio_below_the_floor_counts_as_none():
    assert stats.excess_ratio(290, 300, 900, 300) == 0


def test_excess_ratio_needs_a_load_that_loads():
    with pytest.raises(stats.StatsError, match="no excess"):
        stats.excess_ratio(330, 300, 299, 300)


def test_ratio_needs_a_reference():
    with pytest.raises(stats.StatsError):
        stats.ratio(1.0, 0.0)
