# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""Asks paracord-vmm (SIGUSR1) what its guest's counters have cost, and reads the answer."""

import re
from dataclasses import dataclass

from .errors import LabError
from .waiting import await_equal

# An answer begins with this text. The last line of a VM that ends begins differently.
RUNS = ": runs; "


@dataclass(frozen=True)
class Counting:
    """
    Counts since the VM began: perf events of the host, counters that were not served, time in
    system calls.
    """

    openings: int
    cold_openings: int
    refusals: int
    calls_us: int


def parse(line: str) -> Counting:
    """Parses the answer. LabError if it has no counts, because the VM has no --pmu."""
    words = ("perf events opened", "of these cold", "counters refused", "in system calls")
    found = [re.search(f"{word}: ([0-9]+)", line) for word in words]
    if not all(found):
        raise LabError(f"paracord-vmm does not report the cost of counters: {line!r}")
    return Counting(*(int(one[1]) for one in found))


def ask(host, guest) -> tuple[float, Counting]:
    """The time of the host's clock in s when the guest's VMM was asked, and the answer."""
    log = host.logs / f"{guest.name}.paracord.log"
    before = log.read_text().count(RUNS)
    asked_s = float(host.run(f"cut -d' ' -f1 /proc/uptime; kill -USR1 {guest.pid}", urgent=True).out)
    await_equal(lambda: log.read_text().count(RUNS), before + 1)
    return asked_s, parse(log.read_text()[log.read_text().rindex(RUNS) :])
