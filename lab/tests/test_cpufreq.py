# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""The guest's cpufreq driver and what its load tracking knows of the host's CPUs, on boards with frequencies.

`paracord region create` writes the host's performance domains; no daemon runs, so that what the host lines
say is this module's choice.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from paracord_lab import machine, region_file
from paracord_lab.boards import JunoR2, X86PStates
from paracord_lab.channel import Job
from paracord_lab.waiting import await_equal

pytestmark = [pytest.mark.lab, pytest.mark.measures, pytest.mark.needs("emulated")]

NAME = "frequency"
REGION = f"/dev/shm/paracord/{NAME}"
FRESH = "/run/lab/frequency.fresh"
STATE = "/sys/bus/pci/drivers/paracord_guest/0*/paracord"
CPUFREQ = "/sys/devices/system/cpu/cpufreq"
SCALE = 1024
FIELDS = {
    "paracord_header": (
        *("domain_offset_bytes", "domain_count", "domain_stride_bytes", "abi_minor", "host_line_bytes"),
        *("guest_features", "host_features"),
    ),
    "paracord_domain": ("max_khz", "capacity", "level_count", "flags", "levels"),
    "paracord_slot": (
        *("guest.perf_request", "guest.perf_limit", "guest.context"),
        *("host.capacity", "host.frequency", "host.physical_cpu", "host.cluster", "host.domain"),
    ),
}
CONSTANTS = (
    *("PARACORD_SLOT_OFFSET_BYTES", "PARACORD_SLOT_STRIDE_BYTES", "PARACORD_DOMAIN_OFFSET_BYTES"),
    *("PARACORD_DOMAIN_STRIDE_BYTES", "PARACORD_LINE_BYTES", "PARACORD_DOMAIN_SHARED"),
    *("PARACORD_F_BOOST", "PARACORD_F_PERF_REQUEST", "PARACORD_F_CAPACITY"),
)


@dataclass(frozen=True)
class Case:
    """A board. domain: that of the vCPUs here; policies: which of them share one; cmdline: of the guest."""

    board: str
    domain: int
    policies: tuple[tuple[int, ...], ...]
    mhz: tuple[int, ...]
    capacity: int
    cmdline: str = ""


# A guest's clock that might follow its frequency rules fast switching out, as on the board itself.
CASES = (
    Case(JunoR2.name, 1, ((0, 1),), (450, 800, 950), 383),
    Case(X86PStates.name, 0, ((0,), (1,)), X86PStates.mhz[::-1], 1024, "setcpuid=constant_tsc"),
)


@dataclass
class Region:
    """The region's file in the host."""

    host: machine.Host
    abi: dict[str, int]
    path: str = REGION

    def reset(self, domain: int | None) -> None:
        """As it was made, and host lines of the two vCPUs that name a domain, if any."""
        self.host.run(f"dd if={FRESH} of={self.path} conv=notrunc status=none")
        for vcpu in (0, 1):
            if domain is not None:
                self.place(vcpu, domain=domain + 1, physical_cpu=vcpu, cluster=0)

    def place(self, vcpu: int, **fields: int) -> None:
        """Writes fields of a vCPU's host line."""
        for field, value in fields.items():
            size = 4 if field in ("physical_cpu", "cluster") else 2
            self._poke(self._slot(vcpu, f"host.{field}"), value, size)

    def speed(self, vcpu: int, capacity: int, frequency: int) -> None:
        """How fast the host's CPU is, in one store."""
        self._poke(self._slot(vcpu, "host.capacity"), capacity | frequency << 16, 4)

    def perf(self, vcpu: int) -> tuple[int, int]:
        """What the vCPU's line asks for, and its limit."""
        word = region_file.peek(self.host, self.path, self._slot(vcpu, "guest.perf_request"), 4)
        return word & 0xFFFF, word >> 16

    def guest_line(self, vcpu: int) -> int:
        return region_file.peek(self.host, self.path, self._slot(vcpu, "guest.context"), 64)

    def features(self) -> int:
        return region_file.peek(self.host, self.path, self.abi["paracord_header.guest_features"], 4)

    def header(self, field: str, value: int, size: int) -> None:
        self._poke(self.abi[f"paracord_header.{field}"], value, size)

    def domain(self, index: int, field: str, value: int, size: int, entry: int = 0) -> None:
        start = self.abi["PARACORD_DOMAIN_OFFSET_BYTES"] + index * self.abi["PARACORD_DOMAIN_STRIDE_BYTES"]
        self._poke(start + self.abi[f"paracord_domain.{field}"] + entry * size, value, size)

    def levels(self, index: int) -> list[int]:
        start = self.abi["PARACORD_DOMAIN_OFFSET_BYTES"] + index * self.abi["PARACORD_DOMAIN_STRIDE_BYTES"]
        count = region_file.peek(self.host, self.path, start + self.abi["paracord_domain.level_count"], 2)
        first = start + self.abi["paracord_domain.levels"]
        return [region_file.peek(self.host, self.path, first + 2 * entry, 2) for entry in range(count)]

    def _slot(self, vcpu: int, field: str) -> int:
        start = self.abi["PARACORD_SLOT_OFFSET_BYTES"] + vcpu * self.abi["PARACORD_SLOT_STRIDE_BYTES"]
        return start + self.abi[f"paracord_slot.{field}"]

    def _poke(self, offset: int, value: int, size: int) -> None:
        region_file.poke(self.host, self.path, offset, value, size)


@pytest.fixture(scope="module")
def abi(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    return region_file.compile_abi(tmp_path_factory.mktemp("abi"), FIELDS, CONSTANTS)


@pytest.fixture(
    scope="module",
    params=[pytest.param(CASES[0], marks=pytest.mark.arm64), CASES[1]],
    ids=lambda case: case.board,
)
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


@pytest.fixture(scope="module")
def host(case: Case, shared_host: Callable[..., machine.Host]) -> machine.Host:
    return shared_host(board=case.board)


@pytest.fixture(scope="module")
def booted_guest(host: machine.Host, case: Case) -> Iterator[machine.Guest]:
    with host.guest(NAME, vcpus=2, cmdline=case.cmdline) as guest:
        host.run(f"cp {REGION} {FRESH}")
        yield guest


@pytest.fixture
def region(host: machine.Host, case: Case, abi: dict[str, int]) -> Region:
    return Region(host, abi)


@pytest.fixture
def guest(booted_guest: machine.Guest, region: Region, case: Case) -> Iterator[machine.Guest]:
    """The guest without the module, and a region whose host lines name the case's domain."""
    region.reset(case.domain)
    booted_guest.run("dmesg -c >/dev/null")
    yield booted_guest
    booted_guest.run("if grep -q ^paracord_guest /proc/modules; then rmmod paracord_guest; fi")
    booted_guest.run("echo 1 > /sys/devices/system/cpu/cpu1/online")
    log = booted_guest.run("dmesg").out
    complaints = ("BUG:", "WARNING:", "Oops", "Call Trace", "unstable", "divide error")
    assert not [line for line in log.splitlines() if any(word in line for word in complaints)]


def module_lines(guest: machine.Guest) -> list[str]:
    lines = guest.run("dmesg").out.splitlines()
    return [
        line
        for line in lines
        if "paracord_guest" in line and "module verification" not in line and "taint" not in line
    ]


def state(guest: machine.Guest, name: str) -> list[str]:
    return guest.run(f"cat {STATE}/{name}").out.splitlines()


def policies(guest: machine.Guest) -> list[str]:
    """Names of the guest's policies."""
    return sorted(guest.run(f"ls {CPUFREQ}").out.split())


def govern(guest: machine.Guest, governor: str) -> None:
    guest.run(f"for p in {CPUFREQ}/policy*; do echo {governor} > $p/scaling_governor; done")


def set_all(guest: machine.Guest, file: str, khz: int) -> None:
    guest.run(f"for p in {CPUFREQ}/policy*; do echo {khz} > $p/{file}; done")


def frequencies(guest: machine.Guest) -> list[int]:
    """kHz of the first policy, rising."""
    return sorted(map(int, guest.run(f"cat {CPUFREQ}/policy0/scaling_available_frequencies").out.split()))


@pytest.fixture
def hog(guest: machine.Guest) -> Iterator[Job]:
    """A task that wants all of CPU 1."""
    job = guest.spawn("exec pc_hog --cpu 1", "hog")
    yield job
    if job.running:
        job.kill("KILL")
        job.wait(10)


@pytest.fixture
def worker(guest: machine.Guest) -> Iterator[Job]:
    """Of constant size, on CPU 1. One that never sleeps is shown as 1024, however slow its CPU is."""
    job = guest.spawn("exec pc_hog --cpu 1 --busy_ms 5 --sleep_ms 5", "worker")
    yield job
    if job.running:
        job.kill("KILL")
        job.wait(10)


def tracked(guest: machine.Guest, worker: Job) -> tuple[float, int]:
    """Mean of the task's util_avg in the next seconds, and the highest util_est, as the guest tracks them."""
    look = f"grep -wE 'se.avg.util_(avg|est)' /proc/{worker.pid}/sched; usleep 70000"
    # PELT forgets in 200 ms of the guest's time, of which a busy host gives less.
    out = guest.run(f"sleep 1; for i in $(seq 30); do {look}; done").out
    rows = [line.split(":") for line in out.splitlines()]
    found = {kind: [int(value) for name, value in rows if kind in name] for kind in ("util_avg", "util_est")}
    return statistics.mean(found["util_avg"]), max(found["util_est"])


def utilisation(guest: machine.Guest, worker: Job) -> float:
    return tracked(guest, worker)[0]


def level_for(requests: list[int], wanted: float) -> int:
    """Index of the smallest request that is enough, or of the largest."""
    return next((n for n, request in enumerate(requests) if request >= wanted), len(requests) - 1)


def test_driver_and_its_frequencies(guest: machine.Guest, region: Region, case: Case) -> None:
    guest.load_module()
    (line,) = module_lines(guest)
    assert "2 vCPUs published" in line
    wanted = region.abi["PARACORD_F_PERF_REQUEST"] | region.abi["PARACORD_F_CAPACITY"]
    assert region.features() & wanted == wanted
    assert policies(guest) == [f"policy{cpus[0]}" for cpus in case.policies]
    for cpus in case.policies:
        read = guest.run(
            f"cd {CPUFREQ}/policy{cpus[0]}; cat scaling_driver affected_cpus scaling_governor"
        ).out
        assert read.splitlines() == ["paracord", " ".join(map(str, cpus)), "schedutil"]
    # A level is a 1024th of the highest frequency.
    found = [khz / 1000 for khz in frequencies(guest)]
    assert found == pytest.approx(case.mhz, abs=case.mhz[-1] / SCALE)
    (domain, *_) = [line for line in state(guest, "domains") if line.startswith(f"domain{case.domain} ")]
    assert domain.split()[1:7:2] == ["max_khz", "capacity", "shared"]
    assert domain.split()[8:] == [str(level) for level in region.levels(case.domain)]


def test_each_governor_asks_the_host(guest: machine.Guest, region: Region, case: Case) -> None:
    guest.load_module()
    khz, levels = frequencies(guest), region.levels(case.domain)
    requests = [case.capacity * level // SCALE for level in levels]

    govern(guest, "performance")
    assert [region.perf(vcpu) for vcpu in (0, 1)] == [(case.capacity, 0)] * 2
    govern(guest, "userspace")
    for one, request in zip(khz, requests, strict=True):
        set_all(guest, "scaling_setspeed", one)
        assert [region.perf(vcpu) for vcpu in (0, 1)] == [(request, 0)] * 2
    assert state(guest, "perf_requests") == [f"cpu{n} request {case.capacity} limit 0" for n in (0, 1)]

    for governor in ("schedutil", "ondemand"):
        govern(guest, governor)
        await_equal(lambda: region.perf(1)[0], requests[0])
        job = guest.spawn("exec pc_hog --cpu 1", "hog")
        await_equal(lambda: region.perf(1)[0], case.capacity)
        job.kill("KILL")
        job.wait(10)
        await_equal(lambda: region.perf(1)[0], requests[0])


def test_limits_reach_the_host(guest: machine.Guest, region: Region, case: Case, hog: Job) -> None:
    """Also without a change of frequency; with schedutil at its next look at the load."""
    guest.load_module()
    khz, levels = frequencies(guest), region.levels(case.domain)
    lowest, middle = case.capacity * levels[0] // SCALE, case.capacity * levels[1] // SCALE
    govern(guest, "userspace")
    set_all(guest, "scaling_setspeed", khz[0])
    set_all(guest, "scaling_max_freq", khz[1])
    await_equal(lambda: region.perf(1), (lowest, middle))
    set_all(guest, "scaling_max_freq", khz[-1])
    await_equal(lambda: region.perf(1), (lowest, 0))

    govern(guest, "schedutil")
    await_equal(lambda: region.perf(1), (case.capacity, 0))
    set_all(guest, "scaling_max_freq", khz[1])
    await_equal(lambda: region.perf(1), (middle, middle))
    set_all(guest, "scaling_max_freq", khz[0])
    await_equal(lambda: region.perf(1), (lowest, lowest))
    set_all(guest, "scaling_max_freq", khz[-1])
    await_equal(lambda: region.perf(1), (case.capacity, 0))


@pytest.mark.long
def test_utilisation_knows_how_fast_the_host_is(
    guest: machine.Guest, region: Region, case: Case, worker: Job
) -> None:
    """
    A task is as large as the CPU below it makes it, and schedutil asks for a quarter more than it uses on
    average or before it last slept, as it does on a host.
    """
    full = utilisation(guest, worker)
    guest.load_module()
    requests = [case.capacity * level // SCALE for level in region.levels(case.domain)]
    # The last: of half the capacity at full frequency.
    for capacity, frequency in (
        (0, 0),
        (case.capacity, 512),
        (case.capacity, 250),
        (case.capacity // 2, 1024),
    ):
        region.speed(1, capacity, frequency)
        share = capacity * frequency / case.capacity / SCALE or 1
        # arm64 counts in the host's capacity; x86 in that of the CPU itself, which is the largest here.
        wanted = full * share * case.capacity / SCALE
        mean, highest = tracked(guest, worker)
        assert mean == pytest.approx(wanted, rel=0.25)
        # Time that the host stole counts as load, for some seconds on a slow machine. It never lowers a
        # request, so the lowest of several looks is the one that it disturbed least.
        looks = ([region.perf(1)[0] for _ in range(15)] for _ in range(4))
        asked = min(statistics.median_low(look) for look in looks)
        least, most = (level_for(requests, 1.25 * size) for size in (mean, max(mean, highest)))
        # Time that the host stole counts too: a level more.
        assert least <= requests.index(asked) <= most + 1, (asked, mean, highest)
    region.speed(0, case.capacity, SCALE // 2)
    assert int(guest.run(f"cat {CPUFREQ}/policy0/cpuinfo_cur_freq").out) == case.mhz[-1] * 1000 // 2
    guest.unload_module()
    assert utilisation(guest, worker) == pytest.approx(full, rel=0.25)


def test_a_wish_for_one_vcpu_is_not_rounded_to_a_level(
    guest: machine.Guest, region: Region, case: Case, worker: Job
) -> None:
    """schedutil's, where utilisation is invariant; the user's bounds hold, the lowest level is none."""
    if case.board != JunoR2.name:
        pytest.skip("x86's schedutil has no wish but a frequency in a guest without APERF and MPERF")
    region.reset(0)
    guest.load_module()
    levels, khz = region.levels(0), frequencies(guest)

    def asked(vcpu: int) -> set[int]:
        return {region.perf(vcpu)[0] for _ in range(30)}

    region.speed(1, SCALE, SCALE // 2)
    await_equal(lambda: bool(asked(1) - set(levels)), True)
    await_equal(lambda: min(asked(0)) < levels[0], True)
    set_all(guest, "scaling_max_freq", khz[0])
    await_equal(lambda: region.perf(1), (levels[0], levels[0]))
    set_all(guest, "scaling_max_freq", khz[-1])
    set_all(guest, "scaling_min_freq", khz[-1])
    await_equal(lambda: region.perf(1), (levels[-1], 0))


@pytest.mark.long
def test_without_invariance(guest: machine.Guest, region: Region, case: Case, worker: Job) -> None:
    full = utilisation(guest, worker)
    region.speed(1, case.capacity, 512)
    guest.load_module(invariance=0)
    assert not region.features() & region.abi["PARACORD_F_CAPACITY"]
    govern(guest, "performance")
    assert utilisation(guest, worker) == pytest.approx(full, rel=0.25)
    # arm64's kernel takes what was asked for for the CPU's speed; not longer than there is a driver.
    govern(guest, "userspace")
    set_all(guest, "scaling_setspeed", frequencies(guest)[0])
    share = region.levels(case.domain)[0] / SCALE if case.board == JunoR2.name else 1
    assert utilisation(guest, worker) == pytest.approx(full * share, rel=0.25)
    guest.unload_module()
    assert utilisation(guest, worker) == pytest.approx(full, rel=0.25)


def test_without_cpufreq(guest: machine.Guest, region: Region, case: Case, worker: Job) -> None:
    """Load tracking needs no driver."""
    full = utilisation(guest, worker)
    region.speed(1, case.capacity, 512)
    guest.load_module(cpufreq=0)
    assert not region.features() & region.abi["PARACORD_F_PERF_REQUEST"]
    assert policies(guest) == []
    assert utilisation(guest, worker) == pytest.approx(full / 2 * case.capacity / SCALE, rel=0.25)
    assert region.perf(1) == (0, 0)


def test_any_host_line_is_borne(guest: machine.Guest, region: Region, case: Case, hog: Job) -> None:
    guest.load_module()
    for capacity, frequency in ((0xFFFF, 0xFFFF), (1, 1), (0xFFFF, 1), (0, 0), (0, 0xFFFF), (1, 0)):
        region.speed(1, capacity, frequency)
        region.place(1, domain=0xFFFF, physical_cpu=0xFFFFFFFF, cluster=0xFFFFFFFF)
        time.sleep(0.3)
        scales = [int(line.split()[-1]) for line in state(guest, "places")]
        assert len(scales) == 2
        assert all(1 <= scale <= SCALE for scale in scales)
    await_equal(lambda: region.perf(1)[0], case.capacity)


def test_hotplug(guest: machine.Guest, region: Region, case: Case) -> None:
    guest.load_module()
    govern(guest, "performance")
    for _ in range(3):
        guest.run("echo 0 > /sys/devices/system/cpu/cpu1/online")
        assert region.guest_line(1) == 0
        assert region.perf(0) == (case.capacity, 0)
        guest.run("echo 1 > /sys/devices/system/cpu/cpu1/online")
        assert region.perf(1) == (case.capacity, 0)
    guest.run("echo 0 > /sys/devices/system/cpu/cpu1/online")
    guest.unload_module()
    guest.run("echo 1 > /sys/devices/system/cpu/cpu1/online")
    assert region.guest_line(1) == 0


def test_unload_and_load(guest: machine.Guest, region: Region, case: Case) -> None:
    for _ in range(5):
        guest.load_module()
        govern(guest, "performance")
        assert region.perf(1) == (case.capacity, 0)
        guest.unload_module()
        assert policies(guest) == []
        assert (region.guest_line(0), region.guest_line(1), region.features()) == (0, 0, 0)


def test_a_host_that_says_it_later(guest: machine.Guest, region: Region, case: Case) -> None:
    region.reset(None)
    guest.load_module()
    assert policies(guest) == []
    region.place(0, domain=case.domain + 1)
    time.sleep(1)
    assert policies(guest) == []
    region.place(1, domain=case.domain + 1)
    await_equal(lambda: policies(guest), [f"policy{cpus[0]}" for cpus in case.policies])


def test_a_host_without_a_daemon_at_first(guest: machine.Guest, region: Region, case: Case) -> None:
    """One line after some time; frequencies when a daemon has come; unloading does not wait for either."""
    region.reset(None)
    guest.load_module()
    await_equal(lambda: len(module_lines(guest)), 2, seconds=40)
    assert "the host does not say where the vCPUs run" in module_lines(guest)[-1]
    for vcpu in (0, 1):
        region.place(vcpu, domain=case.domain + 1)
    await_equal(lambda: policies(guest), [f"policy{cpus[0]}" for cpus in case.policies], seconds=40)
    assert len(module_lines(guest)) == 2
    guest.unload_module()
    region.reset(None)
    guest.load_module()
    guest.unload_module()


def test_a_vcpu_without_domain(guest: machine.Guest, region: Region, case: Case) -> None:
    """The others have frequencies, when the host has had time to say of all."""
    region.place(1, domain=0)
    guest.load_module()
    await_equal(lambda: policies(guest), ["policy0"], seconds=40)
    govern(guest, "performance")
    assert [region.perf(vcpu) for vcpu in (0, 1)] == [(case.capacity, 0), (0, 0)]


@pytest.mark.parametrize(
    ("field", "size", "value", "line"),
    [
        ("domain_count", 2, 17, "count of 17 is not in 0..16"),
        pytest.param("domain_count", 2, 0xFFFF, "count of 65535", marks=pytest.mark.long),
        pytest.param("domain_stride_bytes", 2, 128, "stride of 128 bytes", marks=pytest.mark.long),
        pytest.param("domain_stride_bytes", 2, 200, "stride of 200 bytes", marks=pytest.mark.long),
        ("domain_stride_bytes", 2, 0xFFC0, "do not lie between the header's"),
        pytest.param("domain_offset_bytes", 4, 64, "do not lie between the header's", marks=pytest.mark.long),
        pytest.param(
            "domain_offset_bytes", 4, 4096, "do not lie between the header's", marks=pytest.mark.long
        ),
        ("domain_offset_bytes", 4, 0xFFFFFFC0, "do not lie between the header's"),
        ("max_khz", 4, 0, "highest frequency of domain 0, 0 kHz"),
        pytest.param("max_khz", 4, 0xFFFFFFFF, "highest frequency of domain 0", marks=pytest.mark.long),
        pytest.param("capacity", 2, 0, "capacity 0 of domain 0", marks=pytest.mark.long),
        ("capacity", 2, 2000, "capacity 2000 of domain 0"),
        pytest.param("level_count", 2, 0, "0 levels of domain 0", marks=pytest.mark.long),
        ("level_count", 2, 65, "65 levels of domain 0"),
        pytest.param("level_count", 2, 1, "the last level of domain 0 is", marks=pytest.mark.long),
        pytest.param("levels", 2, 0, "level 0 of domain 0, 0, does not rise", marks=pytest.mark.long),
        ("levels", 2, 2000, "does not rise"),
    ],
)
def test_refuses_a_table(
    guest: machine.Guest, region: Region, field: str, size: int, value: int, line: str
) -> None:
    """One line more; no frequencies, and all else as ever."""
    if field.startswith("domain_"):
        region.header(field, value, size)
    else:
        region.domain(0, field, value, size)
    guest.load_module()
    said, ready = module_lines(guest)
    assert "performance domains: " in said
    assert line in said
    assert said.endswith(": no frequencies; recreate the region")
    assert "2 vCPUs published" in ready
    features = region.features()
    assert features & region.abi["PARACORD_F_BOOST"]
    assert not features & (region.abi["PARACORD_F_PERF_REQUEST"] | region.abi["PARACORD_F_CAPACITY"])
    assert region.guest_line(0)
    assert policies(guest) == []


def test_equal_levels(guest: machine.Guest, region: Region, case: Case) -> None:
    """They would make the kernel's cpufreq core divide by zero."""
    level = region.levels(case.domain)[0]
    region.domain(case.domain, "levels", level, 2, entry=1)
    guest.load_module()
    assert f"level 1 of domain {case.domain}, {level}, does not rise" in module_lines(guest)[0]
    assert policies(guest) == []


def test_levels_that_kilohertz_cannot_tell_apart(guest: machine.Guest, region: Region, case: Case) -> None:
    region.domain(case.domain, "max_khz", 2, 4)
    guest.load_module()
    assert frequencies(guest) == [1, 2]
    govern(guest, "performance")
    assert region.perf(1) == (case.capacity, 0)


@pytest.mark.parametrize("how", ["minor", "none", "old host line", "not offered"])
def test_a_host_without_frequencies(guest: machine.Guest, region: Region, how: str) -> None:
    """Nothing to say about it: not every host has any."""
    if how == "minor":
        region.header("abi_minor", 0, 2)
        region.header("domain_stride_bytes", 1, 2)  # meant nothing then
    elif how == "none":
        region.header("domain_count", 0, 2)
    elif how == "old host line":
        region.header("host_line_bytes", 16, 4)
    else:
        region.header("host_features", region.abi["PARACORD_F_BOOST"], 4)
    guest.load_module()
    (line,) = module_lines(guest)
    assert "2 vCPUs published" in line
    assert policies(guest) == []


def test_capacities(guest: machine.Guest, region: Region, case: Case) -> None:
    """arm64: of a little and a big CPU, until the module goes. A hotplugged CPU keeps its own."""
    if case.board != JunoR2.name:
        pytest.skip("only arm64 lets modules set capacities")
    region.place(1, domain=case.domain + 2)
    guest.load_module()
    capacities = "cat /sys/devices/system/cpu/cpu[01]/cpu_capacity"
    assert guest.run(capacities).out.split() == ["383", "1024"]
    assert policies(guest) == ["policy0", "policy1"]
    guest.run("echo 0 > /sys/devices/system/cpu/cpu1/online; echo 1 > /sys/devices/system/cpu/cpu1/online")
    assert guest.run(capacities).out.split() == ["383", "1024"]
    guest.unload_module()
    assert guest.run(capacities).out.split() == ["1024", "1024"]


@pytest.mark.long
def test_a_clock_that_may_follow_the_frequency(host: machine.Host, abi: dict[str, int], case: Case) -> None:
    """x86: the kernel would take the TSC for unstable at the first change that it is told of."""
    if case.board != X86PStates.name:
        pytest.skip("arm64's clock is constant")
    with host.guest("clock", vcpus=1) as other:
        assert "constant_tsc" not in other.run("grep flags /proc/cpuinfo").out
        region = Region(host, abi, "/dev/shm/paracord/clock")
        region.place(0, domain=case.domain + 1)
        other.load_module()
        lowest = case.capacity * region.levels(case.domain)[0] // SCALE
        govern(other, "userspace")
        for khz, request in ((frequencies(other)[0], lowest), (frequencies(other)[-1], case.capacity)):
            set_all(other, "scaling_setspeed", khz)
            assert region.perf(0) == (request, 0)
        govern(other, "schedutil")
        await_equal(lambda: region.perf(0)[0], lowest)
        assert "nstable" not in other.run("dmesg").out
        other.unload_module()
