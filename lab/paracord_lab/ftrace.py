# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""Scheduler events of L1 through tracefs: recording a short piece, and parsing its text."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

TRACEFS = "/sys/kernel/tracing"
EVENTS = ("sched/sched_switch", "sched/sched_waking")
# Per CPU: a few seconds of a busy host; the oldest events are dropped if it should not do.
BUFFER_KB = 8192
VCPUS_MARK = "# vcpus: "


@dataclass
class Recorded:
    text: str = ""


@dataclass(frozen=True)
class Switch:
    """sched_switch; priorities are the kernel's (120 normal at nice 0; below 100 real-time)."""

    ns: int
    cpu: int
    prev_tid: int
    prev_comm: str
    prev_runnable: bool
    next_tid: int
    next_comm: str
    next_prio: int


@dataclass(frozen=True)
class Waking:
    """sched_waking: `tid` becomes runnable."""

    ns: int
    tid: int


def mount(host) -> None:
    """tracefs is there from now on."""
    host.run(f"mountpoint -q {TRACEFS} || mount -t tracefs tracefs {TRACEFS}")


@contextmanager
def recording(host) -> Iterator[Recorded]:
    """Records while the context is open; the text is there afterwards. Tracing is off again in any case."""
    recorded = Recorded()
    enable = " ".join(f"{TRACEFS}/events/{event}/enable" for event in EVENTS)
    mount(host)
    host.run(
        f"cd {TRACEFS} && echo 0 > tracing_on && echo mono > trace_clock "
        f"&& echo {BUFFER_KB} > buffer_size_kb && echo > trace "
        f"&& for e in {enable}; do echo 1 > $e; done && echo 1 > tracing_on"
    )
    try:
        yield recorded
        host.run(f"echo 0 > {TRACEFS}/tracing_on")
        recorded.text = host.run(f"cat {TRACEFS}/trace", timeout=120).out
    finally:
        host.run(
            f"cd {TRACEFS} && echo 0 > tracing_on; for e in {enable}; do echo 0 > $e; done; echo > trace; "
            "echo 7 > buffer_size_kb",
            check=False,
        )


def header(vcpu_tids: Sequence[int]) -> str:
    """First line of a stored trace: which threads are vCPUs."""
    return VCPUS_MARK + " ".join(map(str, vcpu_tids)) + "\n"


def vcpu_tids(text: str) -> list[int]:
    first = text.split("\n", 1)[0]
    return (
        [int(tid) for tid in first.removeprefix(VCPUS_MARK).split()] if first.startswith(VCPUS_MARK) else []
    )


_LINE = re.compile(r"\[(\d+)\]\s+\S+\s+(\d+)\.(\d+): (\w+): (.*)$")
_SWITCH = re.compile(
    r"prev_comm=(.*) prev_pid=(\d+) prev_prio=-?\d+ prev_state=(\S+) ==> "
    r"next_comm=(.*) next_pid=(\d+) next_prio=(-?\d+)"
)
_WAKING = re.compile(r"comm=.* pid=(\d+) prio=")


def parse(text: str) -> list[Switch | Waking]:
    """Events in order of time. Lines of other events are passed over."""
    events: list[Switch | Waking] = []
    for line in text.splitlines():
        outer = _LINE.search(line)
        if not outer:
            continue
        cpu, seconds, fraction, name, rest = outer.groups()
        ns = int(seconds) * 1_000_000_000 + int(fraction.ljust(9, "0")[:9])
        if name == "sched_switch" and (m := _SWITCH.match(rest)):
            prev_comm, prev_tid, state, next_comm, next_tid, prio = m.groups()
            # R, and R+ for a preempted task; everything else has left the run queue.
            runnable = state.startswith("R")
            events.append(
                Switch(ns, int(cpu), int(prev_tid), prev_comm, runnable, int(next_tid), next_comm, int(prio))
            )
        elif name == "sched_waking" and (m := _WAKING.match(rest)):
            events.append(Waking(ns, int(m.group(1))))
    events.sort(key=lambda event: event.ns)
    return events
