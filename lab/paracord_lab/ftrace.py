# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""Scheduler events of L1 through tracefs: records a short time, and parses the text."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

TRACEFS = "/sys/kernel/tracing"
EVENTS = ("sched/sched_switch", "sched/sched_waking")
# Per CPU. This is enough for a few seconds of a busy host. If it is not, the oldest events are
# lost.
BUFFER_KB = 8192
VCPUS_MARK = "# vcpus: "


@dataclass
class Recorded:
    text: str = ""


@dataclass(frozen=True)
class Switch:
    """
    The event sched_switch. Priorities are the kernel's: nice 0 is 120, and real-time priorities are
    below 100.
    """

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
    """The event sched_waking: `tid` becomes runnable."""

    ns: int
    tid: int


def mount(host) -> None:
    """Mounts tracefs."""
    host.run(f"mountpoint -q {TRACEFS} || mount -t tracefs tracefs {TRACEFS}")


@contextmanager
def recording(host) -> Iterator[Recorded]:
    """
    Records while the context is open. Afterwards, the object contains the text. Tracing is always
    switched off at the end.
    """
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
    """The first line of a stored trace, which names the threads that are vCPUs."""
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
    """Returns the events in order of time. Lines of other events are skipped."""
    events: list[Switch | Waking] = []
    for line in text.splitlines():
        outer = _LINE.search(line)
        if not outer:
            continue
        cpu, seconds, fraction, name, rest = outer.groups()
        ns = int(seconds) * 1_000_000_000 + int(fraction.ljust(9, "0")[:9])
        if name == "sched_switch" and (m := _SWITCH.match(rest)):
            prev_comm, prev_tid, state, next_comm, next_tid, prio = m.groups()
            # R, or R+ for a preempted task. With every other state, the task has left the run
            # queue.
            runnable = state.startswith("R")
            events.append(
                Switch(ns, int(cpu), int(prev_tid), prev_comm, runnable, int(next_tid), next_comm, int(prio))
            )
        elif name == "sched_waking" and (m := _WAKING.match(rest)):
            events.append(Waking(ns, int(m.group(1))))
    events.sort(key=lambda event: event.ns)
    return events
