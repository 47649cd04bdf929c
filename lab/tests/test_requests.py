# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
T1: what a guest's frequency governor asks for reaches the host's frequencies and placement, within the VM's
clamps, and ends with the driver; and guests are told where they run. A stand-in in the host is the driver.
"""

import json
import re
import statistics
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from paracord_lab import daemon, ftrace, machine
from paracord_lab.boards import JunoR2
from paracord_lab.daemon import BINARY, Daemon
from paracord_lab.host_share import running
from paracord_lab.sched_ext import EXT, await_scheduler
from paracord_lab.stand_in import StandIn

pytestmark = [pytest.mark.lab, pytest.mark.measures, pytest.mark.arm64, pytest.mark.needs("emulated")]
NAME = "asks"
LITTLE, BIG = set(JunoR2.little), set(JunoR2.big)
LITTLE_CAPACITY = 383
HIGHEST_MHZ = {0: 950, 4: 1200}
# Much more than a small CPU can do, and less than a large one has to give beside some work; nearly nothing.
MUCH, LITTLE_WORK = 600, 10
# Shares of the looks: other work of an emulated host pushes a vCPU about now and then.
MOSTLY, SELDOM = 0.7, 0.4
# A vCPU that wakes now and then: its own need is small.
LIGHT = "cyclictest -q -m --policy=other -i 20000"
# Until the daemon has looked for a driver (500 ms), in a host that may be slow.
SETTLE_S = 3


@pytest.fixture(scope="module")
def host():
    with machine.host(board=JunoR2.name, logs=Path("out/test-requests/logs")) as booted:
        yield booted


@pytest.fixture(scope="module")
def guest(host):
    with host.guest(NAME, vcpus=1) as booted:
        yield booted


@contextmanager
def asking(host, guest, settings=None, load=LIGHT):
    """The daemon, a light load in the guest, and a stand-in for its driver."""
    with (
        Daemon(host, {**EXT, **(settings or {})}).start(guest.vcpu_tids) as running_daemon,
        StandIn(host, NAME) as driver,
        running(guest, load, "load"),
    ):
        driver.ask(0)
        host.run(f"sleep {SETTLE_S}")
        yield running_daemon, driver
        driver.ask(0)


def share_on_big(host, tid, seconds=3):
    """Share of the vCPU's looks that find it on a big CPU."""
    # Behind the name, which has a blank in it, the CPU is the 37th word.
    look = f"s=$(< /proc/{tid}/task/{tid}/stat); read -ra f <<< ${{s##*) }}; echo ${{f[36]}}"
    # The looks are a load themselves: on a small CPU.
    loop = f"for i in $(seq {seconds * 5}); do {look}; sleep 0.2; done"
    said = host.run(f"taskset -p -c 0 $$ >/dev/null; {loop}", timeout=60).out
    cpus = [int(word) for word in said.split()]
    return sum(cpu in BIG for cpu in cpus) / len(cpus)


def usual_mhz(host, first_cpu, seconds=3):
    """Of a cluster."""
    file = f"/sys/devices/system/cpu/cpufreq/policy{first_cpu}/scaling_cur_freq"
    loop = f"for i in $(seq {seconds * 5}); do cat {file}; sleep 0.2; done"
    said = host.run(f"taskset -p -c 0 $$ >/dev/null; {loop}", timeout=60).out
    return statistics.median(map(int, said.split())) / 1000


def request_in_force(running_daemon):
    (vcpu,) = daemon.vcpus(running_daemon.status())
    return vcpu["request"]


def test_the_region_tells_the_boards_domains(host, guest):
    (region,) = json.loads(host.run(f"{BINARY} region list --json").out)
    found = [(d["capacity"], d["max_khz"], d["shared"], d["levels"]) for d in region["domains"]]
    assert found == [
        (1024, 1_200_000, False, [182, 323, 383, 512, 854, 1024]),
        (LITTLE_CAPACITY, 950_000, True, [486, 863, 1024]),
        (1024, 1_200_000, True, [512, 854, 1024]),
    ]
    assert {"perf_request", "capacity"} <= set(region["features"])


def test_a_guest_that_asks_for_much_has_a_big_cpu_at_a_high_frequency(host, guest):
    """And gives both back: when it asks for little, and when its driver goes."""
    (tid,) = guest.vcpu_tids
    with asking(host, guest) as (running_daemon, driver):
        await_scheduler(host, True)
        assert request_in_force(running_daemon) == {"request": 0, "limit": 0}
        found = [share_on_big(host, tid)]
        driver.ask(MUCH)
        host.run("sleep 1")
        found.append(share_on_big(host, tid))
        fast = usual_mhz(host, 4)
        driver.ask(LITTLE_WORK)
        host.run("sleep 1")
        found.append(share_on_big(host, tid))
        driver.ask(MUCH)
        host.run("sleep 1")
        found.append(share_on_big(host, tid))
        driver.leave()
        host.run(f"sleep {SETTLE_S}")
        found.append(share_on_big(host, tid))
        assert request_in_force(running_daemon) is None
        changes = daemon.counter(running_daemon.status(), "requests")
    idle, much, little, again, gone = found
    assert min(much, again) > MOSTLY and max(idle, little, gone) < SELDOM, found
    # The lowest point that does what was asked for.
    assert fast >= 1000 and changes >= 3, (fast, changes)


def test_nobody_waits_long_for_the_big_cpu(host, guest):
    """From the guest's store to its vCPU on a big CPU, and back. Seen at its second wakeup from then."""
    (tid,) = guest.vcpu_tids
    with asking(host, guest) as (_, driver), ftrace.recording(host) as trace:
        for _ in range(6):
            host.run(f"{driver.asks(MUCH)}; echo up > {ftrace.TRACEFS}/trace_marker; sleep 0.7")
            host.run(f"{driver.asks(LITTLE_WORK)}; echo down > {ftrace.TRACEFS}/trace_marker; sleep 0.7")
    up, down = migrations_ms(trace.text, tid)
    print(f"up {up} ms, down {down} ms")
    assert len(up) >= 5 and len(down) >= 5, (up, down)
    assert statistics.median(up) < 120 and statistics.median(down) < 300, (up, down)


def migrations_ms(text, tid):
    """Milliseconds from each mark to the vCPU's next turn on a CPU of the wanted kind: up, down."""
    marks = {"up": [], "down": []}
    wanted, since = None, 0.0
    for line in text.splitlines():
        head, _, rest = line.partition(": ")
        if "tracing_mark_write" in rest:
            wanted, since = rest.split()[-1], float(head.split()[-1])
        elif wanted and f"next_pid={tid} " in rest:
            cpu = int(head.split("[")[1].split("]")[0])
            if (cpu in BIG) == (wanted == "up"):
                marks[wanted].append(round((float(head.split()[-1]) - since) * 1000, 1))
                wanted = None
    return marks["up"], marks["down"]


def test_the_vms_clamp_holds_whatever_the_guest_says(host, guest):
    (tid,) = guest.vcpu_tids
    with asking(host, guest) as (_, driver):
        host.run(f"{BINARY} clamp set --vm {NAME} --max 100")
        driver.ask(0xFFFF, 0xFFFF)
        host.run("sleep 1")
        held = share_on_big(host, tid)
        (report,) = json.loads(host.run(f"{BINARY} clamp get --json --vm {NAME}").out)
        host.run(f"{BINARY} clamp clear --vm {NAME}; sleep 1")
        free = share_on_big(host, tid)
    assert held < SELDOM and free > MOSTLY, (held, free)
    assert report["effective"] == {"min": 100, "max": 100}, report


def test_the_guests_limit_holds_its_request(host, guest):
    (tid,) = guest.vcpu_tids
    with asking(host, guest) as (_, driver):
        driver.ask(MUCH, 200)
        host.run("sleep 1")
        assert share_on_big(host, tid) < SELDOM


@pytest.mark.parametrize("settings", [{"perf.guest_requests": False}, {f"vm.{NAME}.guest_requests": False}])
def test_requests_can_be_switched_off(host, guest, settings):
    (tid,) = guest.vcpu_tids
    with asking(host, guest, settings) as (running_daemon, driver):
        # A vCPU that wakes boosted stays where it is: it may have been on a large CPU.
        host.run(f"taskset -p -c 0-3 {tid}; sleep 0.5; taskset -p -c 0-5 {tid}")
        driver.ask(MUCH)
        host.run("sleep 1")
        assert share_on_big(host, tid) < SELDOM
        assert request_in_force(running_daemon) is None
        running_daemon.reload(dict.fromkeys(settings, True))
        host.run("sleep 1")
        assert share_on_big(host, tid) > MOSTLY


@pytest.mark.parametrize("actuator", ["rt", "ext"])
def test_a_guest_is_told_where_it_runs(host, guest, actuator):
    """CPU, capacity and frequency follow; the domain is that of the CPUs on which the thread may run."""
    (tid,) = guest.vcpu_tids
    cpu = "/sys/devices/system/cpu/cpu{}/cpufreq/scaling_cur_freq"
    with asking(host, guest, {"actuator": actuator}) as (running_daemon, driver):
        seen = []
        for number, capacity, cluster in ((5, 1024, 4), (1, LITTLE_CAPACITY, 0)):
            host.run(f"taskset -p -c {number} {tid}; sleep 1")
            place = driver.place()
            khz = int(host.run(f"cat {cpu.format(number)}").out)
            seen.append((place, khz))
            assert (place.physical_cpu, place.capacity, place.cluster) == (number, capacity, cluster), place
            assert place.domain == 0, place
            points = {round(mhz * 1024 / HIGHEST_MHZ[cluster]) for mhz in (450, 600, 800, 950, 1000, 1200)}
            assert any(abs(place.frequency - point) <= 2 for point in points), (place, khz)
        (vcpu,) = daemon.vcpus(running_daemon.status())
        assert vcpu["place"]["capacity"] == LITTLE_CAPACITY, vcpu
        driver.leave()
        host.run(f"sleep {SETTLE_S}")
        gone = driver.place()
    host.run(f"taskset -p -c 0-5 {tid}")
    assert (gone.capacity, gone.physical_cpu, gone.domain) == (0, 0xFFFFFFFF, 1), gone


def kernels_clamps(host, tid):
    """What the thread asks the kernel for: least, most."""
    said = host.run(f"uclampset -p {tid}").out
    return tuple(map(int, re.search(r"min: (\d+) max: (\d+)", said).groups()))


def await_clamps(host, tid, expected, seconds=10):
    deadline = time.monotonic() + seconds
    while (found := kernels_clamps(host, tid)) != expected:
        assert time.monotonic() < deadline, f"{found}, not {expected}"
        time.sleep(0.3)


@pytest.mark.parametrize("end", ["driver", "stop", "kill"])
def test_without_the_scheduler_a_request_is_the_threads_clamps(host, guest, end):
    """What the thread had bounds it, and comes back with the driver's end, the daemon's, or its death."""
    (tid,) = guest.vcpu_tids
    own = (0, 900)
    host.run(f"uclampset -M 900 -p {tid}")
    try:
        # A boosted thread has the real-time class's own least, as long as nobody asks for another one.
        unboosted = {f"boost.{reason}.enabled": False for reason in ("wake", "irq")}
        settings = {"actuator": "rt", "supervisor.restart": False, **unboosted}
        with asking(host, guest, settings) as (running_daemon, driver):
            assert kernels_clamps(host, tid) == own
            driver.ask(500, 800)
            await_clamps(host, tid, (500, 800))
            driver.ask(1024)
            await_clamps(host, tid, (900, 900))
            driver.ask(0)
            await_clamps(host, tid, own)
            driver.ask(300)
            await_clamps(host, tid, (300, 900))
            actuator = running_daemon.status()["actuator"]
            assert actuator["requests"] >= 4 and actuator["requests_now"] == 1, actuator
            if end == "driver":
                driver.leave()
            elif end == "stop":
                running_daemon.stop()
            else:
                host.run(f"kill -KILL $(pgrep -P {running_daemon.job.pid})")
            await_clamps(host, tid, own)
    finally:
        host.run(f"uclampset -M 1024 -p {tid}")
