# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""T1: an x86 host whose firmware describes P-states: frequencies follow the load under either scheduler."""

import statistics
from contextlib import nullcontext

import pytest

from paracord_lab.boards import X86PStates
from paracord_lab.daemon import Daemon
from paracord_lab.host_share import running
from paracord_lab.sched_ext import await_scheduler

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.measures, pytest.mark.needs("emulated")]
CPU, OTHER_CPU = 1, 2
POLICY = f"/sys/devices/system/cpu/cpufreq/policy{CPU}"
LIGHT = f"cyclictest -q -m --policy=other -i 8000 -a {CPU}"
HEAVY = f"taskset -c {CPU} pc_hog"


@pytest.fixture(scope="module")
def host(shared_host):
    return shared_host(board=X86PStates.name)


def mhz_under(host, load):
    """The CPU's usual frequency under a load. Looked at from another one: each program is a load."""
    look = f"sleep 1; for i in {{1..21}}; do cat {POLICY}/scaling_cur_freq; sleep 0.1; done"
    with running(host, load, "load"):
        said = host.run(f"taskset -c {OTHER_CPU} bash -c '{look}'").out
    return statistics.median(map(int, said.split())) / 1000


def test_the_firmwares_table_is_the_kernels(host):
    read = host.run(f"cd {POLICY}; cat scaling_driver scaling_governor scaling_available_frequencies").out
    driver, governor, frequencies = read.splitlines()
    assert (driver, governor) == ("acpi-cpufreq", "schedutil")
    assert [int(khz) / 1000 for khz in frequencies.split()] == list(X86PStates.mhz)


@pytest.mark.parametrize("is_ext", [False, True], ids=["stock", "ext"])
def test_frequencies_follow_the_load(host, is_ext):
    with Daemon(host, {"actuator": "ext"}).start() if is_ext else nullcontext():
        await_scheduler(host, is_ext)
        found = [mhz_under(host, load) for load in (LIGHT, HEAVY, LIGHT)]
    assert found == [X86PStates.mhz[-1], X86PStates.mhz[0], X86PStates.mhz[-1]]


def test_requests_end_and_begin_with_the_configuration(host):
    """Without requests the frequency is the highest, and nothing of them is left behind."""
    lowest, highest = X86PStates.mhz[-1], X86PStates.mhz[0]
    with Daemon(host, {"actuator": "ext"}).start() as running_daemon:
        await_scheduler(host, True)
        found = [mhz_under(host, LIGHT)]
        for requests in (False, True):
            running_daemon.reload({"perf.requests": requests})
            host.run("sleep 1")
            found.append(mhz_under(host, LIGHT))
    assert found == [lowest, highest, lowest]
