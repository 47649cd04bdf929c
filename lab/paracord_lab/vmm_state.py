# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""What paracord-vmm says when it is asked (SIGUSR1) what its guest's counters took."""

import re
from dataclasses import dataclass

from .errors import LabError
from .waiting import await_equal

# Begins an answer's text; the last line of a VM that ends has another word.
RUNS = ": runs; "


@dataclass(frozen=True)
class Counting:
    """Since the VM began: perf events of the host, counters that were not served, time in system calls."""

    openings: int
    cold_openings: int
    refusals: int
    calls_us: int


def parse(line: str) -> Counting:
    """LabError when the line does not say it: a VM without --pmu."""
    words = ("perf events opened", "of these cold", "counters refused", "in system calls")
    found = [re.search(f"{word}: ([0-9]+)", line) for word in words]
    if not all(found):
        raise LabError(f"paracord-vmm does not say what counting took: {line!r}")
    return Counting(*(int(one[1]) for one in found))


def ask(host, guest) -> tuple[float, Counting]:
    """The host's clock in s when the guest's VMM was asked, and what it said."""
    log = host.logs / f"{guest.name}.paracord.log"
    before = log.read_text().count(RUNS)
    asked_s = float(host.run(f"cut -d' ' -f1 /proc/uptime; kill -USR1 {guest.pid}", urgent=True).out)
    await_equal(lambda: log.read_text().count(RUNS), before + 1)
    return asked_s, parse(log.read_text()[log.read_text().rindex(RUNS) :])
