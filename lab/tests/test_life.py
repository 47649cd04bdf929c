# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""The life of a VM without a device: migration there and back, stop, and what paracord makes of it."""

import time

import pytest

from paracord_lab import loads
from paracord_lab.daemon import Daemon
from paracord_lab.host_share import running
from paracord_lab.waiting import await_equal

pytestmark = [pytest.mark.lab, pytest.mark.measures, pytest.mark.needs("btf")]

IN_MEMORY = "(guest memory)"
# An announcement a second, a look of the daemon at it, and what an emulated host needs.
HEAL_S = 4


@pytest.fixture(scope="module")
def host(host_of_each_architecture):
    loads.switch_autogroups(host_of_each_architecture, "0")
    return host_of_each_architecture


@pytest.fixture
def guest(host):
    with host.guest("here", vcpus=2, region=False) as booted:
        booted.load_module()
        yield booted
        log = booted.run("dmesg").out
        assert not [line for line in log.splitlines() if any(w in line for w in ("BUG:", "WARNING:", "Oops"))]


def only_vm(daemon):
    (vm,) = daemon.status()["vms"]
    return vm


def await_region(daemon, name):
    """Waits until the VM of this name has its region, and returns how long that took."""
    start = time.monotonic()

    def found():
        vms = {vm["name"]: (vm["region"] or {}).get("name") for vm in daemon.status()["vms"]}
        return vms.get(name)

    await_equal(found, IN_MEMORY, 30)
    return time.monotonic() - start


def rt_boosts(daemon):
    return sum(vcpu["counters"]["boosts"][2] for vcpu in only_vm(daemon)["vcpus"])


def test_a_vm_that_migrates_there_and_back_keeps_its_hints(host, guest):
    with Daemon(host).start(guest.vcpu_tids) as daemon, running(guest, "pc_hog --cpu 1", "hog"):
        await_region(daemon, "here")
        for name in ("there", "here"):
            guest.migrate(name)
            assert await_region(daemon, name) < HEAL_S
            await_equal(lambda: len(daemon.status()["vms"]), 1, 30)
            with loads.busy(host):
                before = rt_boosts(daemon)
                guest.run("pc_audio --cpu 0 --period_us 20000 --work_permille 300 --seconds 3", timeout=60)
                assert rt_boosts(daemon) > before
        assert only_vm(daemon)["region"]["host_lines"]["left_alone"] == 0


def test_a_vm_that_is_stopped_and_goes_on_keeps_its_hints(host, guest):
    with Daemon(host).start(guest.vcpu_tids) as daemon, running(guest, "pc_hog --cpu 1", "hog"):
        await_region(daemon, "here")
        guest.monitor("stop")
        time.sleep(6)
        guest.monitor("cont")
        assert await_region(daemon, "here") < HEAL_S
