# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""Boots an emulated host and guests in it. Root; about a minute when the images are there."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from paracord_lab import images, machine, tree
from paracord_lab.errors import ChannelClosed, CommandError, CommandTimeout, LabError

pytestmark = [pytest.mark.lab, pytest.mark.needs("emulated")]
LAB = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    with machine.host(cpus=2, logs=tmp_path_factory.mktemp("machines") / "logs") as host:
        yield host


@pytest.fixture(scope="module")
def guest(host):
    with host.guest("vm1", vcpus=2) as guest:
        yield guest


def test_host_runs_the_stock_kernel_with_what_paracord_needs(host):
    assert host.kernel == images.ensure().release and host.cpus == 2 and host.kind == "emulated"
    host.run(
        "test -e /sys/kernel/btf/vmlinux && test -e /sys/kernel/btf/kvm && test -d /sys/kernel/sched_ext"
    )
    host.run("test -c /dev/kvm && test -e /sys/kernel/tracing/events/kvm/kvm_exit")
    assert host.run("cat /sys/devices/system/clocksource/clocksource0/current_clocksource").out == "tsc\n"


def test_no_guest_runs_on_the_first_emulated_cpu(host, guest):
    """Two threads of TCG change that CPU's SVM state without a lock (docs/lab.md)."""
    tcg = host.accelerator == "tcg"
    cpus = host.run("nproc --all; nproc").out.split()
    assert cpus == (["3", "2"] if tcg else ["2", "2"])
    allowed = [host.run(f"taskset -cp {tid}").out.split()[-1] for tid in guest.vcpu_tids]
    assert allowed == ["1,2" if tcg else "0,1"] * 2


def test_share_works_both_ways_and_payload_is_read_only(host, tmp_path):
    (tmp_path / "question").write_text("42\n")
    assert host.put(tmp_path / "question") == "/share/question"
    host.run("sed s/4/5/ /share/question > /share/answer")
    assert (host.share / "answer").read_text() == "52\n"
    assert host.run("touch /payload/x", check=False).rc != 0
    assert host.run("test -x /payload/bin/paracord && paracord --version").rc == 0


def test_urgent_command_is_a_real_time_task_from_the_start(host):
    """A host whose ordinary work starves, as one without budgets does, still answers what measures it."""
    each = "chrt -p $$; sh -c 'chrt -p $PPID; chrt -p $$'"
    assert host.run(each, urgent=True).out.count("SCHED_RR") == 3
    assert host.run(each).out.count("SCHED_OTHER") == 3


def test_errors_of_commands_are_one_line(host):
    with pytest.raises(CommandError, match="host: `ls /nowhere` failed") as error:
        host.run("ls /nowhere")
    assert "\n" not in str(error.value)
    with pytest.raises(CommandTimeout, match="did not end in"):
        host.run("sleep 100", timeout=0.5)


def test_clock_is_the_hosts_monotonic_clock(host):
    first = host.read_clock_ns()
    up_s = float(host.run("cut -d' ' -f1 /proc/uptime").out)
    assert first <= up_s * 1e9 + 1e7 <= host.read_clock_ns() + 2e7


def test_guest_has_its_vcpus_region_and_programs(host, guest):
    assert guest.run("uname -r").out.strip() == host.kernel
    assert guest.run("nproc").out == "2\n" and len(set(guest.vcpu_tids)) == 2
    names = [host.run(f"cat /proc/{guest.pid}/task/{tid}/comm").out for tid in guest.vcpu_tids]
    assert names == ["CPU 0/KVM\n", "CPU 1/KVM\n"]
    assert "0x1af4" in guest.run("cat /sys/bus/pci/devices/*/vendor").out
    assert "0x1110" in guest.run("cat /sys/bus/pci/devices/*/device").out
    guest.run("command -v cyclictest && test -f /paracord/paracord_guest.ko")
    measured = guest.run("cyclictest -q -m -p 50 -i 1000 -l 100").out
    assert "Avg:" in measured


def test_module_loads_into_the_guest_and_leaves(guest):
    guest.load_module()
    assert "paracord_guest" in guest.run("cat /proc/modules").out
    guest.unload_module()
    assert "paracord_guest" not in guest.run("cat /proc/modules").out


def test_dead_guest_is_reported_and_the_host_lives(host):
    guest = host.guest("victim")
    job = guest.spawn("sleep 1000")
    assert job.pid > 1
    guest.kill()
    with pytest.raises(ChannelClosed, match="guest victim"):
        job.wait(20)
    guest.stop()
    assert not guest.running and host.run("ls /dev/shm/paracord").out.split() in (["vm1"], [])


def test_panic_of_a_guest_is_the_reason(host):
    guest = host.guest("panics", region=False)
    with pytest.raises(
        ChannelClosed, match="kernel panic: Kernel panic - not syncing: sysrq triggered crash"
    ):
        guest.run("echo 1 > /proc/sys/kernel/sysrq; echo c > /proc/sysrq-trigger; sleep 30", timeout=60)
    assert "sysrq triggered crash" in (host.logs / "panics.serial.log").read_text()


def test_refused_by_the_emulator_is_the_reason(host):
    with pytest.raises(LabError, match=r"guest odd did not boot: emulator: .*no-such-device"):
        host.guest("odd", region=False, extra_args=["-device", "no-such-device"])


@pytest.mark.parametrize("sig", [pytest.param(signal.SIGINT, marks=pytest.mark.long), signal.SIGKILL])
def test_interrupt_leaves_no_process(tmp_path, sig):
    """Ctrl-C, and the harder case: the lab itself is killed."""
    code = "from paracord_lab import machine\nfrom pathlib import Path\nimport signal, time\n"
    # A shell that runs the tests in its background has Ctrl-C ignored.
    code += "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    code += f"with machine.host(logs=Path({str(tmp_path / 'logs')!r})):\n"
    code += " print('up', flush=True)\n time.sleep(60)\n"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(LAB)},
    )
    assert process.stdout.readline() == "up\n"
    assert emulators(tmp_path)
    process.send_signal(sig)
    process.wait(20)
    deadline = time.monotonic() + 10
    while emulators(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not emulators(tmp_path)


def emulators(directory: Path) -> list[str]:
    """Process ids of emulators that have a log below the directory open."""
    found = []
    for descriptors in Path("/proc").glob("[0-9]*/fd"):
        try:
            opened = [str(link.readlink()) for link in descriptors.iterdir()]
            name = (descriptors.parent / "comm").read_text()
        except OSError:
            continue
        if "qemu" in name and any(str(directory / "logs") in path for path in opened):
            found.append(descriptors.parent.name)
    return found


def test_nothing_stays_mounted_in_the_trees(host):
    mounts = Path("/proc/self/mountinfo").read_text()
    assert str(tree.ensure("tools")) not in mounts and str(tree.ensure("host")) not in mounts
