# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""T1: a guest of an unmodified QEMU counts and samples with perf events of its host, served by the daemon."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from test_pmu import (
    CLOCK,
    OWN_CLOCK,
    PMU_FEATURE,
    STATE,
    batches,
    count,
    counts_of,
    record,
    shares_of_hosts_counts,
)

from paracord_lab import machine
from paracord_lab.channel import Result
from paracord_lab.daemon import Daemon
from paracord_lab.waiting import await_equal

pytestmark = [pytest.mark.lab, pytest.mark.measures, pytest.mark.needs("btf", "perf_events")]


def samples(guest: machine.Guest, cpu: int) -> int:
    """That the module has taken on a CPU so far."""
    words = guest.run(f"grep ^cpu{cpu} {STATE}/counters").out.split()
    return int(words[words.index("samples") + 1])


def unserved(guest: machine.Guest) -> int:
    """Batches of all CPUs that nobody has answered in time, so far."""
    return sum(int(line.split()[4]) for line in guest.run(f"cat {STATE}/counters").out.splitlines())


@pytest.fixture(scope="module")
def host(host_of_each_architecture: machine.Host) -> machine.Host:
    return host_of_each_architecture


@pytest.fixture(scope="module")
def guest(host: machine.Host, daemon: Daemon) -> Iterator[machine.Guest]:
    with host.guest("counted", vcpus=2, region="--counters", interrupts=True, perf=True) as booted:
        daemon.await_vcpus(booted.vcpu_tids)
        booted.load_module()
        yield booted


def test_a_cpus_count_is_the_hosts_own(host: machine.Host, guest: machine.Guest) -> None:
    assert int(guest.run(f"cat {STATE}/features").out, 16) & PMU_FEATURE
    assert shares_of_hosts_counts(host, guest, *OWN_CLOCK) == [pytest.approx(1, abs=0.02)]


@pytest.mark.long
def test_tasks_share_a_cpu(guest: machine.Guest) -> None:
    """
    Batches are answered: the worker comes before the guest, or is waited for. A slow host that moves the vCPU
    meanwhile may take longer than the guest waits.
    """
    before = batches(guest, 0.01)
    counts = [one.count for one in count(guest, [CLOCK], "--ms 500 --cpu 1 --tasks 4")]
    assert counts == pytest.approx([statistics.mean(counts)] * 4, rel=0.3)
    assert batches(guest, 0.01) - before >= 8


@pytest.mark.long
def test_more_events_than_counters_take_turns(guest: machine.Guest) -> None:
    counts = count(guest, [CLOCK] * 20, "--ms 1500 --cpu 1")
    assert all(0 < one.running_ns < one.enabled_ns for one in counts)
    assert sum(one.running_ns for one in counts) / sum(one.enabled_ns for one in counts) == pytest.approx(
        0.8, abs=0.2
    )


@pytest.mark.parametrize(
    ("how", "modes"), [("-c 10000000", ""), pytest.param("-F 99", "u", marks=pytest.mark.long)]
)
def test_perf_record_finds_the_hot_function(
    host: machine.Host, guest: machine.Guest, how: str, modes: str
) -> None:
    for event in (CLOCK, "paracord/cycles/")[: 1 + (host.arch == "aarch64")]:
        record(guest, f"{event}{modes}", how)


@pytest.mark.long
def test_samples_are_as_many_as_periods(guest: machine.Guest) -> None:
    (one,) = count(guest, [CLOCK], "--ms 2000 --cpu 1 --period 20000000")
    assert one.samples == pytest.approx(one.count / 2e7, rel=0.1)


def least_count(guest: machine.Guest) -> int:
    """Of tasks that take turns. Less than their time: on an emulated host the turns themselves take long."""
    return min(one.count for one in count(guest, [CLOCK], "--ms 500 --cpu 1 --tasks 3"))


@contextmanager
def bound(host: machine.Host, guest: machine.Guest) -> Iterator[tuple[Callable[[int], Result], list[int]]]:
    """To bind the vCPU that works to one of the CPUs that it may use, and these; as before afterwards."""
    tid = guest.vcpu_tids[1]
    words = host.run(f"grep ^Cpus_allowed_list: /proc/{tid}/status").out.split()[1]
    cpus = [int(cpu) for cpu in re.findall(r"\d+", words)]
    assert len(cpus) == 2, words
    try:
        yield (lambda cpu: host.run(f"taskset -pc {cpu} {tid}")), cpus
    finally:
        host.run(f"taskset -pc {words} {tid}")


@pytest.mark.long
def test_a_vcpu_that_is_moved_keeps_its_counts(host: machine.Host, guest: machine.Guest) -> None:
    """Each turn is the worker's of the CPU on which the vCPU has asked; the next one may be another's."""
    at_rest = least_count(guest)
    moves = 0
    with bound(host, guest) as (bind, cpus):
        job = guest.spawn(f"exec pc_count {CLOCK} --tasks 3 --cpu 1 --ms 500", "moved")
        while job.running:
            bind(cpus[moves % 2])
            moves += 1
    moved = [one.count for one in counts_of(job.result(60, check=True))]
    print(f"{moves} moves: {moved}, at rest {at_rest}")
    assert moves >= 4 and min(moved) > 0.6 * at_rest


@pytest.mark.long
def test_a_cpu_of_the_host_that_comes_back(host: machine.Host, guest: machine.Guest) -> None:
    """Its worker was moved away, and is replaced."""
    each = "for t in $(grep -ls ^paracord-pmu/ /proc/[0-9]*/task/*/comm); do cat ${t%comm}status; done"

    def workers() -> set[str]:
        return set(host.run(f"({each}) | sed -n 's/^Cpus_allowed_list:[^0-9]*//p'").out.split())

    at_rest, before = least_count(guest), workers()
    with bound(host, guest) as (bind, (stays, goes)):
        assert {str(stays), str(goes)} <= before
        bind(stays)
        host.run(f"echo 0 > /sys/devices/system/cpu/cpu{goes}/online")
        await_equal(workers, before - {str(goes)})
        host.run(f"echo 1 > /sys/devices/system/cpu/cpu{goes}/online")
        await_equal(workers, before)
        bind(goes)
        again = least_count(guest)
    print(f"{again}, before {at_rest}")
    assert again > 0.6 * at_rest


@pytest.mark.parametrize("when", ["before", pytest.param("while it is away", marks=pytest.mark.long)])
def test_counts_go_on_after_the_daemon_was_killed(
    host: machine.Host, guest: machine.Guest, daemon: Daemon, when: str
) -> None:
    """
    Whether the event began before, or asked nobody: nothing changes on that CPU, so it asks again only at its
    end. What it does meanwhile is missing.
    """
    hog = guest.spawn("exec pc_hog --cpu 1", "hog")
    begin = f"exec pc_count {CLOCK} --tasks 0 --cpu 1 --ms 20000"
    if when == "before":
        asked = batches(guest, 0.5)
        job = guest.spawn(begin, "counts")
        await_equal(lambda: batches(guest, 0.5) > asked, True)
    # Its supervisor starts it again.
    host.run(f"pkill -KILL -P {daemon.job.pid}")
    if when != "before":
        asked = unserved(guest)
        job = guest.spawn(begin, "counts")
        await_equal(lambda: unserved(guest) > asked, True)
    daemon.await_vcpus(guest.vcpu_tids)
    (one,) = counts_of(job.result(60, check=True))
    hog.kill("KILL")
    hog.wait(20)
    assert 0.1 * one.enabled_ns < one.count < 0.98 * one.enabled_ns
    assert count(guest, [CLOCK], "--ms 200 --cpu 1")[0].count > 100e6


@pytest.mark.long
def test_samples_go_on_after_the_daemon_was_killed(
    host: machine.Host, guest: machine.Guest, daemon: Daemon
) -> None:
    """Of a CPU on which nothing changes: nobody asks the new daemon for anything."""
    hog = guest.spawn("exec pc_hog --cpu 1", "hog")
    before = samples(guest, 1)
    job = guest.spawn(f"exec pc_count {CLOCK} --tasks 0 --cpu 1 --ms 30000 --period 20000000", "samples")
    await_equal(lambda: samples(guest, 1) > before, True)
    host.run(f"pkill -KILL -P {daemon.job.pid}")
    daemon.await_vcpus(guest.vcpu_tids)
    after = samples(guest, 1)
    await_equal(lambda: samples(guest, 1) > after, True)
    job.result(60, check=True)
    hog.kill("KILL")
    hog.wait(20)


def workers_share(host: machine.Host, seconds: float) -> float:
    """Of one CPU, what the daemon's workers take."""
    read = (
        "for t in $(grep -ls ^paracord-pmu/ /proc/[0-9]*/task/*/comm); do"
        " cut -d' ' -f1 ${t%comm}schedstat; done; cut -d' ' -f1 /proc/uptime"
    )
    before = host.run(read).out.split()
    after = host.run(f"sleep {seconds}; {read}").out.split()
    assert len(before) == len(after) > 1
    ran = sum(map(int, after[:-1])) - sum(map(int, before[:-1]))
    return ran / 1e9 / (float(after[-1]) - float(before[-1]))


@pytest.mark.long
def test_a_guest_that_asks_without_end_costs_its_budget(host: machine.Host, daemon: Daemon) -> None:
    """Whoever works for it has a priority above all others: that time is the VM's as well."""
    share = {}
    for budget_ms in (100, 50000):
        daemon.reload({"counters.budget_ms": budget_ms})
        with host.guest("rogue", vcpus=1, region="--counters", interrupts=True) as rogue:
            daemon.await_vcpus(rogue.vcpu_tids)
            job = rogue.spawn("exec pc_rogue pmu --seconds 3600", "rogue")
            await_equal(lambda: workers_share(host, 0.5) > 0, True)
            share[budget_ms] = workers_share(host, 4)
            assert job.running, job.err()
            job.kill("KILL")
    print(f"share of a CPU by budget in ms per second: {share}")
    assert share[100] < 0.2
    assert share[50000] > 2 * share[100]


def test_what_is_not_allowed_or_has_no_interrupt_is_refused(host: machine.Host, daemon: Daemon) -> None:
    daemon.reload({"counters.events": "page-faults"})
    with host.guest("plain", vcpus=1, region="--counters") as plain:
        daemon.await_vcpus(plain.vcpu_tids)
        plain.load_module()
        faults, clock = count(plain, ["paracord/page-faults/", CLOCK], "--ms 500")
        # An emulated host takes some 10 ms to say so.
        assert clock.count == 0 and clock.running_ns < clock.enabled_ns / 2
        assert faults.running_ns > 0
        done = plain.run("pc_count paracord/page-faults/ --period 10 --ms 10", check=False)
        assert done.rc == 3 and "not supported" in done.err
    daemon.reload({"counters.events": "all"})
    assert "task-clock" in daemon.job.err() and "not among the events that are allowed" in daemon.job.err()
