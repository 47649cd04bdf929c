# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""T1: a VM whose guest counts leaves no perf event on its host, however it ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from paracord_lab import machine
from paracord_lab.waiting import await_equal

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.measures, pytest.mark.needs("perf_events")]
EVENTS = "paracord/task-clock/,paracord/page-faults/u,paracord/cpu-clock/"


@pytest.fixture(scope="module")
def host() -> Iterator[machine.Host]:
    with machine.host(logs=Path("out/test-pmu-leak/logs")) as booted:
        yield booted


def open_events(host: machine.Host) -> int:
    """Perf events that programs of the host have open."""
    found = host.run(r"find /proc/[0-9]*/fd -lname 'anon_inode:\[perf_event\]' 2>/dev/null | wc -l")
    return int(found.out)


@pytest.mark.parametrize("end", ["power off", "TERM", "KILL"])
def test_a_vm_leaves_no_event(host: machine.Host, end: str) -> None:
    before = open_events(host)
    with host.guest(
        "leaves", vcpus=1, vmm="paracord", extra_args=("--pmu", "--pmu-budget-ms", "50000")
    ) as guest:
        guest.load_module()
        guest.spawn(f"exec pc_count {EVENTS} --ms 600000", "counts")
        await_equal(lambda: open_events(host) >= before + 3, True)
        if end == "power off":
            guest.stop()
        else:
            guest.kill(end)
    assert open_events(host) == before
