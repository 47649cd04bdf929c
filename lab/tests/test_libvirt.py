# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
T1: two VMs of libvirt, each with a region, as docs/use-on-your-host.md describes it. Each VM's QEMU runs
as a user of its own, and cannot open the other VM's region.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from paracord_lab import machine
from paracord_lab.channel import Result
from paracord_lab.daemon import BINARY, Daemon
from paracord_lab.waiting import await_equal

pytestmark = [pytest.mark.lab, pytest.mark.needs("emulated", "btf")]
NAMES = ("first", "second")
# The user as whom Debian's libvirt runs a QEMU for which no other one is named.
SHARED_USER = "libvirt-qemu"
TIMEOUT_S = 120
# No guest system: a VM without a disk stays in its firmware.
DOMAIN = """
<domain type='kvm' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>{name}</name>
  <memory unit='MiB'>64</memory>
  <vcpu>1</vcpu>
  <os><type arch='x86_64' machine='pc'>hvm</type></os>
  <devices><emulator>/usr/bin/qemu-system-x86_64</emulator></devices>
  {of_paracord}
</domain>
"""


@pytest.fixture(scope="module")
def host() -> Iterator[machine.Host]:
    with machine.host(cpus=2, logs=Path("out/test-libvirt/logs")) as booted:
        booted.run(
            "mkdir -p /run/etc/upper /run/etc/work"
            " && mount -t overlay -o lowerdir=/etc,upperdir=/run/etc/upper,workdir=/run/etc/work overlay /etc"
            " && ln -s /run /var/run"
            # There is no service manager that runs virtlogd, and no udev that gives the device to the group.
            " && echo 'stdio_handler = \"file\"' >> /etc/libvirt/qemu.conf"
            " && chgrp kvm /dev/kvm && chmod 660 /dev/kvm"
        )
        for name in NAMES:
            booted.run(f"useradd --system --no-create-home --gid kvm vm-{name}")
        yield booted


@pytest.fixture(scope="module")
def daemon(host: machine.Host) -> Iterator[Daemon]:
    with Daemon(host) as running:
        yield running.start()


@pytest.fixture(scope="module")
def libvirt(host: machine.Host) -> Iterator[None]:
    job = host.spawn("exec libvirtd", "libvirtd")
    await_equal(lambda: host.run("virsh list", check=False, timeout=TIMEOUT_S).rc, 0, TIMEOUT_S)
    yield
    job.kill()
    job.wait(TIMEOUT_S)


@pytest.fixture(
    params=[
        pytest.param(True, id="own-users"),
        pytest.param(False, id="shared-user", marks=pytest.mark.long),
    ]
)
def own_users(request: pytest.FixtureRequest, host: machine.Host) -> Iterator[bool]:
    """Whether each VM has a user of its own. The regions belong to the VMs' users."""
    for name in NAMES:
        owner = f"vm-{name}" if request.param else SHARED_USER
        host.run(f"{BINARY} region create {name} --owner {owner}")
    yield request.param
    for name in NAMES:
        host.run(f"virsh destroy {name}", check=False, timeout=TIMEOUT_S)
    for name in NAMES:
        host.run(f"{BINARY} region remove {name}")


def start(host: machine.Host, name: str, region: str, own_users: bool) -> Result:
    user = f"--user vm-{name}" if own_users else ""
    printed = host.run(f"{BINARY} libvirt-xml {region} {user}").out
    of_paracord = re.search(r"<domain [^>]*>(.*)</domain>", printed, re.DOTALL)
    assert of_paracord, printed
    xml = host.share / f"{name}.xml"
    xml.write_text(DOMAIN.format(name=name, of_paracord=of_paracord[1]))
    return host.run(f"virsh create /share/{name}.xml", check=False, timeout=TIMEOUT_S)


def regions_in_use(daemon: Daemon) -> dict[str, str]:
    return {vm["name"]: vm["region"]["name"] for vm in daemon.status()["vms"] if vm["region"]}


def test_a_qemu_of_libvirt_opens_its_own_region_only(
    host: machine.Host, daemon: Daemon, libvirt: None, own_users: bool
) -> None:
    first = start(host, NAMES[0], NAMES[0], own_users)
    assert first.rc == 0, first.err
    await_equal(lambda: regions_in_use(daemon), {NAMES[0]: NAMES[0]}, TIMEOUT_S)
    other = start(host, NAMES[1], NAMES[0], own_users)
    # With one user for all, the second VM's QEMU opens the first VM's region: why each VM gets its own.
    assert (other.rc == 0) != own_users, other
    if own_users:
        assert "Permission denied" in other.err, other
        assert start(host, NAMES[1], NAMES[1], own_users).rc == 0
        await_equal(lambda: regions_in_use(daemon), {name: name for name in NAMES}, TIMEOUT_S)
