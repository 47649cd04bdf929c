# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""T1: a guest of an unmodified QEMU counts with perf events of its host, which the daemon serves."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_pmu import CLOCK, PMU_FEATURE, STATE, batches, count, counts_of, share_of_hosts_count

from paracord_lab import machine
from paracord_lab.daemon import Daemon

pytestmark = pytest.mark.lab
# System calls take a hundred times longer on an emulated host.
UNLIMITED = {"counters.budget_ms": 1000, "counters.openings": 100000}


@pytest.fixture(scope="module")
def host() -> Iterator[machine.Host]:
    with machine.host(logs=Path("out/test-pmu-daemon/logs")) as booted:
        yield booted


@pytest.fixture(scope="module")
def daemon(host: machine.Host) -> Iterator[Daemon]:
    with Daemon(host, UNLIMITED) as running:
        yield running.start()


@pytest.fixture(scope="module")
def guest(host: machine.Host, daemon: Daemon) -> Iterator[machine.Guest]:
    with host.guest("counted", vcpus=2, region="--counters") as booted:
        daemon.await_vcpus(booted.vcpu_tids)
        booted.load_module()
        yield booted


def test_a_cpus_count_is_the_hosts_own(host: machine.Host, guest: machine.Guest) -> None:
    assert int(guest.run(f"cat {STATE}/features").out, 16) & PMU_FEATURE
    assert share_of_hosts_count(host, guest) == pytest.approx(1, abs=0.02)


def test_tasks_share_a_cpu(guest: machine.Guest) -> None:
    """No batch is without an answer: the worker comes before the guest, or is waited for."""
    before = batches(guest)
    counts = [one.count for one in count(guest, [CLOCK], "--ms 500 --cpu 1 --tasks 4")]
    assert counts == pytest.approx([statistics.mean(counts)] * 4, rel=0.3)
    assert batches(guest) - before >= 8


def test_more_events_than_counters_take_turns(guest: machine.Guest) -> None:
    counts = count(guest, [CLOCK] * 20, "--ms 1500 --cpu 1")
    assert all(0 < one.running_ns < one.enabled_ns for one in counts)
    assert sum(one.running_ns for one in counts) / sum(one.enabled_ns for one in counts) == pytest.approx(
        0.8, abs=0.2
    )


def test_nothing_is_sampled(guest: machine.Guest) -> None:
    done = guest.run(f"pc_count {CLOCK} --period 1000000 --ms 10", check=False)
    assert done.rc == 3 and "not supported" in done.err


def test_counts_go_on_after_the_daemon_was_killed(
    host: machine.Host, guest: machine.Guest, daemon: Daemon
) -> None:
    """Those of the meantime are missing, and shown as time in which the event did not run."""
    job = guest.spawn(f"exec pc_count {CLOCK} --tasks 0 --cpu 1 --ms 9000", "counts")
    hog = guest.spawn("exec pc_hog --cpu 1", "hog")
    # Its supervisor starts it again.
    host.run(f"pkill -KILL -P {daemon.job.pid}")
    time.sleep(1)
    daemon.await_vcpus(guest.vcpu_tids)
    (one,) = counts_of(job.result(60, check=True))
    hog.kill("KILL")
    hog.wait(20)
    assert 0 < one.count < 1.02 * one.enabled_ns
    assert count(guest, [CLOCK], "--ms 200 --cpu 1")[0].count > 100e6
