# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""The life of a VM without a device: migration there and back, stop, and what paracord makes of it."""

import time

import pytest

from paracord_lab import loads
from paracord_lab.daemon import Daemon
from paracord_lab.host_share import running
from paracord_lab.waiting import await_equal

pytestmark = [pytest.mark.lab, pytest.mark.measures, pytest.mark.needs("btf")]

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


def rt_boosts(daemon):
    return sum(vcpu["counters"]["boosts"][2] for vcpu in only_vm(daemon)["vcpus"])


def await_boosts_of_a_realtime_task(host, guest, daemon):
    before = rt_boosts(daemon)
    with loads.busy(host):
        guest.run("pc_audio --cpu 0 --period_us 20000 --work_permille 300 --seconds 3", timeout=60)
    assert rt_boosts(daemon) > before


def test_a_vm_that_migrates_there_and_back_keeps_its_hints(host, guest):
    with Daemon(host).start(guest.vcpu_tids) as daemon, running(guest, "pc_hog --cpu 1", "hog"):
        daemon.await_region_in_memory("here")
        for name in ("there", "here"):
            assert guest.migrate(name, daemon).heal_s < HEAL_S
            await_equal(lambda: len(daemon.status()["vms"]), 1, 30)
            await_boosts_of_a_realtime_task(host, guest, daemon)
        assert only_vm(daemon)["region"]["host_lines"]["left_alone"] == 0


def test_a_vm_that_is_stopped_and_goes_on_keeps_its_hints(host, guest):
    with Daemon(host).start(guest.vcpu_tids) as daemon, running(guest, "pc_hog --cpu 1", "hog"):
        daemon.await_region_in_memory("here")
        guest.monitor("stop")
        time.sleep(6)
        guest.monitor("cont")
        await_boosts_of_a_realtime_task(host, guest, daemon)
