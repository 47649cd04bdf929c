# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""T1: paracord's scheduler on the lab's kernel: fair, boosting in the kernel, and its end is survived."""

import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from paracord_lab import daemon, fairness, loads, machine
from paracord_lab.daemon import BINARY, EMULATED_HOST, Daemon
from paracord_lab.host_share import running

pytestmark = pytest.mark.lab
EXT = {**EMULATED_HOST, "actuator": "ext"}
STATE = "/sys/kernel/sched_ext/state"
NORMAL, BOOSTED = "SCHED_OTHER 0", "SCHED_RR 8"


@pytest.fixture(scope="module")
def host():
    with machine.host(cpus=2, logs=Path("out/test-ext/logs")) as booted:
        booted.run("echo 0 > /proc/sys/kernel/sched_autogroup_enabled")
        yield booted


@pytest.fixture(scope="module")
def guest(host):
    with host.guest("ext", vcpus=1) as booted:
        booted.load_module()
        yield booted


def state(host):
    return host.run(f"cat {STATE}").out.strip()


def await_state(host, wanted, told="", seconds=40):
    deadline = time.monotonic() + seconds
    while state(host) != wanted:
        assert time.monotonic() < deadline, f"{STATE} is {state(host)}, not {wanted}; {told and told()}"
        time.sleep(0.2)


@contextmanager
def scheduling(host, vcpu_tids=(), arguments=""):
    """The daemon, with its scheduler in force."""
    with Daemon(host, EXT, arguments).start(vcpu_tids) as running_daemon:
        await_state(host, "enabled", running_daemon.last_words)
        yield running_daemon


def test_nice_values_share_a_cpu_by_their_weights(host):
    equal, weighted = (0, 0, 0), (0, 5)
    with scheduling(host):
        errors = [
            fairness.nice_error(fairness.nice_shares(host, levels, 6), levels) for levels in (equal, weighted)
        ]
    await_state(host, "disabled")
    assert max(errors) < 0.05, errors


def test_control_groups_share_a_cpu_by_their_weights(host):
    """Whatever is in them: one task in the heavy group, two in the light one."""
    with fairness.groups(host, {"light": 100, "heavy": 300}), scheduling(host):
        shares = fairness.group_shares(host, ("heavy", "light", "light"), 8)
    assert fairness.error(shares, (6, 1, 1)) < 0.06, shares


def test_boosts_without_touching_the_thread(host, guest):
    busy = loads.HostLoad(host).start()
    (tid,) = guest.vcpu_tids
    try:
        busy.busy()
        with scheduling(host, [tid]) as running_daemon:
            guest.run("cyclictest -q -m -i 2000 -l 500 --policy=rr -p 50", timeout=60)
            status = running_daemon.status()
            assert loads.policies(host, [tid]) == {tid: NORMAL}
    finally:
        busy.stop()
    assert status["actuator"]["kind"] == "ext"
    (vcpu,) = daemon.vcpus(status)
    boosted = sum(vcpu["wakeup_latency_boosted"]["buckets"])
    assert boosted > 200, vcpu
    assert status["actuator"]["errors"] == 0


def test_the_kernel_ejects_it_and_boosts_go_on_with_rt(host, guest):
    (tid,) = guest.vcpu_tids
    with scheduling(host, [tid]) as running_daemon:
        host.run("echo S > /proc/sysrq-trigger")
        await_state(host, "disabled")
        guest.run("sleep 1")
        assert loads.policies(host, [tid]) == {tid: BOOSTED}
        status = running_daemon.status()
        said = running_daemon.job.err()
    assert status["actuator"]["kind"] == "rt"
    assert "has unloaded paracord's scheduler" in said
    assert loads.policies(host, [tid]) == {tid: NORMAL}


def test_a_second_scheduler_is_named_and_not_fought(host):
    with scheduling(host):
        other = host.run(
            f'mkdir -p /tmp/second && printf \'actuator = "ext"\\nrun_dir = "/tmp/second"\\n'
            f'[control]\\nsocket = "/tmp/second/control.sock"\\n\' > /tmp/second.toml && '
            f"timeout 60 {BINARY} run --config /tmp/second.toml; true",
            timeout=120,
        )
        assert state(host) == "enabled"
    said = other.out + other.err
    assert "the scheduler paracord" in said and "going on with rt" in said


def test_killed_daemon_leaves_stock_scheduling(host, guest):
    with (
        scheduling(host, guest.vcpu_tids, "--no-supervisor") as running_daemon,
        running(guest, "pc_hog", "hog"),
    ):
        running_daemon.job.kill("KILL")
        await_state(host, "disabled")
    assert loads.policies(host, guest.vcpu_tids) == {guest.vcpu_tids[0]: NORMAL}
