# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""A guest without a device counts with perf events of its host, through its own memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from test_pmu import CLOCK, OWN_CLOCK, PMU, count, counts_of, shares_of_hosts_counts

from paracord_lab import machine
from paracord_lab.daemon import Daemon
from paracord_lab.waiting import await_equal

pytestmark = [pytest.mark.lab, pytest.mark.measures, pytest.mark.needs("btf", "perf_events")]
SECOND_NS = 1e9


@pytest.fixture(scope="module")
def host(host_of_each_architecture: machine.Host) -> machine.Host:
    return host_of_each_architecture


def await_counters(guest: machine.Guest) -> None:
    """The module makes the PMU known once the host serves it."""
    await_equal(lambda: guest.run(f"test -e {PMU}", check=False).rc, 0, 20)


@pytest.fixture(scope="module")
def guest(host: machine.Host, daemon: Daemon) -> Iterator[machine.Guest]:
    with host.guest("counted", vcpus=2, region=False, perf=True) as booted:
        daemon.await_vcpus(booted.vcpu_tids)
        booted.load_module()
        await_counters(booted)
        yield booted
        assert not booted.complaints()


def test_a_cpus_count_is_the_hosts_own(host: machine.Host, guest: machine.Guest) -> None:
    assert shares_of_hosts_counts(host, guest, *OWN_CLOCK) == [pytest.approx(1, abs=0.02)]


def test_an_event_has_the_number_of_the_abi_and_cannot_be_sampled(guest: machine.Guest) -> None:
    assert guest.run(f"cat {PMU}/events/task-clock").out == "event=0x13\n"
    done = guest.run(f"pc_count {CLOCK} --period 10000000 --ms 10", check=False)
    assert done.rc == 3 and "not supported" in done.err


@pytest.mark.long
def test_counts_go_on_after_the_daemon_was_killed(
    host: machine.Host, guest: machine.Guest, daemon: Daemon
) -> None:
    """Nothing changes on that CPU. The guest reads the counts once a second, so little is missing."""
    hog = guest.spawn("exec pc_hog --cpu 1", "hog")
    job = guest.spawn(f"exec pc_count {CLOCK} --tasks 0 --cpu 1 --ms 30000", "counts")
    guest.run("sleep 8")
    # Its supervisor starts it again.
    host.run(f"pkill -KILL -P {daemon.job.pid}")
    daemon.await_vcpus(guest.vcpu_tids)
    (one,) = counts_of(job.result(60, check=True))
    hog.kill("KILL")
    hog.wait(20)
    print(f"{one.count / SECOND_NS:.1f} s of {one.enabled_ns / SECOND_NS:.1f}")
    assert 0.6 * one.enabled_ns < one.count < 0.99 * one.enabled_ns
    # perf knows for how long nobody counted. The new daemon takes a part of the vCPU's time while it starts.
    assert one.count == pytest.approx(one.running_ns, rel=0.15)


@pytest.mark.long
def test_counts_go_on_after_a_migration(host: machine.Host, guest: machine.Guest, daemon: Daemon) -> None:
    hog = guest.spawn("exec pc_hog --cpu 1", "hog")
    job = guest.spawn(f"exec pc_count {CLOCK} --tasks 0 --cpu 1 --ms 20000", "counts")
    guest.run("sleep 8")
    guest.migrate("there", daemon)
    (one,) = counts_of(job.result(90, check=True))
    hog.kill("KILL")
    hog.wait(20)
    print(f"{one.count / SECOND_NS:.1f} s of {one.enabled_ns / SECOND_NS:.1f}")
    assert 0.3 * one.enabled_ns < one.count
    # The migration itself takes a part of the vCPU's time, in which nothing counts.
    assert 0.7 * one.running_ns < one.count < 1.05 * one.running_ns < 0.99 * one.enabled_ns
    assert count(guest, [CLOCK], "--ms 200 --cpu 1")[0].count > 100e6


@pytest.mark.long
def test_a_guest_whose_host_serves_no_counters_has_no_pmu(guest: machine.Guest, daemon: Daemon) -> None:
    guest.unload_module()
    daemon.reload({"counters.serve": False})
    guest.load_module()
    # Several announcements are answered in this time.
    guest.run("sleep 5")
    assert guest.run(f"test -e {PMU}", check=False).rc == 1
    guest.unload_module()
    daemon.reload({"counters.serve": True})
    guest.load_module()
    await_counters(guest)
