# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
T1: cycles and instructions that a guest counts are those that its host counts of the vCPU's thread in guests.

The emulated host's clock counts instructions: only then it has a counter of them, and what else the machine
does is not in its counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from test_pmu import UNLIMITED, perf_stat, shares_of_hosts_counts

from paracord_lab import machine

pytestmark = [pytest.mark.lab, pytest.mark.measures, pytest.mark.arm64, pytest.mark.needs("emulated")]
CYCLES, INSTRUCTIONS = "paracord/cycles/", "paracord/instructions/"
# Each byte that it reads of a device's configuration is an exit to the VMM.
EXITS = "taskset 2 sh -c 'while :; do read -r x < /sys/bus/pci/devices/0000:00:00.0/config; done'"
SAME = pytest.approx(1, abs=0.02)


@pytest.fixture(scope="module")
def host() -> Iterator[machine.Host]:
    with machine.host(arch="aarch64", counted=True, logs=Path("out/test-pmu-counted/logs")) as booted:
        yield booted


@pytest.fixture(scope="module")
def guest(host: machine.Host) -> Iterator[machine.Guest]:
    with host.guest("counts", vcpus=2, vmm="paracord", extra_args=("--pmu", *UNLIMITED), perf=True) as booted:
        booted.load_module()
        yield booted


@pytest.fixture(scope="module")
def cpu_pmu(host: machine.Host) -> str:
    """The host's PMU of its CPUs, whose events of guests only are `{}/cpu_cycles/G`, `{}/inst_retired/G`."""
    return host.run("cd /sys/bus/event_source/devices && echo armv8_pmuv3*").out.strip()


def test_a_vcpu_that_computes(host: machine.Host, guest: machine.Guest, cpu_pmu: str) -> None:
    pairs = [(CYCLES, f"{cpu_pmu}/cpu_cycles/G"), (INSTRUCTIONS, f"{cpu_pmu}/inst_retired/G")]
    assert shares_of_hosts_counts(host, guest, pairs, "pc_hog --cpu 1", 3000) == [SAME, SAME]


def test_a_vcpu_whose_host_does_most_of_the_work(
    host: machine.Host, guest: machine.Guest, cpu_pmu: str
) -> None:
    """What KVM and the VMM do on the vCPU's thread is not in the guest's counts."""
    pairs = [
        (CYCLES, f"{cpu_pmu}/cpu_cycles/G"),
        (INSTRUCTIONS, f"{cpu_pmu}/inst_retired/G"),
        (INSTRUCTIONS, f"{cpu_pmu}/inst_retired/"),
    ]
    *own, of_thread = shares_of_hosts_counts(host, guest, pairs, EXITS, 1000)
    assert own == [SAME, SAME]
    assert of_thread < 0.6


def test_perf_counts_a_command(guest: machine.Guest) -> None:
    """The emulated CPU takes two cycles for each instruction."""
    said = perf_stat(guest, f"{CYCLES},{INSTRUCTIONS}", "pc_count task-clock --ms 500")
    cycles, instructions = int(said[CYCLES]), int(said[INSTRUCTIONS])
    assert cycles > 400e6
    assert cycles == pytest.approx(2 * instructions, rel=0.02)
