# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
T2, arm64 board: Linux' own driver of virtual frequencies, unmodified, in a guest under paracord-vmm: it
binds, its governor's requests are on the vCPU's thread and in the host's frequency, and the registers are as
it specifies.
"""

import re
import time
from pathlib import Path

import pytest

from paracord_lab import daemon, machine
from paracord_lab.boards import JunoR2
from paracord_lab.daemon import EMULATED_HOST, Daemon
from paracord_lab.host_share import running

pytestmark = [pytest.mark.lab, pytest.mark.measures, pytest.mark.arm64, pytest.mark.needs("emulated")]

VCPUS = 2
POLICY = "/sys/devices/system/cpu/cpufreq/policy0"
PAGE = 0x1000
CUR_PERF, SET_PERF, TABLE_LEN, TABLE_SELECT, TABLE_READ, DOMAIN = 0x00, 0x04, 0x08, 0x0C, 0x10, 0x14
READABLE = (CUR_PERF, TABLE_LEN, TABLE_READ, DOMAIN)
WRITABLE = (SET_PERF, TABLE_SELECT)
IDLE_PART = 0.6
# Of the scale, four fifths: schedutil adds a quarter. The lowest frequency is half of the highest.
SCALE, MUCH = 1024, 800
CAPACITIES = [383] * len(JunoR2.little) + [1024] * len(JunoR2.big)


@pytest.fixture(scope="module")
def host():
    with machine.host(board=JunoR2.name, logs=Path("out/test-virt-cpufreq/logs")) as booted:
        yield booted


@pytest.fixture(scope="module")
def guest(host):
    with host.guest("upstream", vcpus=VCPUS, vmm="paracord", extra_args=("--virt-cpufreq",)) as booted:
        yield booted


@pytest.fixture(scope="module")
def registers(guest):
    """Reads and writes the device's registers before a driver has it: values of the reads."""
    find = "dirname $(grep -l qemu,virtual-cpufreq $(find /sys/firmware/devicetree/base/ -name compatible))"
    reg = guest.run(f"hexdump -ve '1/1 \"%02x\"' $({find})/reg").out.strip()
    address, size = int(reg[:16], 16), int(reg[16:32], 16)
    assert size == VCPUS * PAGE

    def access(*words):
        out = guest.run(f"pc_mmio {address:#x} {size:#x} {' '.join(words)}").out
        return [int(line) for line in out.split()]

    return access


def at(cpu, register, width=4):
    return f"{width}@{cpu * PAGE + register:#x}"


def uclamp_min(host, tid):
    return int(re.search(r"min: (\d+)", host.run(f"uclampset -p {tid}").out)[1])


def test_mmio_register_conformance(registers, guest):
    """Every register of every CPU, in every width, and what is beside them."""
    assert not guest.run(f"ls {POLICY}", check=False).out.strip()
    for cpu in range(VCPUS):
        length, current, domain = registers(at(cpu, TABLE_LEN), at(cpu, CUR_PERF), at(cpu, DOMAIN))
        assert 1 <= length <= 64 and 0 <= domain < VCPUS
        words = [
            word for n in range(length) for word in (f"{at(cpu, TABLE_SELECT)}={n}", at(cpu, TABLE_READ))
        ]
        table = registers(*words)
        assert table == sorted(set(table)) and table[0] > 0, (
            "a driver divides by what two entries have between"
        )
        assert 0 < current <= table[-1]
        beyond = registers(
            f"{at(cpu, TABLE_SELECT)}={length}", at(cpu, TABLE_READ), f"{at(cpu, TABLE_SELECT)}=0"
        )
        assert beyond == [0]
        # A read of what is written and of what does not exist.
        nothing = [at(cpu, offset) for offset in (*WRITABLE, 0x18, 0x800, PAGE - 4)]
        assert registers(*nothing) == [0] * len(nothing)
        # Another width, at every register and between.
        wrong = [at(cpu, offset, width) for width in (1, 2, 8) for offset in range(0, 0x20, width)]
        assert registers(*wrong) == [0] * len(wrong)
        # A write of what is read, or with another width: nothing changes.
        before = registers(*(at(cpu, offset) for offset in READABLE))
        registers(*(f"{at(cpu, offset)}=12345" for offset in READABLE))
        registers(*(f"{at(cpu, offset, width)}=1" for width in (1, 2, 8) for offset in range(0, 0x18, 8)))
        assert registers(*(at(cpu, offset) for offset in READABLE)) == before
        # Above the table: clamped, and the device lives on.
        registers(
            f"{at(cpu, SET_PERF)}=0xffffffff", f"{at(cpu, SET_PERF)}=0", f"{at(cpu, SET_PERF)}={table[-1]}"
        )
        assert registers(at(cpu, TABLE_LEN)) == [length]


@pytest.fixture(scope="module")
def driven(guest, registers):
    """The guest with the driver, under schedutil."""
    drive(guest)
    return guest


def drive(guest):
    """The upstream driver, and schedutil for all of its policies."""
    guest.run("insmod /paracord/virtual-cpufreq.ko")
    guest.run(f"for p in {POLICY[:-1]}*; do echo schedutil > $p/scaling_governor; done")


def test_the_unmodified_driver_binds(driven):
    read = driven.run(
        f"cd {POLICY}; cat scaling_driver scaling_governor cpuinfo_min_freq cpuinfo_max_freq"
    ).out
    driver, governor, lowest, highest = read.split()
    assert (driver, governor) == ("virt-cpufreq", "schedutil")
    assert 0 < int(lowest) < int(highest)


def test_requests_reach_the_vcpu_thread_and_the_hosts_frequency(host, driven):
    """The guest's governor asks for more under load: the thread's clamp follows, and so does a frequency."""
    tid = driven.vcpu_tids[1]
    time.sleep(2)
    idle = uclamp_min(host, tid)
    with running(driven, "pc_hog --cpu 1", "hog"):
        time.sleep(3)
        busy = uclamp_min(host, tid)
        # Behind the name, which has a blank: state is the first, the CPU is the 37th.
        on = int(host.run(f"sed 's/.*) //' /proc/{tid}/stat | cut -d' ' -f37").out)
        policy = f"/sys/devices/system/cpu/cpu{on}/cpufreq"
        current, highest = map(
            int, host.run(f"cat {policy}/scaling_cur_freq {policy}/cpuinfo_max_freq").out.split()
        )
    time.sleep(2)
    # The lowest frequency is half of the highest.
    assert busy >= MUCH and idle <= IDLE_PART * busy, (idle, busy)
    assert on in JunoR2.big and current == highest, (on, current, highest)
    assert uclamp_min(host, tid) <= IDLE_PART * busy


def test_a_guest_may_look_like_its_host(host):
    """One vCPU per CPU, bound to it, with its capacity; those of a cluster have one frequency."""
    extra = ("--host-cpu-topology", "--virt-cpufreq")
    with host.guest("alike", vcpus=host.cpus, region=False, vmm="paracord", extra_args=extra) as guest:
        bound = [host.run(f"taskset -cp {tid}").out.split()[-1] for tid in guest.vcpu_tids]
        assert bound == [str(cpu) for cpu in range(host.cpus)]
        drive(guest)
        shared = guest.run(f"cat {POLICY[:-1]}*/related_cpus").out.splitlines()
        assert shared == [" ".join(map(str, cpus)) for cpus in (JunoR2.little, JunoR2.big)]
        capacities = guest.run("cat /sys/devices/system/cpu/cpu[0-9]/cpu_capacity").out.split()
        assert [int(one) for one in capacities] == CAPACITIES


def test_requests_through_the_region_reach_the_daemon(host):
    """The other back end: the daemon reads them as it does those of paracord's own driver."""
    settings = {**EMULATED_HOST, "actuator": "ext"}
    with (
        host.guest("through", vcpus=VCPUS, vmm="paracord", extra_args=("--virt-cpufreq=region",)) as guest,
        Daemon(host, settings).start(guest.vcpu_tids) as running_daemon,
    ):
        drive(guest)

        def await_request(fits):
            deadline = time.monotonic() + 30
            while True:
                # A governor says nothing of a CPU on which nothing runs.
                guest.run("taskset 2 true")
                vcpus = {one["vcpu_id"]: one["request"] for one in daemon.vcpus(running_daemon.status())}
                request = (vcpus[1] or {}).get("request", 0)
                if fits(request):
                    return
                assert time.monotonic() < deadline, request
                time.sleep(0.3)

        await_request(lambda request: 0 < request <= IDLE_PART * SCALE)
        with running(guest, "pc_hog --cpu 1", "hog"):
            await_request(lambda request: request >= MUCH)
        await_request(lambda request: 0 < request <= IDLE_PART * SCALE)
