# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""Hints of guests without a device: the region lies in the guest's memory and is announced to the host."""

import time

import pytest

from paracord_lab import loads
from paracord_lab.daemon import REGION_IN_MEMORY, Daemon, boosts_for, counter
from paracord_lab.host_share import running
from paracord_lab.waiting import await_equal

pytestmark = [pytest.mark.lab, pytest.mark.measures, pytest.mark.needs("btf")]

REFUSED = "not a paracord region"
ATTACK = "/paracord/pc_announce.ko"
STATE = "/sys/devices/platform/paracord_guest/paracord"
SIGSEGV = 11
ANNOUNCE_MS = 1000


@pytest.fixture(scope="module")
def host(host_of_each_architecture):
    return host_of_each_architecture


@pytest.fixture(scope="module")
def plain(host):
    """A guest without a device, and without the module until a test loads it."""
    with host.guest("plain", vcpus=2, region=False) as booted:
        yield booted


@pytest.fixture
def guest(plain):
    yield plain
    plain.run("for m in paracord_guest pc_announce; do ! grep -q ^$m /proc/modules || rmmod $m; done")
    assert not plain.complaints()


def vm(daemon):
    (only,) = daemon.status()["vms"]
    return only


def region(daemon):
    """Name of the region in use; None without one."""
    return (vm(daemon)["region"] or {}).get("name")


def await_region(daemon, wanted, seconds=10):
    await_equal(lambda: region(daemon), wanted, seconds)


def announcements(daemon):
    return vm(daemon)["announcements"]


def boosts_by_a_realtime_task(host, guest, daemon):
    """Boosts with the reason "rt", while a real-time task wakes beside a loop on the same vCPU."""
    with loads.busy(host), running(guest, "pc_hog --cpu 0", "hog"):
        before = boosts_for(daemon.status(), "rt")
        guest.run("pc_audio --cpu 0 --period_us 20000 --work_permille 300 --seconds 4", timeout=60)
        return boosts_for(daemon.status(), "rt") - before


@pytest.mark.parametrize("announce", [1, pytest.param(0, marks=pytest.mark.long)])
def test_a_realtime_task_is_boosted_by_its_hint_without_a_device(host, guest, announce):
    guest.load_module(announce=announce)
    with Daemon(host).start(guest.vcpu_tids) as daemon:
        await_region(daemon, REGION_IN_MEMORY if announce else None)
        boosts = boosts_by_a_realtime_task(host, guest, daemon)
        # A slow host boosts for one or two of these tasks a second.
        assert boosts >= 3 if announce else boosts == 0
        if announce:
            kick = ["kick"] if host.arch == "x86_64" else []
            wanted = ["boost", "preempt_count", *kick, "perf_request", "capacity", "pmu"]
            assert vm(daemon)["region"]["features"] == wanted
            assert counter(daemon.status(), "guest_read_errors") == 0


def test_the_host_forgets_a_region_that_is_withdrawn_and_finds_the_next_one(host, guest):
    with Daemon(host).start(guest.vcpu_tids) as daemon:
        for _ in range(3):
            guest.load_module()
            await_region(daemon, REGION_IN_MEMORY)
            guest.unload_module()
            await_region(daemon, None)


def test_a_daemon_that_restarts_finds_the_region_within_two_seconds(host, guest):
    guest.load_module()
    with Daemon(host).start(guest.vcpu_tids) as daemon, running(guest, "pc_hog --cpu 1", "hog"):
        await_region(daemon, REGION_IN_MEMORY)
        daemon.stop()
        daemon.start(guest.vcpu_tids)
        await_region(daemon, REGION_IN_MEMORY, seconds=2 * ANNOUNCE_MS / 1000)


@pytest.mark.long
def test_announcements_come_once_a_second_and_none_from_an_idle_guest(host, guest):
    """An idle guest wakes now and then for its own housekeeping, and may announce then."""
    guest.load_module()
    with Daemon(host).start(guest.vcpu_tids) as daemon:
        await_region(daemon, REGION_IN_MEMORY)

        def in_ten_seconds():
            before = announcements(daemon)["all"]
            time.sleep(10)
            return announcements(daemon)["all"] - before

        with running(guest, "pc_hog --cpu 0", "hog"), running(guest, "pc_hog --cpu 1", "hog"):
            busy = in_ten_seconds()
        idle = in_ten_seconds()
    assert 8 <= busy <= 12
    # The guest's agent may run once or twice.
    assert idle <= 3


def test_user_space_of_a_guest_announces_nothing(host, guest):
    if host.arch != "x86_64":
        pytest.skip("arm64 has no such call in user space")
    with Daemon(host).start(guest.vcpu_tids) as daemon:
        before = announcements(daemon)
        assert guest.run("pc_ring3 msr 0x100000").out.split() == ["signal", str(SIGSEGV)]
        assert announcements(daemon) == before


def test_a_hypercall_of_user_space_would_be_believed(host, guest):
    """Why the announcement is no hypercall: the kernel traces it before it looks at the level."""
    if host.arch != "x86_64":
        pytest.skip("arm64 has no such call in user space")
    trace = "/sys/kernel/tracing/instances/ring3"
    host.run(f"mkdir -p {trace} && echo > {trace}/trace && echo 1 > {trace}/events/kvm/kvm_hypercall/enable")
    guest.run("pc_ring3 hypercall 0x100000")
    host.run(f"echo 0 > {trace}/events/kvm/kvm_hypercall/enable")
    assert "nr 0x50434b01" in host.run(f"cat {trace}/trace").out


def test_hostile_announcements_are_refused_counted_and_cheap(host, guest):
    with Daemon(host).start(guest.vcpu_tids) as daemon:
        started = time.monotonic()
        guest.run(f"insmod {ATTACK} rounds=20000", timeout=120)
        took = time.monotonic() - started
        counts = announcements(daemon)
        # A sixth are withdrawals, which are always looked at. Of the others, ten a second at most.
        others = 2 * 20000 * 5 // 6
        # The kernel leaves out a program that preempts itself on a CPU: one vCPU may preempt the other there.
        assert counts["all"] >= 0.999 * 2 * 20000
        assert others - counts["ignored"] <= 10 * took + 20
        assert counts["unreadable"] > 0
        guest.run("rmmod pc_announce")
        # The daemon answers, and an honest region is found afterwards.
        guest.load_module()
        await_region(daemon, REGION_IN_MEMORY)


@pytest.mark.parametrize(
    ("kind", "name", "why"),
    [
        (3, None, REFUSED),
        pytest.param(4, REGION_IN_MEMORY, None, marks=pytest.mark.long),
        pytest.param(0, None, None, marks=pytest.mark.long),
    ],
)
def test_what_is_announced_is_checked(host, guest, kind, name, why):
    with Daemon(host).start(guest.vcpu_tids) as daemon:
        with running(guest, "pc_hog --cpu 0", "hog"):
            guest.run(f"insmod {ATTACK} rounds=1 only={kind}")
            await_region(daemon, name)
            time.sleep(2)
            seen = vm(daemon)
        assert (seen["region"] or {}).get("name") == name
        refused = seen["region_refused"]
        assert refused is None if why is None else why in refused
        # A page that is no header any more, as after a crash: nothing is read there after a second.
        guest.run("rmmod pc_announce")


@pytest.mark.parametrize("host_line", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_guest_is_told_of_its_boosts_without_a_device_and_kicks(host, guest, host_line):
    guest.load_module(stale_boost_kick_us=2000)
    with Daemon(host, {'vm."plain".host_line': host_line}).start(guest.vcpu_tids) as daemon:
        await_region(daemon, REGION_IN_MEMORY)
        may_kick = host_line and host.arch == "x86_64"
        # A slow host boosts for one or two of these tasks a second, and few of the boosts become stale.
        for _ in range(6 if may_kick else 2):
            boosts_by_a_realtime_task(host, guest, daemon)
            kicks = int(guest.run(f"cat {STATE}/kicks").out)
            if kicks:
                break
        seen = vm(daemon)["region"]
        boosts = daemon.status()["actuator"]["boosts"]
    assert ("kick" in seen["features"]) == may_kick
    assert (kicks > 0) == may_kick
    if host_line:
        # Each boost is written when it begins and when it ends, unless both happen between two exits.
        assert seen["host_lines"]["writes"] > max(10, boosts / 2), boosts
        assert seen["host_lines"]["left_alone"] == 0
    else:
        assert seen["host_lines"] is None


@pytest.mark.parametrize("rom", [pytest.param(0, marks=pytest.mark.long), 1])
def test_only_memory_that_is_announced_and_writable_is_written(host, guest, rom):
    """A guest that announces a ROM, or crashes: what it says no longer applies to its memory."""
    if rom and host.arch != "x86_64":
        pytest.skip("arm64 has no ROM below 4 GiB")
    with Daemon(host).start(guest.vcpu_tids):
        guest.run(f"insmod {ATTACK} seconds=6 rom={rom}", timeout=60)
    parameters = "/sys/module/pc_announce/parameters"
    found = guest.run(f"cat {parameters}/written {parameters}/damaged").out.split()
    assert found == ["N" if rom else "Y", "N"]
