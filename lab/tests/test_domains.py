# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""Frequencies of guests without a device: the host writes its performance domains into their memory."""

import json
import time
from contextlib import ExitStack, contextmanager

import pytest

from paracord_lab import kills
from paracord_lab.boards import X86PStates
from paracord_lab.daemon import Daemon
from paracord_lab.guest import HEAL_MAX_S
from paracord_lab.host_share import running
from paracord_lab.waiting import await_equal

pytestmark = [pytest.mark.lab, pytest.mark.needs("emulated")]

CPUFREQ = "/sys/devices/system/cpu/cpufreq"
AVAILABLE = "scaling_available_frequencies"
NAME = "plain"
SCALE = 1024
KHZ = [1000 * mhz for mhz in reversed(X86PStates.mhz)]
FOUND_S = 30


@pytest.fixture(scope="module")
def host(shared_host):
    return shared_host(board=X86PStates.name)


@pytest.fixture(scope="module")
def plain(host):
    with host.guest(NAME, vcpus=2, region=False, cmdline="setcpuid=constant_tsc") as booted:
        yield booted


@pytest.fixture
def guest(plain):
    plain.run("dmesg -c >/dev/null")
    plain.load_module()
    yield plain
    plain.unload_module()
    assert not plain.complaints()


@contextmanager
def busy(guest):
    """Both vCPUs run: one that is idle makes no exits, and the host reads no request of it."""
    with ExitStack() as stack:
        for cpu in (0, 1):
            stack.enter_context(running(guest, f"pc_hog --cpu {cpu}", f"hog{cpu}"))
        yield


def frequencies(guest, cpu):
    """kHz of a CPU, rising. Empty without a cpufreq driver."""
    listed = guest.run(f"cat {CPUFREQ}/policy{cpu}/{AVAILABLE} 2>/dev/null || true").out
    return sorted(map(int, listed.split()))


def await_frequencies(guest, wanted):
    shown = [as_level(khz) for khz in wanted]
    for cpu in (0, 1):
        await_equal(lambda cpu=cpu: frequencies(guest, cpu), shown, seconds=FOUND_S)


def as_level(khz):
    """What the guest shows for a frequency: a level of 1024, which is rounded up."""
    return KHZ[-1] * -(-khz * SCALE // KHZ[-1]) // SCALE


def requests(daemon):
    (vm,) = daemon.status()["vms"]
    return [(one["request"] or {}).get("request") for one in vm["vcpus"]]


@contextmanager
def without_lowest_frequency(host):
    """What the daemon reads of the host's frequencies while the context is open, as on another host."""
    policies = host.run(f"ls {CPUFREQ}/policy*/{AVAILABLE}").out.split()
    host.run(f"echo {' '.join(map(str, KHZ[1:]))} >/run/lab/frequencies")
    for policy in policies:
        host.run(f"mount --bind /run/lab/frequencies {policy}")
    try:
        yield
    finally:
        for policy in policies:
            host.run(f"umount {policy}")


@pytest.mark.parametrize("host_line", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_guest_without_a_device_has_the_hosts_frequencies(host, guest, host_line):
    started = Daemon(host, {f'vm."{NAME}".host_line': host_line}).start(guest.vcpu_tids)
    with started as daemon, busy(guest):
        daemon.await_region_in_memory(NAME, FOUND_S)
        if not host_line:
            # Much longer than it takes otherwise until frequencies are there.
            time.sleep(5)
            assert "perf_request" not in daemon.status()["vms"][0]["region"]["features"]
            assert not frequencies(guest, 0)
            return
        await_frequencies(guest, KHZ)
        guest.run(f"for p in {CPUFREQ}/policy*; do echo userspace >$p/scaling_governor; done")
        for khz in (KHZ[-1], KHZ[0]):
            guest.run(f"for p in {CPUFREQ}/policy*; do echo {as_level(khz)} >$p/scaling_setspeed; done")
            wanted = [SCALE * khz // KHZ[-1]] * 2
            await_equal(lambda wanted=wanted: all_within_one(requests(daemon), wanted), True, FOUND_S)


def all_within_one(found, wanted):
    return all(one is not None and abs(one - other) <= 1 for one, other in zip(found, wanted, strict=True))


@pytest.mark.long
def test_a_guest_follows_a_host_with_other_frequencies(host, guest):
    """As after a migration: another daemon, and other frequencies. The module stays loaded."""
    with Daemon(host).start(guest.vcpu_tids) as daemon, busy(guest):
        await_frequencies(guest, KHZ)
        guest.run(f"for p in {CPUFREQ}/policy*; do echo performance >$p/scaling_governor; done")
        daemon.stop()
        # A host with the same frequencies changes nothing.
        daemon.start(guest.vcpu_tids)
        daemon.await_region_in_memory(NAME, FOUND_S)
        time.sleep(5)
        assert guest.run(f"cat {CPUFREQ}/policy*/scaling_governor").out.split() == ["performance"] * 2
        daemon.stop()
        with without_lowest_frequency(host):
            daemon.start(guest.vcpu_tids)
            await_frequencies(guest, KHZ[1:])
            daemon.stop()
    assert guest.run("dmesg").out.count("the host has other performance domains") == 1


@pytest.mark.long
def test_a_vcpu_that_is_plugged_has_frequencies(host):
    plug = "device_add host-x86_64-cpu,id=second,socket-id=0,core-id=1,thread-id=0"
    online = "cd /sys/devices/system/cpu; until test -e cpu1; do sleep 0.1; done; echo 1 >cpu1/online"
    shown = [as_level(khz) for khz in KHZ]
    options = {"cmdline": "setcpuid=constant_tsc", "extra_args": ["-smp", "maxcpus=2"]}
    with host.guest("grows", vcpus=1, region=False, **options) as guest:
        guest.load_module()
        with Daemon(host).start(guest.vcpu_tids) as daemon, running(guest, "pc_hog --cpu 0", "hog0"):
            await_equal(lambda: frequencies(guest, 0), shown, FOUND_S)
            for _ in range(2):
                guest.monitor(plug)
                guest.run(online)
                with running(guest, "pc_hog --cpu 1", "hog1"):
                    await_equal(lambda: frequencies(guest, 1), shown, FOUND_S)
                    await_equal(lambda: all(requests(daemon)) and len(requests(daemon)), 2, FOUND_S)
                guest.monitor("device_del second")
                await_equal(lambda: len(requests(daemon)), 1, FOUND_S)


def test_the_table_is_written_into_announced_memory_only(host, plain):
    """A guest that crashes right after an announcement: its memory gets another use."""
    with Daemon(host).start(plain.vcpu_tids):
        plain.run("insmod /paracord/pc_announce.ko seconds=6", timeout=60)
    found = plain.run("cd /sys/module/pc_announce/parameters && cat written domains damaged").out.split()
    plain.run("rmmod pc_announce")
    assert found == ["Y", "Y", "N"]


def vcpus_of_kvm(host):
    """The number of vCPUs that the sensor knows by their address in KVM."""
    return len(json.loads(host.run("bpftool map dump -j name kvm_vcpus").out))


def lines_written(daemon, name):
    """Writes of host lines into the memory of this VM."""
    return (daemon.region(name).get("host_lines") or {}).get("writes", 0)


@pytest.mark.long
def test_twenty_migrations_leave_nothing_behind(host):
    """There and back, ten times, with frequencies, and with a real-time task that runs all the time."""
    here, there = "moves", "moved"
    audio = "pc_audio --cpu 0 --period_us 20000 --work_permille 200 --seconds 3600"
    before = kills.realtime_threads(host)
    with host.guest(here, vcpus=2, region=False, cmdline="setcpuid=constant_tsc") as guest:
        guest.load_module()
        with Daemon(host).start(guest.vcpu_tids) as daemon:
            with running(guest, "pc_hog --cpu 1", "hog"), running(guest, audio, "audio"):
                await_frequencies(guest, KHZ)
                known_at_first = vcpus_of_kvm(host)
                for name in (there, here) * 10:
                    assert guest.migrate(name, daemon).heal_s < HEAL_MAX_S
                    # The guest's policies have come with it, so what the host writes shows the rest.
                    await_equal(lambda name=name: lines_written(daemon, name) > 0, True, FOUND_S)
                    await_frequencies(guest, KHZ)
            await_equal(lambda: [vm["name"] for vm in daemon.status()["vms"]].count(there), 0, FOUND_S)
            await_equal(lambda: vcpus_of_kvm(host) - known_at_first, 0, FOUND_S)
            status = daemon.status()
            assert status["vcpus_refused"] == status["vms_refused"] == status["actuator"]["errors"] == 0
            assert status["actuator"]["boosts"] > 0
        assert not set(kills.realtime_threads(host)) - set(before)
        assert "the host has other performance domains" not in guest.run("dmesg").out
        assert not guest.complaints()
