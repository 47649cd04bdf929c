# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""Statistics over a few interleaved rounds. They tolerate one bad round, and show the spread."""

import math
from collections.abc import Mapping, Sequence
from statistics import median

# The standard deviation of a normal distribution is 1.4826 times its median absolute deviation. The
# standard error of a median of n values is sqrt(pi/2) times the standard error of the mean (Huber,
# Robust Statistics).
MAD_TO_SIGMA = 1.4826
MEDIAN_EFFICIENCY = math.sqrt(math.pi / 2)

Histogram = Mapping[int, int]


class StatsError(ValueError):
    """The statistic cannot be computed from the numbers. The text says why."""


def median_error(values: Sequence[float]) -> float:
    """The standard error of the median of `values`, in their unit. Infinite for a single value."""
    if not values:
        raise StatsError("no rounds")
    if len(values) == 1:
        return math.inf
    centre = median(values)
    deviation = median(abs(v - centre) for v in values)
    return MEDIAN_EFFICIENCY * MAD_TO_SIGMA * deviation / math.sqrt(len(values))


def percentile(histogram: Histogram, share: float) -> float:
    """
    The smallest bucket value such that `share` (0..1) of the samples are at or below it. In the
    unit of the buckets.
    """
    total = sum(histogram.values())
    if total == 0:
        raise StatsError("empty histogram")
    wanted = math.ceil(share * total)
    seen = 0
    for value in sorted(histogram):
        seen += histogram[value]
        if seen >= wanted:
            return float(value)
    raise StatsError(f"share {share} is not in 0..1")


def undisturbed(pieces: Sequence[float], share: float) -> float:
    """
    The value below which `share` (0..1) of equal pieces of work stay. An emulator on a shared
    machine can only make a piece longer, so this value is the least disturbed one.
    """
    if not pieces:
        raise StatsError("no pieces")
    return sorted(pieces)[int(share * len(pieces))]


def merge(histograms: Sequence[Histogram]) -> dict[int, int]:
    """The sum of histograms, bucket by bucket."""
    merged: dict[int, int] = {}
    for histogram in histograms:
        for value, count in histogram.items():
            merged[value] = merged.get(value, 0) + count
    return merged


def excess_ratio(busy: float, idle: float, reference_busy: float, reference_idle: float) -> float:
    """
    The excess latency (busy - idle) relative to the reference's excess, all in one unit.

    A negative excess (lower latency on the busy host than on the idle one, which is noise) counts
    as 0. Raises StatsError if the reference has no excess. In this case the load had no effect, and
    a ratio would have no meaning.
    """
    reference = reference_busy - reference_idle
    if reference <= 0:
        raise StatsError(
            f"the reference shows no excess latency (busy {reference_busy:.0f}, idle {reference_idle:.0f})"
        )
    return max(0.0, (busy - idle) / reference)


def ratio(value: float, reference: float) -> float:
    """value / reference. StatsError if the reference is not positive."""
    if reference <= 0:
        raise StatsError(f"the reference is {reference:g}")
    return value / reference
