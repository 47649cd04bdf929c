# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
T1: paracord's scheduler on a host with cores of two threads and two nodes, and on one with a CPU that has no
tick. How tasks are placed on machines of many CPUs is decided by `paracord-sim contract --only topology`.
"""

import json
import re
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import pytest

from paracord_lab import ftrace, machine, simulator
from paracord_lab.host_share import running
from paracord_lab.sched_ext import scheduling

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.measures, pytest.mark.needs("emulated")]
SECONDS, TICKLESS = 4, 2
# Ticks come a few at a time, a visit's, and seldom.
TICK_SECONDS = 6
# As in the simulator: all CPUs have enough to do, and some tasks come and go.
FULL = """machine cpus=8 smt=2 caches=2 nodes=2 hz=250
run 5s warmup=1s
task loop count=12 : run forever
task worker count=8 : run 100us..500us, sleep 2ms..6ms
"""
FEW = """machine cpus=8 smt=2 caches=2 nodes=2 hz=250
run 5s warmup=1s
task worker count=3 : run 1ms..3ms, sleep 1ms..3ms
"""
SHAPE = (
    *("-smp", "sockets=2,cores=2,threads=2"),
    *("-object", "memory-backend-ram,id=node0,size=1500M", "-numa", "node,cpus=0-3,memdev=node0"),
    *("-object", "memory-backend-ram,id=node1,size=1500M", "-numa", "node,cpus=4-7,memdev=node1"),
)


@contextmanager
def counted_by(host, event, keys):
    """Counts a tracepoint's events by some of its fields; what is yielded says how many there were."""
    file = f"{ftrace.TRACEFS}/events/{event}"
    ftrace.mount(host)
    host.run(f"echo 'hist:keys={keys}' > {file}/trigger")
    try:
        yield lambda: re.findall(r"^\{ (.*?) \} hitcount: +(\d+)", host.run(f"cat {file}/hist").out, re.M)
    finally:
        host.run(f"echo '!hist:keys={keys}' > {file}/trigger")


@pytest.fixture(scope="module")
def nodes():
    """A host of two nodes."""
    logs = Path("out/test-topology/logs")
    with machine.host(cpus=8, logs=logs, extra_args=SHAPE, counted=True, spare=False) as booted:
        yield booted


@pytest.fixture(scope="module")
def tickless():
    """A host one of whose CPUs has no tick where it needs none."""
    cmdline = f"nohz_full={TICKLESS} rcu_nocbs={TICKLESS}"
    with machine.host(cpus=2, logs=Path("out/test-tickless/logs"), cmdline=cmdline) as booted:
        assert booted.run("cat /sys/devices/system/cpu/nohz_full").out.strip() == str(TICKLESS)
        yield booted


def moves(host, tmp_path, text):
    """From one node to the other one, per second, of all tasks of the host while it plays a mix."""
    mix = tmp_path / "mix.mix"
    mix.write_text(text)
    with counted_by(host, "sched/sched_migrate_task", "orig_cpu,dest_cpu") as counts:
        simulator.play(host, mix)
        found = counts()
    crossed = 0
    for keys, count in found:
        orig, dest = map(int, re.findall(r"\d+", keys))
        crossed += int(count) if orig // 4 != dest // 4 else 0
    return crossed / (SECONDS + 1)


def test_the_scheduler_knows_its_nodes(nodes):
    with scheduling(nodes):
        dumped = json.loads(nodes.run("bpftool -j map dump name rqs").out)
    near = [entry["formatted"]["value"]["near"] for entry in dumped]
    assert [place["node"] for place in near[:8]] == [0, 0, 0, 0, 1, 1, 1, 1], near
    assert all(len({place["cache"] for place in near[of : of + 4]}) in (1, 2, 4) for of in (0, 4)), near


def test_tasks_stay_in_their_node(nodes, tmp_path):
    stock = [moves(nodes, tmp_path, text) for text in (FULL, FEW)]
    with scheduling(nodes):
        ours = [moves(nodes, tmp_path, text) for text in (FULL, FEW)]
    print(f"moves between nodes per second, full and few tasks: {ours}, stock's {stock}")
    assert all(our <= theirs + 10 for our, theirs in zip(ours, stock, strict=True)), (ours, stock)


def ticks_alone(host):
    """The kernel's ticks on the CPU without a tick, per second."""
    with counted_by(host, "timer/hrtimer_expire_entry", "common_cpu,function.sym") as counts:
        # The first turn has a tick.
        host.run("sleep 1")
        before = ticks_of(counts())
        host.run(f"sleep {TICK_SECONDS}")
        return (ticks_of(counts()) - before) / TICK_SECONDS


def alone_and_beside(host, load):
    """
    Ticks where a load is alone, and how long a second task that comes there waits after its timer, µs on
    average.
    """
    with running(host, f"taskset -c {TICKLESS} {load}", "load"):
        ticks = ticks_alone(host)
        said = host.run(
            f"taskset -c {TICKLESS} cyclictest -q --policy=other -a {TICKLESS} -i 20000 -l 200", timeout=60
        ).out
    return ticks, int(re.search(r"Avg: *(\d+)", said)[1])


def ticks_of(found, cpu=TICKLESS):
    here = (int(count) for keys, count in found if re.search(rf"cpu: +{cpu}\b.*tick_", keys))
    return sum(here)


def test_a_task_alone_has_no_tick(tickless):
    load = "sh -c 'while :; do :; done'"
    stock, ours = [], []
    for _ in range(3):
        stock.append(alone_and_beside(tickless, load))
        with scheduling(tickless):
            ours.append(alone_and_beside(tickless, load))
    with counted_by(tickless, "timer/hrtimer_expire_entry", "common_cpu,function.sym") as counts:
        tickless.run(f"timeout 1 taskset -c 1 {load}", check=False)
        assert ticks_of(counts(), cpu=1) > 50, "an ordinary CPU has its ticks"
    print(f"ticks per second of a task alone, and µs that a second one waits: {ours}, stock {stock}")
    ticks, waits = zip(*ours, strict=True)
    stocks_ticks, stocks_waits = zip(*stock, strict=True)
    # On a machine that is slow for a while visits by others take long, and have ticks.
    assert min(ticks) <= min(stocks_ticks) + 1
    # As long as with the kernel's own; where it waited for the timer of turns: 1.6 to 1.8 times as long.
    assert median(waits) <= 1.6 * median(stocks_waits)


def test_a_vcpu_alone_has_no_tick_of_the_host(tickless):
    """Its guest's own ticks are timers of KVM's."""
    with tickless.guest("alone", vcpus=1, region=False) as guest:
        tickless.run(f"taskset -a -p -c 1 {guest.pid}; taskset -p -c {TICKLESS} {guest.vcpu_tids[0]}")
        with running(guest, "pc_hog", "hog"):
            stock = ticks_alone(tickless)
            with scheduling(tickless, guest.vcpu_tids):
                ours = ticks_alone(tickless)
    print(f"ticks per second where a vCPU is alone: {ours}, stock {stock}")
    assert ours <= stock + 1
