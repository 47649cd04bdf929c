# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
The life of a VM without a device: migration there and back, stop, suspend, hot-plug, and what paracord makes
of it.
"""

import time

import pytest

from paracord_lab import loads
from paracord_lab.daemon import REGION_IN_MEMORY, Daemon, boosts_for
from paracord_lab.guest import HEAL_MAX_S
from paracord_lab.host_share import running
from paracord_lab.waiting import await_equal

pytestmark = [pytest.mark.lab, pytest.mark.measures, pytest.mark.needs("btf")]


@pytest.fixture(scope="module")
def host(host_of_each_architecture):
    return host_of_each_architecture


@pytest.fixture
def guest(host):
    with host.guest("here", vcpus=2, region=False) as booted:
        booted.load_module()
        yield booted
        assert not booted.complaints()


def only_vm(daemon):
    (vm,) = daemon.status()["vms"]
    return vm


def await_boosts_of_a_realtime_task(host, guest, daemon):
    before = boosts_for(daemon.status(), "rt")
    with loads.busy(host):
        guest.run("pc_audio --cpu 0 --period_us 20000 --work_permille 300 --seconds 3", timeout=60)
    assert boosts_for(daemon.status(), "rt") > before


@pytest.mark.parametrize("way", [["there"], pytest.param(["there", "here"], marks=pytest.mark.long)])
def test_a_vm_that_migrates_keeps_its_hints(host, guest, way):
    with Daemon(host).start(guest.vcpu_tids) as daemon, running(guest, "pc_hog --cpu 1", "hog"):
        daemon.await_region_in_memory("here")
        for name in way:
            assert guest.migrate(name, daemon).heal_s < HEAL_MAX_S
            await_equal(lambda: len(daemon.status()["vms"]), 1, 30)
            await_boosts_of_a_realtime_task(host, guest, daemon)
        assert only_vm(daemon)["region"]["host_lines"]["left_alone"] == 0


@pytest.mark.long
def test_a_vm_that_is_stopped_and_goes_on_keeps_its_hints(host, guest):
    with Daemon(host).start(guest.vcpu_tids) as daemon, running(guest, "pc_hog --cpu 1", "hog"):
        daemon.await_region_in_memory("here")
        guest.monitor("stop")
        time.sleep(6)
        guest.monitor("cont")
        await_boosts_of_a_realtime_task(host, guest, daemon)


@pytest.mark.long
def test_a_vm_that_is_saved_and_restored_keeps_its_hints(host, guest):
    with Daemon(host).start(guest.vcpu_tids) as daemon, running(guest, "pc_hog --cpu 1", "hog"):
        daemon.await_region_in_memory("here")
        guest.save_and_restore("again")
        daemon.await_region_in_memory("again")
        await_equal(lambda: len(daemon.status()["vms"]), 1, 30)
        await_boosts_of_a_realtime_task(host, guest, daemon)


def await_region(daemon, name):
    await_equal(lambda: (only_vm(daemon)["region"] or {}).get("name"), name, 60)


SPARE = "/dev/shm/paracord/spare"


def plug_region(host, guest):
    size = host.run(f"stat -c %s {SPARE}").out.strip()
    guest.monitor(f"object_add memory-backend-file,id=spare,share=on,size={size},mem-path={SPARE}")
    guest.monitor("device_add ivshmem-plain,id=region,memdev=spare,master=on,bus=plug")


def has_no_spare(guest):
    """Removes the memory of a device that is unplugged, which takes the guest some seconds."""
    guest.monitor("object_del spare")
    return "spare" not in guest.monitor("info memdev")


@pytest.mark.long
def test_what_is_plugged_and_unplugged_is_followed(host):
    extra = ["-device", "pcie-root-port,id=plug,slot=1", "-m", "slots=1,maxmem=2G"]
    with host.guest("plugs", vcpus=2, region=False, extra_args=extra) as guest:
        guest.load_module()
        started = Daemon(host, {'region."spare".vcpus': 2}).start(guest.vcpu_tids)
        with started as daemon, running(guest, "pc_hog --cpu 1", "hog"):
            await_region(daemon, REGION_IN_MEMORY)
            guest.monitor("object_add memory-backend-ram,id=more,size=128M")
            guest.monitor("device_add pc-dimm,id=dimm,memdev=more")
            await_boosts_of_a_realtime_task(host, guest, daemon)
            for _ in range(2):
                plug_region(host, guest)
                await_region(daemon, "spare")
                await_boosts_of_a_realtime_task(host, guest, daemon)
                guest.monitor("device_del region")
                await_region(daemon, REGION_IN_MEMORY)
                await_boosts_of_a_realtime_task(host, guest, daemon)
                await_equal(lambda: has_no_spare(guest), True, 60)
        assert not guest.complaints()


# A test of the kernel's own (Documentation/power/basic-pm-debugging.rst): it freezes all tasks, waits for
# five seconds, and resumes. So no device has to wake the machine.
SUSPEND = (
    "cd /sys/power && echo freezer > pm_test && echo freeze > state; rc=$?; echo none > pm_test; exit $rc"
)
SUSPENDED_S = 5


def assert_suspended_and_boosting(suspended, host, guest, daemon):
    """suspended: the host or the guest. Afterwards, the guest's hints are used as before."""
    await_region(daemon, REGION_IN_MEMORY)
    before = time.monotonic()
    suspended.run(SUSPEND, timeout=120)
    assert time.monotonic() - before > SUSPENDED_S
    await_region(daemon, REGION_IN_MEMORY)
    await_boosts_of_a_realtime_task(host, guest, daemon)


@pytest.mark.long
@pytest.mark.needs("emulated")
@pytest.mark.parametrize("actuator", ["rt", "ext"])
def test_a_host_that_suspends_goes_on_boosting(host, guest, actuator):
    """Only its tasks are frozen: the emulated host's disks do not survive more."""
    started = Daemon(host, {"actuator": actuator}).start(guest.vcpu_tids)
    with started as daemon, running(guest, "pc_hog --cpu 1", "hog"):
        assert_suspended_and_boosting(host, host, guest, daemon)
        assert daemon.status()["actuator"]["kind"] == actuator


@pytest.mark.long
def test_a_guest_that_suspends_goes_on_giving_hints(host, guest):
    """
    Only its tasks are frozen. The lab's x86 guests hang when their devices are suspended, and end when they
    wake from S3, without paracord's module as well.
    """
    with Daemon(host).start(guest.vcpu_tids) as daemon, running(guest, "pc_hog --cpu 1", "hog"):
        assert_suspended_and_boosting(guest, host, guest, daemon)
        assert only_vm(daemon)["region"]["host_lines"]["left_alone"] == 0


@pytest.mark.long
@pytest.mark.needs("emulated")
def test_a_daemon_that_was_started_before_kvm_was_loaded_finds_the_next_vm(host):
    if host.arch != "x86_64":
        pytest.skip("KVM is a part of arm64's kernel")
    loaded = host.run("lsmod | grep -o '^kvm_[a-z]*'").out.strip()
    host.run(f"modprobe -r {loaded}")
    with Daemon(host) as daemon:
        try:
            daemon.start()
            assert any("KVM is not loaded" in line for line in daemon.status()["conditions"])
        finally:
            host.run(f"modprobe {loaded}")
        with host.guest("late", vcpus=1, region=False) as guest, running(guest, "pc_hog", "hog"):
            daemon.await_vcpus(guest.vcpu_tids)
            guest.load_module()
            await_region(daemon, REGION_IN_MEMORY)
