# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""T1: vCPUs are placed on CPUs and clusters of an arm64 board, and their threads get back what they had."""

import json
import re
import time
from pathlib import Path

import pytest

from paracord_lab import machine
from paracord_lab.boards import JunoR2
from paracord_lab.daemon import BINARY, EMULATED_HOST, Daemon

pytestmark = [pytest.mark.lab, pytest.mark.measures, pytest.mark.arm64, pytest.mark.needs("emulated")]
NAME = "placed"
EVERYWHERE, LITTLE, BIG = "0-5", "0-3", "4-5"
SECTION = f'vm."{NAME}"'
# A killed daemon's threads must be restored, and another one be there, within this on a slow host.
PATIENCE_S = 60


@pytest.fixture(scope="module")
def host():
    with machine.host(board=JunoR2.name, logs=Path("out/test-place/logs")) as booted:
        yield booted


@pytest.fixture(scope="module")
def guest(host):
    with host.guest(NAME, vcpus=2) as booted:
        yield booted


@pytest.fixture
def daemon(host, guest):
    with Daemon(host, EMULATED_HOST).start(guest.vcpu_tids) as running:
        yield running
    assert cpus(host, guest) == [EVERYWHERE] * 2, "the daemon's end gives every thread its CPUs back"


def cpus(host, guest):
    """Where each vCPU's thread may run, as taskset says it."""
    said = host.run("; ".join(f"taskset -cp {tid}" for tid in guest.vcpu_tids)).out
    return [cpu_list(line.rpartition(": ")[2]) for line in said.splitlines()]


def cpu_list(text):
    """util-linux writes two neighbours as 4,5; the kernel writes 4-5."""
    return text.strip().replace("4,5", "4-5")


def place(host, words, check=True):
    return host.run(f"{BINARY} vm place {NAME} {words}", check=check)


def report(host):
    return json.loads(place(host, "--json").out)


def await_cpus(host, guest, wanted):
    deadline = time.monotonic() + PATIENCE_S
    while (found := cpus(host, guest)) != wanted:
        assert time.monotonic() < deadline, found
        time.sleep(0.2)


def domains(status):
    return [vcpu["placement"] and vcpu["placement"]["cpus"] for vcpu in status["vms"][0]["vcpus"]]


def test_affinity_is_as_said_survives_a_reload_and_is_cleared(host, guest, daemon):
    place(host, "0=cluster:4 1=0-3")
    assert cpus(host, guest) == [BIG, LITTLE]
    daemon.reload({})
    assert cpus(host, guest) == [BIG, LITTLE]
    assert domains(daemon.status()) == [BIG, LITTLE]
    # One alone: the other stays.
    place(host, "1=capacity:max")
    assert cpus(host, guest) == [BIG, BIG]
    place(host, "--auto")
    assert cpus(host, guest) == ["4", "5"]
    assert guest.run("echo still there").out == "still there\n"
    shown = place(host, "").out.splitlines()
    assert re.fullmatch(r"VCPU +TID +CPU +PLACED +MEANS +BY +MAY RUN ON", shown[0])
    assert shown[1].split()[3:] == ["auto", "4", "command", "4"]
    place(host, "--clear")
    assert cpus(host, guest) == [EVERYWHERE] * 2


def test_a_placed_vcpu_runs_there(host, guest, daemon):
    for cluster, inside in ((LITTLE, JunoR2.little), (BIG, JunoR2.big)):
        place(host, f"all={cluster}")
        guest.run("for i in 1 2 3 4 5; do sleep 0.1; done")
        assert all(vcpu["cpu"] in inside for vcpu in report(host)["vcpus"])


def test_the_guest_is_told_its_clusters_domain(host, guest, daemon):
    """Behind "any CPU", which is 0; the host line has one more."""
    assert told(host) == [1, 1]
    place(host, "0=1-2 1=cluster:4")
    assert told(host) == [2, 3]
    place(host, "0=3-4")
    assert told(host) == [1, 3]
    # Hints tell the same, and leave threads alone.
    place(host, "--clear")
    place(host, "0=cluster:4 --hints")
    assert told(host) == [3, 1]
    assert cpus(host, guest) == [EVERYWHERE] * 2
    assert report(host)["vcpus"][0]["placement"]["mode"] == "hints"
    place(host, "--clear")
    assert told(host) == [1, 1]


def told(host):
    """paracord_host_line.domain of both vCPUs: in a host line at 26, in a slot at 64."""
    host.run("sleep 1")  # the line is written by a thread of its own
    at = [4096 + 1024 * vcpu + 64 + 26 for vcpu in range(2)]
    read = "; ".join(f"od -An -tu2 -j{offset} -N2 /dev/shm/paracord/{NAME}" for offset in at)
    return [int(word) for word in host.run(read).out.split()]


def test_more_vcpus_than_cpus_take_turns(host, guest, daemon):
    said = place(host, "all=5").out
    assert said == "2 vCPUs share CPU 5: they take turns\n"
    assert cpus(host, guest) == ["5", "5"]
    assert guest.run("echo both").out == "both\n"


def test_a_killed_daemon_leaves_no_thread_bound(host, guest, daemon):
    place(host, "all=cluster:4")
    host.run(f"kill -9 {daemon.status()['pid']}")
    await_cpus(host, guest, [EVERYWHERE] * 2)
    daemon.await_vcpus(guest.vcpu_tids)
    assert domains(daemon.status()) == [None, None]


def test_what_outlives_both_is_restored_by_command(host, guest, daemon):
    place(host, "0=4")
    pid = daemon.status()["pid"]
    parent = host.run(f"ps -o ppid= {pid}").out.strip()
    host.run(f"kill -STOP {parent} {pid}; kill -9 {pid} {parent}")
    daemon.job.wait(timeout=20)
    daemon.job = None
    assert cpus(host, guest) == ["4", EVERYWHERE]
    assert "CPUs given back: 1" in host.run(f"{BINARY} restore").out
    assert cpus(host, guest) == [EVERYWHERE] * 2


def test_wrong_orders_are_one_line_and_change_nothing(host, guest, daemon):
    place(host, "0=4")
    host.run("echo 0 > /sys/devices/system/cpu/cpu5/online")
    try:
        for words, says in (
            ("1=cluster:1", "vCPU 1: this host has no cluster 1: it has cluster 0 (CPUs 0-3, capacity 383)"),
            ("0=1 1=9", "vCPU 1: this host has no CPU 9: it has CPUs 0-5"),
            ("0=1 2=1", f'VM "{NAME}" has no vCPU 2: it has 0-1'),
            ("0=1 1=4-5", "vCPU 1: CPU 5 is offline: echo 1 > /sys/devices/system/cpu/cpu5/online"),
            ("0=1 0-1=2", "vCPU 0 is placed twice"),
            ("0=fast", "names no CPUs"),
        ):
            refused = place(host, words, check=False)
            assert refused.rc == 2 and says in refused.err, (words, refused)
            assert refused.err.startswith("paracord: ") and refused.err.count("\n") == 1, refused.err
        assert host.run(f"{BINARY} vm place nobody 0=1", check=False).rc == 1
        assert cpus(host, guest)[0] == "4"
    finally:
        host.run("echo 1 > /sys/devices/system/cpu/cpu5/online")


def test_the_configuration_places_a_vm_when_it_starts(host, guest):
    """And the reload of another one places it anew, or gives its CPUs back."""
    settings = {f"{SECTION}.place": "0=4-5 1=cluster:0"}
    with Daemon(host, EMULATED_HOST | settings).start(guest.vcpu_tids) as running:
        await_cpus(host, guest, [BIG, LITTLE])
        running.reload({f"{SECTION}.place": "all=cluster:0"})
        await_cpus(host, guest, [LITTLE, LITTLE])
        running.reload({f"{SECTION}.place": "0=4 1=cluster:9"})
        await_cpus(host, guest, [EVERYWHERE] * 2)
        refused = running.status()["vms"][0]["place_refused"]
        assert refused.startswith(f"{SECTION}.place: vCPU 1: this host has no cluster 9"), refused
        running.reload({f"{SECTION}.place": "0=4"})
        await_cpus(host, guest, ["4", EVERYWHERE])
    assert cpus(host, guest) == [EVERYWHERE] * 2


def test_a_cpuset_is_not_left(host, guest, daemon):
    group = "/sys/fs/cgroup/placed"
    host.run(
        f"echo +cpuset > /sys/fs/cgroup/cgroup.subtree_control; mkdir {group}; echo 0-4 > {group}/cpuset.cpus"
    )
    host.run(f"echo {guest.pid} > {group}/cgroup.procs")
    try:
        refused = place(host, "0=4-5", check=False).err
        assert "vCPU 0: CPU 5 is outside the cpuset of control group /placed" in refused, refused
        place(host, "0=4")
        place(host, "--clear")
        host.run(f"echo 0-5 > {group}/cpuset.cpus")
        # It had all of its cpuset, and follows that again.
        assert cpus(host, guest) == [EVERYWHERE] * 2
    finally:
        host.run(f"echo {guest.pid} > /sys/fs/cgroup/cgroup.procs; rmdir {group}")
