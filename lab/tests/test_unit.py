# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""T1: `make install` and the systemd unit, under the sandbox that the unit asks for, with a real guest."""

import json
import subprocess
from pathlib import Path

import pytest

from paracord_lab import daemon, loads, machine
from paracord_lab.sched_ext import await_scheduler
from paracord_lab.waiting import await_equal

pytestmark = [pytest.mark.lab, pytest.mark.needs("emulated")]
LOGS = Path("out/test-unit/logs")
BOOSTED, NORMAL = "SCHED_RR 8", "SCHED_OTHER 0"
TIMEOUT_S = 120
DROP_IN = "/run/systemd/system/paracord.service.d/lab.conf"


def install(host):
    """`make install` for the emulated host, whose disk is read-only: laid over its /usr and /etc."""
    root = host.share / "root"
    subprocess.run(["make", "-s", "install", f"DESTDIR={root.resolve()}"], check=True)
    host.run("cp -r /share/root /run/root && cp -r /run/root/etc/. /etc", timeout=120)
    host.run("mount -t overlay -o lowerdir=/run/root/usr:/usr overlay /usr")
    host.run("systemd-sysusers && systemd-tmpfiles --create /usr/lib/tmpfiles.d/paracord.conf")
    host.run("systemctl daemon-reload", timeout=120)


@pytest.fixture(scope="module")
def host():
    with machine.host(cpus=2, logs=LOGS, cmdline="lab.init=systemd") as booted:
        install(booted)
        yield booted


@pytest.fixture(scope="module")
def tid(host):
    with host.guest("unit", vcpus=1) as guest:
        yield guest.vcpu_tids[0]


@pytest.fixture
def service(host, tid):
    """The service, started and ready."""
    host.run("systemctl reset-failed paracord; systemctl start paracord", timeout=TIMEOUT_S)
    yield
    journal = host.run("journalctl -o cat -u paracord -n 40", check=False).out
    print(journal)
    host.run(f"systemctl stop paracord; rm -f {DROP_IN}; systemctl daemon-reload", timeout=TIMEOUT_S)


def await_policy(host, tid, policy):
    await_equal(lambda: loads.policies(host, [tid])[tid], policy, TIMEOUT_S)


def status(host):
    return json.loads(host.run("paracord status --json").out)


def main_pid(host):
    return int(host.run("systemctl show -P MainPID paracord").out)


def drop_in(host, *lines):
    """Settings of the unit's [Service], until the test's end."""
    text = "\\n".join(("[Service]", *lines))
    host.run(f"mkdir -p $(dirname {DROP_IN}) && printf '{text}\\n' > {DROP_IN} && systemctl daemon-reload")


def await_restart(host, before):
    await_equal(lambda: main_pid(host) in (0, before), False, TIMEOUT_S)


def test_the_unit_boosts_a_sleeping_vcpu_reloads_and_restores_it_at_its_end(host, tid, service):
    await_policy(host, tid, BOOSTED)
    before = main_pid(host)
    host.run("systemctl reload paracord", timeout=TIMEOUT_S)
    assert main_pid(host) == before
    assert daemon.tids(status(host)) == [tid]
    assert host.run("stat -c %G:%a /run/paracord/control.sock").out.strip() == "paracord:660"
    host.run("systemctl stop paracord", timeout=TIMEOUT_S)
    assert loads.policies(host, [tid]) == {tid: NORMAL}


def test_paracord_stop_returns_when_threads_are_restored_and_the_daemon_has_ended(host, tid, service):
    await_policy(host, tid, BOOSTED)
    pid = status(host)["pid"]
    # By such notes, the next daemon finds the doorbells of VMs that go on running.
    note = "/run/paracord/ivshmem/.note"
    host.run(f"touch {note}")
    host.run(f"paracord stop && ! test -e /proc/{pid}", timeout=TIMEOUT_S)
    assert loads.policies(host, [tid]) == {tid: NORMAL}
    host.run(f"systemctl stop paracord && rm {note}", timeout=TIMEOUT_S)


def state(host):
    """What the daemon says of itself in `systemctl status`."""
    return host.run("systemctl show -P StatusText paracord").out.strip()


def test_the_service_is_ready_when_its_programs_are_loaded_and_its_actuator_in_force(host, tid):
    """`systemctl start` returns at READY=1."""
    host.run("systemctl reset-failed paracord; systemctl start paracord", timeout=TIMEOUT_S)
    try:
        at_once = status(host)
        said = state(host)
        # A vCPU that sleeps is known when it runs again.
        await_equal(lambda: daemon.tids(status(host)), [tid], TIMEOUT_S)
    finally:
        host.run("systemctl stop paracord", timeout=TIMEOUT_S)
    assert [one["name"] for one in at_once["capabilities"] if one["available"]], at_once
    assert at_once["actuator"]["kind"] == "rt"
    assert said == "watching VMs, actuator rt"


@pytest.mark.long
def test_a_service_whose_programs_are_not_loaded_does_not_start(host, tid):
    """Without CAP_BPF and what stands for it."""
    drop_in(host, "CapabilityBoundingSet=~CAP_BPF CAP_SYS_ADMIN", "Restart=no")
    try:
        started = host.run("systemctl start paracord", check=False, timeout=TIMEOUT_S)
        assert started.rc != 0 and "failed" in host.run("systemctl is-failed paracord", check=False).out
    finally:
        host.run(f"rm -f {DROP_IN}; systemctl daemon-reload; systemctl reset-failed paracord")


@pytest.mark.long
def test_the_units_sandbox_lets_vcpus_be_placed_and_its_end_gives_their_cpus_back(host, tid, service):
    """CAP_SYS_NICE, and sight of control groups."""
    show = f"taskset -cp {tid}"
    before = host.run(show).out
    await_policy(host, tid, BOOSTED)
    host.run("paracord vm place unit 0=1")
    assert host.run(show).out.split()[-1] == "1"
    host.run("systemctl kill --signal=KILL paracord", timeout=TIMEOUT_S)
    await_equal(lambda: host.run(show).out, before, TIMEOUT_S)


def test_a_killed_service_restores_and_starts_again(host, tid, service):
    await_policy(host, tid, BOOSTED)
    before = main_pid(host)
    host.run("systemctl kill --signal=KILL paracord", timeout=TIMEOUT_S)
    await_restart(host, before)
    await_policy(host, tid, BOOSTED)


@pytest.mark.long
def test_a_killed_service_that_is_not_started_again_leaves_nothing_boosted(host, tid, service):
    await_policy(host, tid, BOOSTED)
    drop_in(host, "Restart=no")
    host.run("systemctl kill --signal=KILL paracord", timeout=TIMEOUT_S)
    await_policy(host, tid, NORMAL)
    # The processes that restored end a moment later.
    await_equal(
        lambda: host.run("systemctl is-failed paracord", check=False).out.strip(), "failed", TIMEOUT_S
    )
    assert loads.policies(host, [tid]) == {tid: NORMAL}


@pytest.mark.long
def test_a_daemon_that_hangs_is_restored_and_started_again(host, tid, service):
    """A stopped daemon stands for one that hangs. systemd continues it, too, when it sends SIGTERM."""
    drop_in(host, "WatchdogSec=20s")
    host.run("systemctl restart paracord", timeout=TIMEOUT_S)
    await_policy(host, tid, BOOSTED)
    before = main_pid(host)
    host.run(f"kill -STOP {status(host)['pid']}")
    await_restart(host, before)
    await_policy(host, tid, BOOSTED)
    # systemd's own lines have another unit.
    journal = host.run("journalctl -o cat -n 200").out
    assert "paracord.service: Watchdog timeout" in journal, journal


@pytest.mark.long
def test_log_lines_are_entries_of_the_journal(host, tid, service):
    await_equal(lambda: daemon.tids(status(host)), [tid], TIMEOUT_S)
    show = "journalctl -o cat -u paracord -p info VM=unit"
    await_equal(lambda: "VM found" in host.run(show, check=False).out, True, TIMEOUT_S)


def test_the_units_sandbox_lets_the_scheduler_run_and_its_end_takes_it_away(host, tid, service):
    drop_in(host, "ExecStart=", "ExecStart=/usr/bin/paracord run --actuator ext")
    host.run("systemctl restart paracord", timeout=TIMEOUT_S)
    await_scheduler(host, True)
    # It looks for VMs beside bringing its scheduler up.
    await_equal(lambda: daemon.tids(status(host)), [tid], TIMEOUT_S)
    assert status(host)["actuator"]["kind"] == "ext"
    host.run(f"paracord clamp set --max 512 --task {tid}")
    before = main_pid(host)
    host.run("systemctl kill --signal=KILL paracord", timeout=TIMEOUT_S)
    await_restart(host, before)
    await_scheduler(host, True)
    # The kernel ejects it.
    await_equal(lambda: state(host), "watching VMs, actuator ext", TIMEOUT_S)
    host.run("echo S > /proc/sysrq-trigger")
    await_equal(lambda: state(host), "watching VMs, actuator rt", TIMEOUT_S)
    await_scheduler(host, False)
    host.run("systemctl stop paracord", timeout=TIMEOUT_S)
    assert loads.policies(host, [tid]) == {tid: NORMAL}
