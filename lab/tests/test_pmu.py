# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""T1: a guest without a PMU counts with perf events of its host, by the module and paracord's VMM."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pytest

from paracord_lab import machine
from paracord_lab.channel import Result

pytestmark = [pytest.mark.lab, pytest.mark.measures, pytest.mark.needs("perf_events")]
STATE = "/sys/bus/pci/drivers/paracord_guest/0*/paracord"
PMU = "/sys/bus/event_source/devices/paracord"
CLOCK = "paracord/task-clock/"
# `task-clock` alone is to perf paracord's as well.
GUESTS_CLOCK = "software/task-clock/"
# The clock of a vCPU that computes, for shares_of_hosts_counts().
OWN_CLOCK = ([(CLOCK, "task-clock")], "pc_hog --cpu 1", 3000)
# System calls take a hundred times longer on an emulated host.
UNLIMITED = ("--pmu-budget-ms", "50000", "--pmu-openings", "100000")
# PARACORD_F_PMU of abi/paracord_abi.h
PMU_FEATURE = 1 << 5


class Count(NamedTuple):
    event: str
    count: int
    enabled_ns: int
    running_ns: int
    samples: int
    elapsed_ns: int


def count(guest: machine.Guest, events: list[str], options: str) -> list[Count]:
    """What pc_count prints."""
    return counts_of(guest.run(f"pc_count {','.join(events)} {options}", timeout=120))


def counts_of(done: Result) -> list[Count]:
    """What it printed."""
    lines = done.out.splitlines()
    return [Count(name, *map(int, numbers)) for name, *numbers in map(str.split, lines)]


def perf_stat(guest: machine.Guest, events: str, command: str) -> dict[str, str]:
    """What perf stat prints for each event: a number (of its own clock: ms), or why there is none."""
    lines = guest.run(f"perf stat -x, -o /tmp/stat -e {events} -- {command} >&2; cat /tmp/stat").out
    fields = [line.split(",") for line in lines.splitlines() if line and not line.startswith("#")]
    return {event: value for value, _, event, *_ in fields}


def record(guest: machine.Guest, event: str, how: str) -> None:
    """
    Most of the samples of user space that perf record takes are in pc_hog's `work`. Those of the kernel are
    not compared: a tick of a guest of an emulated host takes milliseconds, and its share varies.
    """
    guest.run(f"perf record -q {how} -e {event} -o /tmp/data -- pc_hog --seconds 3 >&2", timeout=120)
    report = guest.run("perf report -i /tmp/data --stdio -q --sort symbol 2>/dev/null", timeout=120).out
    print(f"{event} {how}:\n{report}")
    # Percent, [.] or [k], symbol. The compiler may have made a copy of `work`: work.constprop.0.
    lines = [line.split() for line in report.splitlines() if line.strip()]
    in_user_space = {name: float(share.rstrip("%")) for share, level, name, *_ in lines if level == "[.]"}
    of_work = sum(share for name, share in in_user_space.items() if name.split(".")[0] == "work")
    assert of_work > 20 and of_work > 0.8 * sum(in_user_space.values()), lines


def batches(guest: machine.Guest, unserved_share: float = 0) -> int:
    """Exits for counters so far, of all CPUs. No more of them were without an answer."""
    lines = [line.split() for line in guest.run(f"cat {STATE}/counters").out.splitlines()]
    assert lines and all(int(line[4]) <= unserved_share * int(line[2]) for line in lines), lines
    return sum(int(line[2]) for line in lines)


def shares_of_hosts_counts(
    host: machine.Host, guest: machine.Guest, pairs: Sequence[tuple[str, str]], load: str, ms: int
) -> list[float]:
    """
    What the guest counts of CPU 1, by what the host counts of its thread, both per time; for pairs of
    events, the guest's and the host's. The load never lets that CPU idle; each host's count takes so many ms.
    """
    of_guest, of_host = (",".join(events) for events in zip(*pairs, strict=True))
    job = guest.spawn(f"exec {load}", "load")
    rounds = []
    for _ in range(3):
        around = guest.spawn(f"exec pc_count {of_guest} --tasks 0 --cpu 1 --ms {ms * 3 // 2}", "count")
        within = f"sleep {ms / 4000}; pc_count {of_host} --tasks 0 --tid {guest.vcpu_tids[1]} --ms {ms}"
        hosts = counts_of(host.run(within, timeout=300))
        guests = counts_of(around.result(300, check=True))
        assert all(one.running_ns == one.enabled_ns for one in hosts), f"the host multiplexed: {hosts}"
        rates = [[one.count / one.elapsed_ns for one in counts] for counts in (guests, hosts)]
        rounds.append([ours / theirs for ours, theirs in zip(*rates, strict=True)])
    job.kill("KILL")
    job.wait(20)
    by_pair = list(zip(*rounds, strict=True))
    for (ours, theirs), shares in zip(pairs, by_pair, strict=True):
        print(f"{ours} by the host's {theirs}: {shares}")
    return [statistics.median(shares) for shares in by_pair]


@pytest.fixture(scope="module")
def host(host_of_each_architecture: machine.Host) -> machine.Host:
    return host_of_each_architecture


@pytest.fixture(scope="module")
def booted_guest(host: machine.Host) -> Iterator[machine.Guest]:
    with host.guest(
        "counts", vcpus=2, vmm="paracord", extra_args=("--pmu", *UNLIMITED, "--verbose"), perf=True
    ) as guest:
        yield guest


@pytest.fixture
def guest(booted_guest: machine.Guest) -> Iterator[machine.Guest]:
    """With the module; without it, and without complaints of the kernel's, afterwards."""
    booted_guest.run("dmesg -c >/dev/null")
    booted_guest.load_module()
    yield booted_guest
    booted_guest.run("echo 1 > /sys/devices/system/cpu/cpu1/online")
    booted_guest.run("if grep -q ^paracord_guest /proc/modules; then rmmod paracord_guest; fi")
    log = booted_guest.run("dmesg").out
    complaints = ("BUG:", "WARNING:", "Oops", "Call Trace")
    assert not [line for line in log.splitlines() if any(word in line for word in complaints)]


def test_events_are_files(guest: machine.Guest) -> None:
    assert int(guest.run(f"cat {STATE}/features").out, 16) & PMU_FEATURE
    files = guest.run(f"cd {PMU}/events && grep . *").out.split()
    numbers = sorted(int(line.rpartition("=")[2], 16) for line in files)
    assert numbers == list(range(len(files)))
    assert any(line.startswith("task-clock:event=") for line in files)
    assert guest.run(f"cat {PMU}/format/event").out == "config:0-15\n"


def test_a_task_is_counted_while_it_runs(guest: machine.Guest) -> None:
    """By the clock of the vCPU's thread; the guest's own says the same, but for what the host takes."""
    (host_says, guest_says) = count(guest, [CLOCK, "task-clock"], "--ms 2000 --cpu 1")
    assert host_says.count == pytest.approx(guest_says.count, rel=0.1)
    assert host_says.enabled_ns >= host_says.running_ns > 0


def test_a_cpus_count_is_the_hosts_own(host: machine.Host, guest: machine.Guest) -> None:
    assert shares_of_hosts_counts(host, guest, *OWN_CLOCK) == [pytest.approx(1, abs=0.02)]


def test_perf_counts_a_command(guest: machine.Guest) -> None:
    """One that computes for a second, by the host's clock and by the guest's."""
    said = perf_stat(guest, f"{CLOCK},{GUESTS_CLOCK}", "pc_count task-clock --ms 1000")
    host_says_ns, guest_says_ms = int(said[CLOCK]), float(said[GUESTS_CLOCK])
    assert guest_says_ms > 1000
    assert host_says_ns == pytest.approx(guest_says_ms * 1e6, rel=0.1)


@pytest.mark.long
@pytest.mark.parametrize(("how", "modes"), [("-c 10000000", ""), ("-F 99", "u")])
def test_perf_record_finds_the_hot_function(
    host: machine.Host, guest: machine.Guest, how: str, modes: str
) -> None:
    """
    By the clock, and by cycles where the emulated host's hardware counts them. With a frequency the guest's
    ticks leave it, which takes long on an emulated host, and its clock counts that: user mode only.
    """
    has_cycles = guest.run(f"test -e {PMU}/events/cycles", check=False).rc == 0
    assert has_cycles == (host.arch == "aarch64")
    for event in (CLOCK, "paracord/cycles/")[: 1 + has_cycles]:
        record(guest, f"{event}{modes}", how)


def test_perf_names_what_is_not_there(guest: machine.Guest) -> None:
    no_such = "paracord/event=0xffff/"
    said = perf_stat(guest, f"{CLOCK},{no_such}", "true")
    assert said[no_such] == "<not supported>" and int(said[CLOCK]) > 0
    done = guest.run("perf stat -e paracord/nosuch/ -- true", check=False)
    assert done.rc != 0 and "'nosuch' for pmu 'paracord'" in done.err


@pytest.mark.long
def test_tasks_share_a_cpu(guest: machine.Guest) -> None:
    """Each has its own count. The exits of a switch belong to none, and take long on an emulated host."""
    before = batches(guest)
    counts = [one.count for one in count(guest, [CLOCK], "--ms 500 --cpu 1 --tasks 4")]
    assert len(counts) == 4
    assert counts == pytest.approx([statistics.mean(counts)] * 4, rel=0.2)
    assert min(counts) > 200e6 and max(counts) < 550e6
    assert batches(guest) - before >= 8


def test_a_task_that_changes_its_cpu_keeps_its_count(guest: machine.Guest) -> None:
    job = guest.spawn(f"exec pc_count {CLOCK},task-clock --ms 1500", "moved")
    move = "for t in $(pgrep pc_count); do taskset -p {} $t; done; sleep 0.05"
    guest.run(f"while pgrep pc_count; do {move.format(1)}; {move.format(2)}; done >/dev/null 2>&1")
    by_host, by_guest = counts_of(job.result(60, check=True))
    assert by_host.count == pytest.approx(by_guest.count, rel=0.15)


@pytest.mark.long
def test_more_events_than_counters_take_turns(guest: machine.Guest) -> None:
    counts = count(guest, [CLOCK] * 20, "--ms 1500 --cpu 1")
    assert len(counts) == 20
    for one in counts:
        assert 0 < one.running_ns < one.enabled_ns
        # Sixteen of twenty at once.
        assert one.running_ns / one.enabled_ns == pytest.approx(0.8, abs=0.2)
        assert one.count * one.enabled_ns / one.running_ns == pytest.approx(1.5e9, rel=0.25)


@pytest.mark.long
def test_samples_are_as_many_as_periods(guest: machine.Guest) -> None:
    """
    Of each task that takes turns with others, too, whose slices are shorter than a period. Periods are long:
    those that end while the guest is interrupted are one sample, and all takes long on an emulated host.
    """
    (alone,) = count(guest, [CLOCK], "--ms 2000 --cpu 1 --period 10000000")
    assert alone.samples == pytest.approx(alone.count / 1e7, rel=0.1)
    shared = count(guest, [CLOCK], "--ms 1000 --cpu 1 --tasks 4 --period 20000000")
    assert len(shared) == 4
    assert sum(one.samples for one in shared) == pytest.approx(
        sum(one.count for one in shared) / 2e7, rel=0.15
    )
    assert all(one.samples == pytest.approx(one.count / 2e7, rel=0.3) for one in shared), shared


def test_what_cannot_be_is_refused(guest: machine.Guest) -> None:
    def says(event: str, options: str) -> str:
        done = guest.run(f"pc_count {event} {options}", check=False)
        assert done.rc == 3
        return done.err

    # Not one of its events.
    assert "No such file" in says("paracord/nosuch/", "--ms 10")


def test_the_module_stays_while_it_is_used(guest: machine.Guest) -> None:
    job = guest.spawn(f"exec pc_count {CLOCK} --ms 10 --cpu 0 --hold_s 60", "holds")
    guest.run("until [ $(cut -d' ' -f3 /proc/modules | head -1) -gt 0 ]; do sleep 0.1; done", timeout=20)
    assert guest.run("rmmod paracord_guest", check=False).rc != 0
    job.kill("KILL")
    job.wait(20)
    guest.unload_module()
    assert guest.run(f"test -e {PMU}", check=False).rc != 0
    guest.load_module()
    assert count(guest, [CLOCK], "--ms 100 --cpu 0")[0].count > 50e6


def test_a_device_that_goes_leaves_its_events_standing(guest: machine.Guest) -> None:
    job = guest.spawn(f"exec pc_count {CLOCK} --ms 3000 --cpu 1", "counts")
    guest.run("sleep 1; cd /sys/bus/pci/drivers/paracord_guest && echo 0000:* | tee unbind >/dev/null")
    _, counted, enabled_ns, *_ = job.result(30, check=True).out.split()
    assert 0 < int(counted) < int(enabled_ns)


def test_a_cpu_that_goes_offline(guest: machine.Guest) -> None:
    job = guest.spawn(f"exec pc_count {CLOCK} --tasks 0 --cpu 1 --ms 3000", "counts")
    guest.run("cd /sys/devices/system/cpu/cpu1; sleep 1; echo 0 > online; sleep 0.5; echo 1 > online")
    job.result(30, check=True)
    assert count(guest, [CLOCK], "--ms 100 --cpu 1")[0].count > 50e6


def test_events_are_used_again(host: machine.Host, booted_guest: machine.Guest) -> None:
    """Last: the VM ends, and says what counting took."""
    booted_guest.channel.spawn("poweroff -f")
    assert booted_guest.wait() == 0
    said = (host.logs / "counts.paracord.log").read_text()
    opened, cold, again, refused = (
        int(re.search(f"{what}: ([0-9]+)", said)[1])
        for what in ("perf events opened", "of these cold", "used again", "refused")
    )
    assert (cold, refused) == (0, 0), said
    assert again > 2 * opened, said


@pytest.mark.long
def test_a_budget_stands_for_time_in_which_nothing_ran(host: machine.Host) -> None:
    with host.guest("small", vcpus=1, vmm="paracord", extra_args=("--pmu", "--pmu-budget-ms", "1")) as guest:
        guest.load_module(counters=2)
        counts = count(guest, [CLOCK, f"{CLOCK}u"] * 2, "--ms 1500 --cpu 0")
        assert sum(one.running_ns for one in counts) < 0.5 * sum(one.enabled_ns for one in counts)
        # Some of what counted on a slow host while it was switched on and off.
        assert all(one.count <= 1.05 * one.running_ns + 0.01 * one.enabled_ns for one in counts), counts


@pytest.mark.parametrize("vmm", [pytest.param("paracord", marks=pytest.mark.long), "qemu"])
def test_a_host_that_serves_no_counters(host: machine.Host, vmm: str) -> None:
    """The region of a VM that had them, under one that has none."""
    with host.guest("had", vcpus=1, vmm="paracord", extra_args=("--pmu",)) as guest:
        guest.load_module()
        assert guest.run(f"test -e {PMU}", check=False).rc == 0
        host.run("cp /dev/shm/paracord/had /tmp/had")
    with host.guest("has-not", vcpus=1, vmm=vmm) as guest:
        host.run("dd if=/tmp/had of=/dev/shm/paracord/has-not conv=notrunc status=none")
        guest.load_module()
        assert guest.run(f"test -e {PMU}", check=False).rc != 0
        assert not int(guest.run(f"cat {STATE}/features").out, 16) & PMU_FEATURE
        assert "does not serve counters" in guest.run("dmesg").out
