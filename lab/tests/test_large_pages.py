# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""A host with pages of 16 KiB, and a guest with pages of 4 KiB whose region lies in its own memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from test_announce import boosts_by_a_realtime_task
from test_counters_in_memory import await_counters
from test_pmu import OWN_CLOCK, shares_of_hosts_counts

from paracord_lab import loads, machine, tree
from paracord_lab.daemon import REGION_IN_MEMORY, Daemon, counter
from paracord_lab.waiting import await_equal

pytestmark = [pytest.mark.lab, pytest.mark.arm64, pytest.mark.measures, pytest.mark.needs("emulated", "btf")]
PAGE_KIB = "awk '/^KernelPageSize/ { print $2; exit }' /proc/self/smaps"


@pytest.fixture(scope="module")
def host() -> Iterator[machine.Host]:
    kernel = tree.ensure("pages-16k", "aarch64")
    logs = Path("out/test-large-pages/logs")
    with (
        machine.host(arch="aarch64", logs=logs, kernel=kernel) as booted,
        loads.without_autogroups(booted),
    ):
        yield booted


@pytest.fixture(scope="module")
def guest(host: machine.Host, daemon: Daemon) -> Iterator[machine.Guest]:
    with host.guest("small-pages", vcpus=2, region=False, perf=True) as booted:
        daemon.await_vcpus(booted.vcpu_tids)
        booted.load_module()
        yield booted
        assert not booted.complaints()


def test_the_host_reads_and_writes_a_region_in_smaller_pages(
    host: machine.Host, guest: machine.Guest, daemon: Daemon
) -> None:
    assert [where.run(PAGE_KIB).out.strip() for where in (host, guest)] == ["16", "4"]

    def region() -> dict:
        (vm,) = daemon.status()["vms"]
        return vm["region"] or {}

    await_equal(lambda: region().get("name"), REGION_IN_MEMORY, 10)
    assert boosts_by_a_realtime_task(host, guest, daemon) >= 3
    assert counter(daemon.status(), "guest_read_errors") == 0
    assert region()["host_lines"]["writes"] > 10


def test_counts_reach_a_region_in_smaller_pages(host: machine.Host, guest: machine.Guest) -> None:
    await_counters(guest)
    assert shares_of_hosts_counts(host, guest, *OWN_CLOCK) == [pytest.approx(1, abs=0.02)]
