# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""Statistics over a few interleaved rounds: robust to one bad round, honest about spread."""

import math
from collections.abc import Mapping, Sequence
from statistics import median

# A normal distribution's standard deviation is 1.4826 × its median absolute deviation, and a median of
# n values scatters by sqrt(pi/2) standard errors of the mean (Huber, Robust Statistics).
MAD_TO_SIGMA = 1.4826
MEDIAN_EFFICIENCY = math.sqrt(math.pi / 2)

Histogram = Mapping[int, int]


class StatsError(ValueError):
    """The numbers do not allow the statistic; the text says why."""


def median_error(values: Sequence[float]) -> float:
    """Standard error of the median of `values`, in their unit; infinite for a single value."""
    if not values:
        raise StatsError("no rounds")
    if len(values) == 1:
        return math.inf
    centre = median(values)
    deviation = median(abs(v - centre) for v in values)
    return MEDIAN_EFFICIENCY * MAD_TO_SIGMA * deviation / math.sqrt(len(values))


def percentile(histogram: Histogram, share: float) -> float:
    """Smallest bucket value below or at which `share` (0..1) of the samples lie; unit of the buckets."""
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
    The value that `share` (0..1) of equal pieces of work stay below: what an emulator on a shared machine
    does to a piece only ever makes it longer.
    """
    if not pieces:
        raise StatsError("no pieces")
    return sorted(pieces)[int(share * len(pieces))]


def merge(histograms: Sequence[Histogram]) -> dict[int, int]:
    """Sum of histograms, bucket by bucket."""
    merged: dict[int, int] = {}
    for histogram in histograms:
        for value, count in histogram.items():
            merged[value] = merged.get(value, 0) + count
    return merged


def excess_ratio(busy: float, idle: float, reference_busy: float, reference_idle: float) -> float:
    """
    Excess latency (busy - idle) relative to the reference's, all in one unit.

    Below zero (better on the busy host than on the idle one: noise) counts as 0. Raises StatsError when the
    reference has no excess: then the load did not load, and a ratio would mean nothing.
    """
    reference = reference_busy - reference_idle
    if reference <= 0:
        raise StatsError(
            f"the reference shows no excess latency (busy {reference_busy:.0f}, idle {reference_idle:.0f})"
        )
    return max(0.0, (busy - idle) / reference)


def ratio(value: float, reference: float) -> float:
    """value / reference; StatsError when the reference is not positive."""
    if reference <= 0:
        raise StatsError(f"the reference is {reference:g}")
    return value / reference
