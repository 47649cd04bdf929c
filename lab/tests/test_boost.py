# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""T1: the decisions of the daemon on a real KVM guest, as the kernel shows them: the vCPU thread's policy."""

import time

import pytest

from paracord_lab import cyclictest, daemon, loads
from paracord_lab.daemon import BINARY, Daemon
from paracord_lab.host_share import running
from paracord_lab.waiting import await_equal

pytestmark = [pytest.mark.lab, pytest.mark.measures, pytest.mark.needs("btf")]
BOOSTED, NORMAL = "SCHED_RR 8", "SCHED_OTHER 0"


def shares(host, tid, samples=40):
    """Policy -> share of samples."""
    script = f"for i in $(seq {samples}); do chrt -p {tid}; sleep 0.05; done"
    text = host.run(script, timeout=60).out
    pairs = text.replace("'s", " ").splitlines()
    policies = [line.split()[-1].split("|")[0] for line in pairs if "policy:" in line]
    return {policy: policies.count(policy) / len(policies) for policy in set(policies)}


def boosts(status):
    return {reason: daemon.boosts_for(status, reason) for reason in daemon.REASONS}


def test_a_vcpu_that_calls_execve_while_it_is_boosted_is_not_real_time_any_more(host):
    """The thread gets another ID by the call, and its program never sleeps."""
    vms = "exec pc_vms --vms 4 --seconds 60 --exit_us 1000 --announce_ms 0 --exec_ms 4000"
    with Daemon(host, {"actuator": "rt"}).start([]) as running_daemon:
        job = host.spawn(vms, "vms")
        try:
            await_equal(lambda: len(running_daemon.status()["vms"]), 4)
            await_equal(lambda: host.run("pgrep -xc pc_hog", check=False).out, "4\n")
            policies = "for p in $(pgrep -x pc_hog); do chrt -p $p; done | sed -n 's/.*policy: //p' | sort -u"
            await_equal(lambda: host.run(policies).out, "SCHED_OTHER\n", 5)
            await_equal(lambda: running_daemon.status()["vms"], [])
        finally:
            host.run("pkill -KILL -x 'pc_vms|pc_hog'", check=False)
            job.wait(20)


def test_sleeping_vcpu_is_boosted_spinning_one_is_not_and_the_end_restores(host, guest):
    tid = guest.vcpu_tids[0]
    with Daemon(host).start([tid]):
        guest.run("sleep 1")
        assert shares(host, tid).get("SCHED_RR", 0) > 0.9
        with running(guest, "pc_hog", "hog"):
            time.sleep(1)
            assert shares(host, tid).get("SCHED_OTHER", 0) > 0.8
        guest.run("sleep 1")
        assert shares(host, tid).get("SCHED_RR", 0) > 0.9
    assert loads.policies(host, [tid]) == {tid: NORMAL}


def await_boosted(host, tid):
    """A vCPU that sleeps is boosted."""
    await_equal(lambda: loads.policies(host, [tid]), {tid: BOOSTED})


def test_stop_returns_when_every_thread_is_restored(host, guest):
    tid = guest.vcpu_tids[0]
    with Daemon(host).start([tid]):
        await_boosted(host, tid)
        asleep = host.run(f"chrt -p {tid}; {BINARY} stop; chrt -p {tid}").out
    first, *_, last = (line for line in asleep.splitlines() if "policy" in line)
    assert "SCHED_RR" in first and "SCHED_OTHER" in last, asleep


def test_realtime_task_beside_a_spinning_one_is_boosted_by_its_hint(host, guest):
    with (
        Daemon(host).start(guest.vcpu_tids) as running_daemon,
        loads.busy(host),
        running(guest, "pc_hog", "hog"),
    ):
        before = boosts(running_daemon.status())
        guest.run("pc_audio --period_us 20000 --work_permille 300 --seconds 3", timeout=60)
        after = boosts(running_daemon.status())
    assert after["rt"] > before["rt"]


def test_the_latency_of_a_wakeup_begins_with_its_kick(host, guest):
    with Daemon(host).start(guest.vcpu_tids) as running_daemon:
        guest.run(cyclictest.command("boosted", 10_000, 4), timeout=60)
        (vcpu,) = daemon.vcpus(running_daemon.status())
    buckets = vcpu["wakeup_latency_boosted"]["buckets"]
    # Bucket n: [2^n, 2^(n+1)) ns. No kernel wakes a task in a quarter of a microsecond.
    # On a slow machine, the vCPU is still awake when some of the timers expire.
    assert sum(buckets) > 200
    assert sum(buckets[:8]) < 0.1 * sum(buckets), buckets


def test_the_line_thread_never_runs_before_a_boosted_vcpu(host, guest):
    with Daemon(host).start(guest.vcpu_tids) as running_daemon:
        lowest_boost = int(running_daemon.default("rt_priority")) - 1
        line = (
            "for t in /proc/[0-9]*/task/*; do grep -qx paracord-lines $t/comm && cut -d' ' -f40 $t/stat; done"
        )
        (priority,) = map(int, host.run(f"{line}; true").out.split())
    assert 0 < priority < lowest_boost


def test_observing_daemon_changes_nothing(host, guest):
    tid = guest.vcpu_tids[0]
    with Daemon(host, {"mode": "observe"}).start([tid]) as running_daemon:
        guest.run("sleep 1")
        assert shares(host, tid) == {"SCHED_OTHER": 1.0}
        assert boosts(running_daemon.status())["wake"] > 0


def test_killed_vm_leaves_no_trace(host):
    with Daemon(host) as running_daemon:
        running_daemon.start()
        with host.guest("victim", vcpus=1) as victim:
            running_daemon.await_vcpus(victim.vcpu_tids)
            await_boosted(host, *victim.vcpu_tids)
            victim.kill()
        deadline = time.monotonic() + 5
        while daemon.tids(running_daemon.status()) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert not set(victim.vcpu_tids) & set(daemon.tids(running_daemon.status()))


def threads(host, vm):
    return [int(tid) for tid in host.run(f"ls /proc/{vm.pid}/task").out.split()]


def io_threads(running_daemon, name):
    return next(vm for vm in running_daemon.status()["vms"] if vm["name"] == name)["io_threads"]


def test_the_vmms_other_threads_are_boosted_unless_that_is_switched_off(host, guest):
    with Daemon(host).start(guest.vcpu_tids) as running_daemon:

        def found():
            return {thread["tid"] for thread in io_threads(running_daemon, guest.name)}

        await_equal(found, set(threads(host, guest)) - set(guest.vcpu_tids))
        guest.run("sleep 1")
        (main,) = (thread for thread in io_threads(running_daemon, guest.name) if thread["tid"] == guest.pid)
        assert main["boosts"] > 0 and main["boosted_ns"] > 0, main
        assert shares(host, guest.pid).get("SCHED_RR", 0) > 0.8
        host.run(f"{daemon.BINARY} vm set {guest.name} io=false")
        guest.run("sleep 1")
        assert shares(host, guest.pid) == {"SCHED_OTHER": 1.0}
        host.run(f"{daemon.BINARY} vm set {guest.name} io=true")
        guest.run("sleep 1")
        assert shares(host, guest.pid).get("SCHED_RR", 0) > 0.8
    assert set(loads.policies(host, threads(host, guest)).values()) == {NORMAL}


def test_a_thread_that_enters_its_guest_late_becomes_a_vcpu(host):
    """
    A vCPU that is plugged in is a thread of the VMM's like others until the firmware starts it, at the next
    reset; without debug-threads it has no name.
    """
    qemu = (
        "exec qemu-system-x86_64 -name late -accel kvm -cpu host -smp 1,maxcpus=2 -m 64 -nodefaults"
        " -display none -monitor unix:/tmp/late.monitor,server=on,wait=off"
    )
    job = host.spawn(qemu, "late")

    def ask(command):
        host.run(f"echo '{command}' | socat -t 1 STDIO UNIX-CONNECT:/tmp/late.monitor,retry=50,interval=0.2")

    try:
        with Daemon(host) as running_daemon:
            running_daemon.start()

            def vms():
                return [vm for vm in running_daemon.status()["vms"] if vm["name"] == "late"]

            def tids(kind):
                return {thread["tid"] for vm in vms() for thread in vm[kind]}

            await_equal(lambda: len(tids("vcpus")), 1)
            await_equal(lambda: len(tids("io_threads")) > 0, True)
            before = tids("io_threads")
            ask("device_add host-x86_64-cpu,id=second,socket-id=0,core-id=1,thread-id=0")
            await_equal(lambda: len(tids("io_threads") - before), 1)
            (new,) = tids("io_threads") - before
            ask("system_reset")
            await_equal(lambda: new in tids("vcpus"), True)
            assert new not in tids("io_threads")
            pid = vms()[0]["pid"]
        left = host.run(f"chrt -a -p {pid}").out
        assert "SCHED_RR" not in left and "SCHED_OTHER" in left, left
    finally:
        job.kill("KILL")
        job.wait(timeout=30)
