# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""cyclictest (rt-tests): the command of a measurement, and how to read its JSON."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

from .errors import LabError
from .stats import Histogram, StatsError, percentile

# There is one bucket per µs up to this value. A later wakeup is counted as an overflow, and still
# counts for avg and max. cyclictest prints every bucket, so many buckets would take an emulated
# guest seconds.
HISTOGRAM_US = 20_000
PRIORITY = 50
# Periods are longer than their nominal values by this part. 1000 and 2000 µs have a fixed phase to
# a tick of 4 ms. Chance would then decide for a whole run whether the tick has just woken the CPU
# that a wakeup needs.
DETUNE_PART = 180
# The period on the host, which is 997 after detuning. It has no fixed phase to the guests' periods
# either.
HOST_INTERVAL_US = 992
# The priority that cyclictest itself chooses for --policy=rr without a priority. Published
# measurements on hosts used it. It is lower than that of a boosted or static real-time vCPU, so a
# vCPU can delay the host's task.
HOST_PRIORITY = 2


class CyclictestError(LabError):
    """cyclictest's output is not a measurement."""


@dataclass(frozen=True)
class Latency:
    """The wakeup latency of one run, in µs. `histogram`: number of wakeups by µs."""

    avg_us: float
    max_us: float
    histogram: Histogram
    overflows: int

    @property
    def p99_us(self) -> float:
        total = sum(self.histogram.values())
        if self.overflows > 0.01 * (total + self.overflows):
            return self.max_us
        return percentile(self.histogram, 0.99 * (total + self.overflows) / total)


def detuned(interval_us: int) -> int:
    """The period that is used for a nominal interval of `interval_us` µs: see DETUNE_PART."""
    return interval_us + interval_us // DETUNE_PART


def command(name: str, interval_us: int, seconds: float, priority: int = PRIORITY) -> str:
    """
    Returns a shell command that measures and prints the JSON. The duration is given as a number of
    loops, so that a late wakeup is still measured. The interval is detuned by DETUNE_PART. Power
    management is not changed, because a guest must be allowed to halt.
    """
    interval_us = detuned(interval_us)
    loops = math.ceil(seconds * 1_000_000 / interval_us)
    file = f"/tmp/cyclictest-{name}.json"
    return (
        f"cyclictest -q -m --default-system -i {interval_us} -l {loops} --policy=rr -p {priority} "
        f"-h {HISTOGRAM_US} --histfile=/dev/null --json={file} >/tmp/cyclictest-{name}.log 2>&1 "
        f"|| {{ cat /tmp/cyclictest-{name}.log >&2; exit 1; }}; cat {file}"
    )


def parse(text: str) -> dict:
    """Returns the JSON object in `text`, after checking that it is a run of one thread."""
    try:
        data = json.loads(text[text.index("{") :])
        latency(data)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise CyclictestError(f"cyclictest gave no result: {text.strip()[-200:]!r}") from error
    return data


def latency(data: Mapping) -> Latency:
    """Reads cyclictest's JSON object (file_version 1)."""
    (thread,) = data["thread"].values()
    histogram = {int(us): int(count) for us, count in thread["histogram"].items()}
    cycles = int(thread.get("cycles", sum(histogram.values())))
    return Latency(
        avg_us=float(thread["avg"]),
        max_us=float(thread["max"]),
        histogram=histogram,
        overflows=max(0, cycles - sum(histogram.values())),
    )


def metrics(prefix: str, data: Mapping) -> dict[str, float]:
    """The avg, p99 and max of one run as metrics `<prefix>_avg_us`, …"""
    run = latency(data)
    try:
        p99_us = run.p99_us
    except StatsError as error:
        raise CyclictestError(f"{prefix}: {error}") from error
    return {f"{prefix}_avg_us": run.avg_us, f"{prefix}_p99_us": p99_us, f"{prefix}_max_us": run.max_us}
