# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""T1: a VM with a CPU quota keeps to it: boosts by actuator rt come out of what the quota leaves."""

from contextlib import contextmanager

import pytest

from paracord_lab import loads
from paracord_lab.daemon import BINARY, Daemon
from paracord_lab.fairness import CGROUPS
from paracord_lab.host_share import running
from paracord_lab.waiting import await_equal

pytestmark = [pytest.mark.lab, pytest.mark.measures, pytest.mark.needs("btf")]
BOOSTED, NORMAL = "SCHED_RR 8", "SCHED_OTHER 0"
# The quota is the parent's: who limits a VM does not ask in which group its threads are.
PARENT, GROUP = f"{CGROUPS}/limited", f"{CGROUPS}/limited/vm"
SHARE = 0.2
QUOTA, NONE = "20000 100000", "max 100000"
# A boosted vCPU has its own policy at moments too: looks in a row that all find it are no such moment.
IN_A_ROW = 12
# Without budgets nothing but the quota holds the guest.
UNLIMITED = {"boost.vcpu_budget_pct": 100, "boost.vm_budget_pct": 100, "boost.cpu_kept_pct": 5}


@contextmanager
def grouped(host, guest):
    """The guest's VMM in a group without a quota of its own."""
    enable = f"echo +cpu > {CGROUPS}/cgroup.subtree_control"
    host.run(f"{enable} && mkdir -p {GROUP} && echo +cpu > {PARENT}/cgroup.subtree_control")
    host.run(f"echo {guest.pid} > {GROUP}/cgroup.procs")
    try:
        yield
    finally:
        host.run(f"echo {guest.pid} > {CGROUPS}/cgroup.procs; rmdir {GROUP} {PARENT}")


def limit(host, quota):
    host.run(f"echo {quota} > {PARENT}/cpu.max")


def policy_after_sleep(host, guest):
    """Of a guest that sleeps: its vCPU sleeps boosted, if it may."""
    (tid,) = guest.vcpu_tids
    guest.run("sleep 0.3")
    return loads.policies(host, [tid])[tid]


def await_boosted(host, guest):
    """
    Only the guest's own timers wake it after the first sleep. On a slow machine, a command in the guest uses
    up a quota that would otherwise leave room for a boost.
    """
    if policy_after_sleep(host, guest) != BOOSTED:
        (tid,) = guest.vcpu_tids
        await_equal(lambda: loads.policies(host, [tid])[tid], BOOSTED, 30)


def boosts(running_daemon):
    return running_daemon.status()["actuator"]["boosts"]


def await_never_boosted(host, guest, running_daemon):
    """The daemon has seen the limit, and from then on there is no boost, whatever the guest wakes up for."""
    await_equal(lambda: not_boosted(running_daemon) is None, False, 30)
    await_equal(lambda: policy_after_sleep(host, guest), NORMAL, 30)
    before = boosts(running_daemon)
    seen = [policy_after_sleep(host, guest) for _ in range(IN_A_ROW)]
    assert (seen, boosts(running_daemon)) == ([NORMAL] * IN_A_ROW, before)


def not_boosted(running_daemon):
    (vm,) = running_daemon.status()["vms"]
    (vcpu,) = vm["vcpus"]
    assert vcpu["not_boosted"] == (vm["not_boosted"] is not None)
    return vm["not_boosted"]


def boosts_within(running_daemon, host, seconds):
    before = boosts(running_daemon)
    host.run(f"sleep {seconds}", timeout=60)
    return boosts(running_daemon) - before


def test_a_vm_is_boosted_out_of_what_its_cpu_quota_leaves_and_all_say_so(host, guest):
    line = "CPU quota 20000 of 100000 us in /limited"

    def limit_of_vcpu():
        (vm,) = running_daemon.status()["vms"]
        return vm["vcpus"][0]["cpu_quota"]

    with grouped(host, guest), Daemon(host).start(guest.vcpu_tids) as running_daemon:
        limit(host, QUOTA)
        await_equal(limit_of_vcpu, line, 30)
        # Asleep it leaves nearly all.
        await_boosted(host, guest)
        assert not_boosted(running_daemon) is None
        assert f"out of what is left of {line}" in host.run(f"{BINARY} vm show guest").out
        doctor = host.run(f"{BINARY} doctor", check=False).out
        assert f"boosted out of what their quotas leave: guest: {line}" in doctor
        with loads.busy(host), running(guest, "pc_hog", "hog"):
            host.run("sleep 2")
            used_up = boosts_within(running_daemon, host, 4)
            limit(host, NONE)
            await_equal(limit_of_vcpu, None, 30)
            free = boosts_within(running_daemon, host, 4)
        assert free >= 10 * used_up + 8, (used_up, free)


@pytest.mark.long
def test_a_vm_that_is_moved_into_and_out_of_a_limited_group_is_noticed(host, guest):
    with grouped(host, guest):
        host.run(f"echo 1 > {PARENT}/cpu.idle")
        # Its first boost comes after the look.
        with Daemon(host).start(guest.vcpu_tids) as running_daemon:
            await_never_boosted(host, guest, running_daemon)
            assert boosts(running_daemon) == 0
            host.run(f"echo {guest.pid} > {CGROUPS}/cgroup.procs")
            await_boosted(host, guest)
            assert "boosted again" in running_daemon.job.err()
            host.run(f"echo {guest.pid} > {GROUP}/cgroup.procs")
            await_never_boosted(host, guest, running_daemon)
            assert running_daemon.status()["actuator"]["errors"] == 0


@pytest.mark.long
def test_a_vm_in_a_group_that_runs_when_nothing_else_wants_to_is_not_boosted(host, guest):
    with grouped(host, guest), Daemon(host).start(guest.vcpu_tids) as running_daemon:
        await_boosted(host, guest)
        host.run(f"echo 1 > {PARENT}/cpu.idle")
        await_never_boosted(host, guest, running_daemon)
        line = "cpu.idle in /limited"
        assert not_boosted(running_daemon) == f"vCPU 0: {line}"
        assert f"guest: not boosted: vCPU 0: {line}" in host.run(f"{BINARY} status").out
        assert f"none for vCPU 0: {line}" in host.run(f"{BINARY} vm show guest").out
        assert f"guest: {line}" in host.run(f"{BINARY} doctor", check=False).out
        host.run(f"echo 0 > {PARENT}/cpu.idle")
        await_boosted(host, guest)


@pytest.mark.long
@pytest.mark.needs("sched_ext")
def test_nor_with_ext_whose_boosts_change_no_thread(host, guest):
    with grouped(host, guest), Daemon(host, {"actuator": "ext"}).start(guest.vcpu_tids) as running_daemon:

        def boosts_of_sleeper():
            before = boosts(running_daemon)
            guest.run("for i in 1 2 3 4 5 6 7 8; do sleep 0.1; done")
            return boosts(running_daemon) - before

        assert boosts_of_sleeper() > 0
        host.run(f"echo 1 > {PARENT}/cpu.idle")
        await_equal(lambda: not_boosted(running_daemon), "vCPU 0: cpu.idle in /limited", 30)
        assert boosts_of_sleeper() == 0
        host.run(f"echo 0 > {PARENT}/cpu.idle")
        await_equal(lambda: not_boosted(running_daemon), None, 30)
        assert boosts_of_sleeper() > 0


@pytest.mark.parametrize(
    "actuator",
    [pytest.param("rt", marks=pytest.mark.long), pytest.param("ext", marks=pytest.mark.needs("sched_ext"))],
)
def test_a_guest_that_holds_every_hint_keeps_to_its_quota(host, guest, actuator):
    """rt boosts it out of what the quota leaves, which is nothing; ext does, and charges what it runs."""
    with (
        grouped(host, guest),
        Daemon(host, {**UNLIMITED, "actuator": actuator}).start(guest.vcpu_tids),
        loads.busy(host),
        running(guest, "pc_rogue hold --seconds 3600", "rogue"),
    ):
        limit(host, QUOTA)
        host.run("sleep 2")
        before = loads.read(host, guest.vcpu_tids)
        host.run("sleep 10", timeout=60)
        after = loads.read(host, guest.vcpu_tids)
    share = (after.cpu_s - before.cpu_s) / (after.clock_s - before.clock_s)
    assert 0.7 * SHARE < share < 1.15 * SHARE, share


@pytest.mark.long
@pytest.mark.needs("sched_ext")
def test_ext_names_what_it_does_not_keep(host, guest):
    with Daemon(host, {"actuator": "ext"}).start(guest.vcpu_tids) as running_daemon:
        status, said = running_daemon.status(), running_daemon.job.err()
    for what in ("core scheduling",):
        assert any(what in condition for condition in status["conditions"]), status["conditions"]
        assert said.count(what) == 1, said


def test_a_user_has_so_many_vcpus_and_no_more(host, guest):
    """Root, who runs the other guest, has no such quota; what a user gives back it has again."""
    user = 4711
    # What it opens is root's.
    may = "+dac_override"
    wrapper = f"setpriv --reuid={user} --clear-groups --inh-caps={may} --ambient-caps={may}"
    with Daemon(host, {"vcpus_per_user": 1}).start(guest.vcpu_tids) as running_daemon:

        def known(pid):
            return [len(vm["vcpus"]) for vm in running_daemon.status()["vms"] if vm["pid"] == pid]

        for _ in range(2):
            with host.guest("crowd", vcpus=2, region=False, wrapper=wrapper) as crowd:
                crowd.run("true")
                await_equal(lambda pid=crowd.pid: known(pid), [1])
                assert known(guest.pid) == [1]
        status, said = running_daemon.status(), host.run(f"{BINARY} status").out
        log = running_daemon.job.err()
    assert status["vcpus_refused"] == 2
    assert (host.logs / "crowd.serial.log").stat().st_uid == 0, "the clone's user is given what root made"
    why = "as their user had all that vcpus_per_user allows"
    line = "vCPU threads left to stock scheduling so far, each until it ends: {}, " + why
    assert line.format(2) in said and line.format(1) in log, log
