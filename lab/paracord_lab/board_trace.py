# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
Records what a board's CPUs do: where the tasks of the load run, at which frequency, what was
requested, and what that costs by the kernel's energy model. The recording is made through tracefs
and reduced to steps over time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise

from .ftrace import TRACEFS

TASK = "pc_task."
BUFFER_KB = 16384
# The request of the scheduler to the governor, if the scheduler is paracord's.
PROBE = "p:paracord/cpuperf scx_bpf_cpuperf_set cpu=%x0:s32 perf=%x1:u32"
EVENTS = ("power/cpu_frequency", "sched/sched_switch")
PROBE_EVENT = "paracord/cpuperf"
# Steps of a request within this time count as one, because the request is computed again at every
# switch and tick.
REQUEST_STEP_MS = 2.0
JOIN_MS = 5.0

# A value and the time from which it is valid: [ms since the start of the recording, value].
Step = list[float]


@dataclass
class Domain:
    """CPUs that share a frequency. power_mw: power of one busy CPU, by MHz."""

    cpus: list[int]
    start_mhz: float
    power_mw: dict[float, float]


@dataclass
class BoardTrace:
    """
    frequencies: MHz, by the first CPU of the domain. requests: by CPU, 0..1024. places: by task,
    the CPU on which it is. runs: by task, [begin, end] in ms. Pauses below JOIN_MS do not end a
    run; `pauses` contains them, by task. busy_ms: by task. energy_mj: energy of the tasks' running
    time. begin_ns: start of the recording, on the host's CLOCK_MONOTONIC.
    """

    duration_ms: float = 0.0
    begin_ns: int = 0
    frequencies: dict[str, list[Step]] = field(default_factory=dict)
    requests: dict[str, list[Step]] = field(default_factory=dict)
    places: dict[str, list[Step]] = field(default_factory=dict)
    runs: dict[str, list[list[float]]] = field(default_factory=dict)
    pauses: dict[str, list[list[float]]] = field(default_factory=dict)
    busy_ms: dict[str, float] = field(default_factory=dict)
    energy_mj: float = 0.0


def domains(host) -> list[Domain]:
    """The domains of the board, from the kernel's energy model."""
    found = []
    base = "/sys/kernel/debug/energy_model"
    for name in host.run(f"ls {base}").out.split():
        cpus = _cpu_list(host.run(f"cat {base}/{name}/cpus").out.strip())
        states = host.run(f"cd {base}/{name}; for s in ps:*; do cat $s/frequency $s/power; done").out.split()
        power = {int(khz) / 1000: int(uw) / 1000 for khz, uw in zip(states[::2], states[1::2], strict=True)}
        current = f"/sys/devices/system/cpu/cpu{cpus[0]}/cpufreq/scaling_cur_freq"
        found.append(Domain(cpus, int(host.run(f"cat {current}").out) / 1000, power))
    return found


@contextmanager
def recording(host, threads: Mapping[int, str] | None = None) -> Iterator[BoardTrace]:
    """
    Records while the context is open. The object contains the result afterwards.

    threads: names in the result, by thread ID (for a guest's vCPUs). Without it, all threads whose
    names begin with TASK are recorded.
    """
    trace = BoardTrace()
    if threads is None:
        is_task = f'prev_comm ~ "{TASK}*" || next_comm ~ "{TASK}*"'
    else:
        is_task = " || ".join(f"prev_pid == {tid} || next_pid == {tid}" for tid in threads)
    host.run(f"cd {TRACEFS} && grep -q {PROBE_EVENT} kprobe_events || echo '{PROBE}' >> kprobe_events")
    host.run(
        f"cd {TRACEFS} && echo 0 > tracing_on && echo mono > trace_clock "
        f"&& echo {BUFFER_KB} > buffer_size_kb && echo > trace"
    )
    before = domains(host)
    host.run(f"cd {TRACEFS}/events && echo '{is_task}' > sched/sched_switch/filter")
    enable = " ".join(f"{TRACEFS}/events/{event}/enable" for event in (*EVENTS, PROBE_EVENT))
    begin = host.read_clock_ns()
    host.run(f"for e in {enable}; do echo 1 > $e; done; echo 1 > {TRACEFS}/tracing_on")
    try:
        yield trace
        host.run(f"echo 0 > {TRACEFS}/tracing_on")
        end = host.read_clock_ns()
        host.run(f"cat {TRACEFS}/trace > /share/board.trace", timeout=180)
        text = (host.share / "board.trace").read_text()
        trace.begin_ns = begin
        reduce(trace, text, before, begin, end, threads)
    finally:
        host.run(
            f"cd {TRACEFS} && echo 0 > tracing_on; for e in {enable}; do echo 0 > $e; done; "
            "echo 0 > events/sched/sched_switch/filter; echo > trace; echo 7 > buffer_size_kb",
            check=False,
        )


_LINE = re.compile(r"\[(\d+)\]\s+\S+\s+(\d+)\.(\d+): (\w+): (.*)$")
_SWITCH = re.compile(r"prev_comm=.* ==> next_comm=(.*) next_pid=(\d+) ")
_FREQUENCY = re.compile(r"state=(\d+) cpu_id=(\d+)")
_REQUEST = re.compile(r"cpu=(\d+) perf=(\d+)")


def reduce(
    trace: BoardTrace,
    text: str,
    before: Sequence[Domain],
    begin_ns: int,
    end_ns: int,
    threads: Mapping[int, str] | None = None,
) -> None:
    """
    Fills a trace from the text of tracefs. begin and end are times on its clock. threads: as for
    recording().
    """
    domain_of = {cpu: domain for domain in before for cpu in domain.cpus}
    mhz = {cpu: domain.start_mhz for cpu, domain in domain_of.items()}
    running: dict[int, tuple[str, float]] = {}
    trace.duration_ms = (end_ns - begin_ns) / 1e6
    for domain in before:
        trace.frequencies[str(domain.cpus[0])] = [[0.0, domain.start_mhz]]

    def called(comm: str, tid: int) -> str:
        """The name of the thread in the trace; empty if the thread is not recorded."""
        if threads is None:
            return comm if comm.startswith(TASK) else ""
        return threads.get(tid, "")

    def account(cpu: int, until_ms: float) -> None:
        name, since_ms = running[cpu]
        ran_ms = until_ms - since_ms
        trace.busy_ms[name] = trace.busy_ms.get(name, 0.0) + ran_ms
        trace.runs[name][-1][1] = until_ms
        trace.energy_mj += domain_of[cpu].power_mw[mhz[cpu]] * ran_ms / 1e3
        running[cpu] = (name, until_ms)

    for line in text.splitlines():
        outer = _LINE.search(line)
        if not outer:
            continue
        cpu, ms = int(outer[1]), (int(outer[2]) * 10**9 + int(outer[3].ljust(9, "0")[:9]) - begin_ns) / 1e6
        name, rest = outer[4], outer[5]
        if name == "sched_switch" and (m := _SWITCH.match(rest)):
            if cpu in running:
                account(cpu, ms)
                del running[cpu]
            task = called(m[1], int(m[2]))
            if task:
                running[cpu] = (task, ms)
                runs = trace.runs.setdefault(task, [])
                if not runs or ms - runs[-1][1] > JOIN_MS:
                    runs.append([ms, ms])
                else:
                    trace.pauses.setdefault(task, []).append([runs[-1][1], ms])
                places = trace.places.setdefault(task, [])
                if not places or places[-1][1] != cpu:
                    places.append([ms, cpu])
        elif name == "cpu_frequency" and (m := _FREQUENCY.match(rest)):
            domain = domain_of[int(m[2])]
            if domain.cpus[0] == int(m[2]) or mhz[domain.cpus[0]] != int(m[1]) / 1000:
                for member in domain.cpus:
                    if member in running:
                        account(member, ms)
                    mhz[member] = int(m[1]) / 1000
                steps = trace.frequencies[str(domain.cpus[0])]
                if steps[-1][1] != int(m[1]) / 1000:
                    steps.append([ms, int(m[1]) / 1000])
        elif name == "cpuperf" and (m := _REQUEST.search(rest)):
            requests = trace.requests.setdefault(m[1], [])
            if requests and ms - requests[-1][0] < REQUEST_STEP_MS:
                requests[-1][1] = int(m[2])
            elif not requests or requests[-1][1] != int(m[2]):
                requests.append([ms, int(m[2])])
    for cpu in list(running):
        account(cpu, trace.duration_ms)


def mean(steps: Sequence[Step], begin_ms: float, end_ms: float) -> float:
    """The mean over time."""
    return sum(value * ms for value, ms in pieces(steps, begin_ms, end_ms)) / (end_ms - begin_ms)


def swing_per_s(steps: Sequence[Step], begin_ms: float, end_ms: float) -> float:
    """
    The sum of the sizes of all changes, per second. It says how restless a frequency is. (The
    notebooks of the kernel patches "uclamp sum aggregation" have this figure.)
    """
    values = [value for value, _ in pieces(steps, begin_ms, end_ms)]
    return sum(abs(b - a) for a, b in pairwise(values)) / (end_ms - begin_ms) * 1e3


def share_at(steps: Sequence[Step], value: float, begin_ms: float, end_ms: float) -> float:
    """Share (0..1) of the time with this value."""
    return sum(ms for at, ms in pieces(steps, begin_ms, end_ms) if at == value) / (end_ms - begin_ms)


def at(steps: Sequence[Step], ms: float) -> float | None:
    """The value at a time; None before the first value."""
    held = [value for since, value in steps if since <= ms]
    return held[-1] if held else None


def least(steps: Sequence[Step], begin_ms: float, end_ms: float) -> float | None:
    """The smallest value between two times, including the value that is valid at the first one."""
    values = [value for value, _ in pieces(steps, begin_ms, end_ms)]
    return min(values, default=None)


def pieces(steps: Sequence[Step], begin_ms: float, end_ms: float) -> list[tuple[float, float]]:
    """The values between two times, each with the time in ms for which it was valid."""
    found = []
    for index, (at, value) in enumerate(steps):
        until = steps[index + 1][0] if index + 1 < len(steps) else end_ms
        held = min(until, end_ms) - max(at, begin_ms)
        if held > 0:
            found.append((value, held))
    return found


def imbalance(
    places: Mapping[str, Sequence[Step]], cpus: Sequence[int], begin_ms: float, end_ms: float
) -> float:
    """
    The difference between the largest and the smallest number of tasks on one of `cpus`, averaged
    over time, minus the smallest possible difference (0, or 1 if the number of tasks cannot be
    divided evenly).
    """
    moments = sorted({begin_ms, end_ms, *(at for steps in places.values() for at, _ in steps)})
    moments = [at for at in moments if begin_ms <= at <= end_ms]
    total = 0.0
    for at, until in pairwise(moments):
        counts = dict.fromkeys(cpus, 0)
        for steps in places.values():
            now = [cpu for since, cpu in steps if since <= at]
            if now and now[-1] in counts:
                counts[int(now[-1])] += 1
        ideal = 1 if sum(counts.values()) % len(cpus) else 0
        total += (max(counts.values()) - min(counts.values()) - ideal) * (until - at)
    return total / (end_ms - begin_ms)


def share_on(
    places: Mapping[str, Sequence[Step]], cpus: Sequence[int], begin_ms: float, end_ms: float
) -> float:
    """Share (0..1) of the tasks' time on the board in which they are on `cpus`."""
    on = sum(
        held for steps in places.values() for cpu, held in pieces(steps, begin_ms, end_ms) if cpu in cpus
    )
    return on / (len(places) * (end_ms - begin_ms)) if places else 0.0


def _cpu_list(text: str) -> list[int]:
    cpus: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        cpus += range(int(first), int(last or first) + 1)
    return cpus
