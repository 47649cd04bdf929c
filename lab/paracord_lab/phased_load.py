# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
Periodic tasks with phases (pc_load), on a board's host or in its guest, and the difference between
two runs of them. The metrics are pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from . import board_trace
from .stats import ratio

SCALE = 1024
# The first part of a phase is left out, because tasks and their utilisation are still changing.
SETTLE_MS = 750.0
LEAD_MS = 1000
# This is not a multiple of a task's period, because a utilisation rises and falls by a third within
# a period.
SAMPLE_MS = 93
BEGIN_TIMEOUT_S = 30
Load = Mapping[str, list]


@dataclass(frozen=True)
class Phase:
    """work_us: work of each period of period_us, on the fastest CPU at its highest frequency."""

    work_us: int
    period_us: int
    length_ms: int


Task = Sequence[Phase]


def command(tasks: Sequence[Task], factor: float = 1, options: str = "") -> str:
    """factor: multiplies the lengths of phases. options: further options of the program."""
    words = (
        ",".join(f"{p.work_us}/{p.period_us}:{round(p.length_ms * factor)}" for p in task) for task in tasks
    )
    return f"pc_load --sample-ms {SAMPLE_MS} --lead-ms {LEAD_MS} {options}{' '.join(words)}"


def run(
    machine, host, tasks: Sequence[Task], factor: float = 1, prefix: str = "", options: str = ""
) -> tuple[Load, int]:
    """
    Runs the load. prefix: of the shell command, for attributes that the tasks inherit.

    Returns the JSON object of the load, and the time when it began, in ns of the host's
    CLOCK_MONOTONIC. (The time is some ten ms late, because a guest's message comes through the
    channel.)
    """
    seconds = factor * max(sum(phase.length_ms for phase in task) for task in tasks) / 1e3
    job = machine.spawn(f"{prefix}exec {command(tasks, factor, options)}", "pc_load")
    machine.channel.wait_for(lambda: "begin" in job.out() or not job.running, BEGIN_TIMEOUT_S, "pc_load")
    begin_ns = host.read_clock_ns() + LEAD_MS * 10**6
    result = job.result(timeout=60 + 4 * seconds, check=True)
    return json.loads(result.out.splitlines()[-1]), begin_ns


def windows(task: Task, factor: float = 1) -> list[tuple[float, float]]:
    """[begin, end] of the settled part of each phase, in ms since the load began."""
    found, at = [], 0.0
    for phase in task:
        end = at + phase.length_ms * factor
        found.append((at + min(SETTLE_MS, (end - at) / 2), end))
        at = end
    return found


def utilisations(task: Mapping, of: Sequence[tuple[float, float]]) -> list[float]:
    """
    Mean utilisation (0..1) in each window, as the kernel that ran the task computed it. 0 if there
    is no value.
    """
    means = []
    for begin, end in of:
        values = [util for ms, util in task["util"] if begin <= ms < end]
        means.append(sum(values) / len(values) / SCALE if values else 0.0)
    return means


def shares(task: Mapping, cpus: Sequence[int]) -> list[float]:
    """Share (0..1) of the task's running time on these CPUs of the board, by phase."""
    return [
        sum(phase["busy_us"][cpu] for cpu in cpus) / max(1, sum(phase["busy_us"])) for phase in task["phases"]
    ]


def speed(task: Mapping) -> float:
    """
    The speed of the task's CPUs at their frequencies, while it ran on them (0..1 of the fastest).
    StatsError if the task never ran.
    """
    phases = task["phases"]
    return ratio(sum(phase["speed_us"] for phase in phases), sum(sum(phase["busy_us"]) for phase in phases))


def excess(load: Load, tasks: Sequence[Task]) -> float:
    """
    The work that was done, relative to the work that should have been done in the rounds that took
    place. If the machine that runs the emulator interrupts a slice of work, the slice counts for
    longer. The kernel's averages have the same error.
    """
    pairs = [
        (phase, wanted)
        for task, phases in zip(load["tasks"], tasks, strict=True)
        for phase, wanted in zip(task["phases"], phases, strict=True)
    ]
    done_us = sum(phase["done_us"] for phase, _ in pairs)
    return ratio(done_us, sum(phase["rounds"] * wanted.work_us for phase, wanted in pairs))


def first_on(phase: Mapping, cpus: Sequence[int]) -> int | None:
    """
    When the task first ran on one of these CPUs in this phase, in ns of its kernel's clock. None if
    it never did.
    """
    found = [phase["first_ns"][cpu] for cpu in cpus if phase["first_ns"][cpu]]
    return min(found, default=None)


def frequencies(trace: Mapping, begin_ms: float, of: Sequence[tuple[float, float]]) -> dict[str, list[float]]:
    """Mean MHz in each window, by domain. begin_ms: start of the load in the recording."""
    return {
        domain: [board_trace.mean(steps, begin_ms + begin, begin_ms + end) for begin, end in of]
        for domain, steps in trace["frequencies"].items()
    }


def relative_error(values: Sequence[float], reference: Sequence[float]) -> float:
    """
    The sum of all differences, relative to the sum of the reference. StatsError if the latter is
    not positive.
    """
    pairs = zip(values, reference, strict=True)
    return ratio(sum(abs(value - wanted) for value, wanted in pairs), sum(reference))


def mean_distance(values: Sequence[float], reference: Sequence[float]) -> float:
    """The mean difference between shares."""
    return sum(abs(a - b) for a, b in zip(values, reference, strict=True)) / len(reference)
