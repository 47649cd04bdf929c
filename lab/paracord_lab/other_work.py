# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
What else this machine does during a measurement. A compile job beside an emulator halves the speed
of the emulated CPUs, and no figure would show this. In a container, only the processes of the
container are visible.

Sources: proc(5), /proc/PID/stat and /proc/stat; the kernel's Documentation/accounting/psi.rst.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

# Thresholds: CPUs that other processes use, and the part of all CPU time that a hypervisor takes.
# Every machine is below them.
CPUS_MIN, STOLEN_MIN = 0.1, 0.02
NAMES_MAX = 3
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# Fields of /proc/PID/stat after the name.
PPID, TIMES, START = 1, slice(11, 15), 19
KTHREADD = 2


@dataclass(frozen=True)
class Process:
    """The CPU time of a process and of its children that have ended, in s."""

    name: str
    parent: int
    started: int
    cpu_s: float


@dataclass(frozen=True)
class Look:
    """waited_s: time in which some task waited for a CPU. None if the kernel does not count it."""

    at_s: float
    stolen_s: float
    processes: dict[int, Process]
    waited_s: float | None = None


def process_of(stat: str) -> Process:
    """Parses a line of /proc/PID/stat. The name in it may contain any characters."""
    name = stat[stat.index("(") + 1 : stat.rindex(")")]
    fields = stat[stat.rindex(")") + 2 :].split()
    ticks = sum(map(int, fields[TIMES]))
    return Process(name, int(fields[PPID]), int(fields[START]), ticks / TICKS_PER_S)


def look(proc: Path = Path("/proc")) -> Look:
    processes = {}
    for directory in proc.iterdir():
        if not directory.name.isdigit():
            continue
        try:
            processes[int(directory.name)] = process_of((directory / "stat").read_text(errors="replace"))
        except (OSError, ValueError, IndexError):
            continue  # the process has ended
    stolen = int((proc / "stat").read_text().split("\n", 1)[0].split()[8])
    return Look(time.monotonic(), stolen / TICKS_PER_S, processes, waited(proc))


def waited(proc: Path) -> float | None:
    """The time in which some task waited for a CPU (`some ... total=`, in µs)."""
    try:
        some = (proc / "pressure/cpu").read_text().split("\n", 1)[0]
        return int(some.rsplit("total=", 1)[1]) / 1e6
    except (OSError, ValueError, IndexError):
        return None  # a kernel without CONFIG_PSI, or with psi=0


def own(processes: dict[int, Process], root: int) -> set[int]:
    """`root`, all processes below it, and the kernel's threads."""
    children: dict[int, list[int]] = {}
    for pid, process in processes.items():
        children.setdefault(process.parent, []).append(pid)
    found, left = set(), [root, KTHREADD]
    while left:
        pid = left.pop()
        if pid not in found:
            found.add(pid)
            left += children.get(pid, [])
    return found


def line(before: Look, after: Look, root: int | None = None) -> str:
    """
    What other processes did between two looks, in one line. Empty if it was little. root: the
    process whose work is measured, instead of this process.
    """
    root = os.getpid() if root is None else root
    seconds = max(after.at_s - before.at_s, 1 / TICKS_PER_S)
    ours = own(before.processes, root) | own(after.processes, root)
    took: dict[str, float] = {}
    for pid, process in after.processes.items():
        if pid in ours:
            continue
        then = before.processes.get(pid)
        known_s = then.cpu_s if then and then.started == process.started else 0.0
        took[process.name] = took.get(process.name, 0.0) + process.cpu_s - known_s
    # The CPU time of children that have ended is now part of their parents' time.
    ended = {pid for pid, was in before.processes.items() if not _is_same(was, after.processes.get(pid))}
    for pid in ended - ours:
        parent = after.processes.get(before.processes[pid].parent)
        if parent and parent.name in took and before.processes[pid].parent not in ours:
            took[parent.name] -= before.processes[pid].cpu_s
    # The time of a child's children is added to its parents late, possibly to a process with
    # another name. If a difference is then negative, it counts as zero.
    took = {name: max(s, 0.0) for name, s in took.items()}
    cpus = min(sum(took.values()) / seconds, float(os.cpu_count() or 1))
    stolen = (after.stolen_s - before.stolen_s) / seconds / (os.cpu_count() or 1)
    said = []
    if cpus >= CPUS_MIN:
        most = sorted(took.items(), key=lambda item: -item[1])[:NAMES_MAX]
        names = ", ".join(f"{name} {s / seconds:.1f}" for name, s in most if s / seconds >= CPUS_MIN / 2)
        said.append(
            f"other processes took {cpus:.1f} of {os.cpu_count()} CPUs" + (f" ({names})" if names else "")
        )
    if stolen >= STOLEN_MIN:
        said.append(f"{stolen:.0%} of the CPU time was stolen")
    # The emulator's own threads wait for each other, too. So pressure alone means nothing.
    if said and before.waited_s is not None and after.waited_s is not None:
        said.append(f"tasks waited for a CPU {(after.waited_s - before.waited_s) / seconds:.0%} of the time")
    return ", ".join(said)


def _is_same(one: Process, other: Process | None) -> bool:
    return other is not None and one.started == other.started
