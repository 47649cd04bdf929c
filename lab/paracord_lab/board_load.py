# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""Tasks of a board's scenario: what each task does, what it may request, and where it may run."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from .board_trace import TASK
from .daemon import BINARY
from .errors import LabError


@dataclass(frozen=True)
class Task:
    """
    arguments: of pc_task. clamp_min, clamp_max: 0..1024. cpus: a list in the format of taskset;
    empty: all CPUs.
    """

    arguments: str = ""
    clamp_min: int = 0
    clamp_max: int = 1024
    cpus: str = ""

    def command(self, number: int, by_paracord: bool) -> str:
        """
        Returns a shell command that becomes the task. Its clamps are set through paracord or in the
        kernel.
        """
        words = f"pc_task --id {number} {self.arguments}"
        clamps = f"{self.clamp_min}", f"{self.clamp_max}"
        if by_paracord:
            prefix = f"{BINARY} clamp set --process $$ --min {clamps[0]} --max {clamps[1]} && exec "
        else:
            prefix = f"exec uclampset -m {clamps[0]} -M {clamps[1]} "
        if self.cpus:
            prefix += f"taskset -c {self.cpus} "
        return prefix + words


@contextmanager
def running(host, tasks: Sequence[Task], by_paracord: bool) -> Iterator[list[int]]:
    """
    Runs the tasks while the context is open, and yields their process IDs. When it is entered, all
    tasks have begun.
    """
    pids: list[int] = []
    try:
        for number, task in enumerate(tasks):
            command = task.command(number, by_paracord)
            host.spawn(f"exec bash -c {shlex.quote(command)}", f"{TASK}{number}")
        enough = f"[ $(pgrep -c '^pc_task\\.') -ge {len(tasks)} ]"
        wait = f"for i in $(seq 300); do {enough} && break; sleep 0.1; done; pgrep '^pc_task\\.'"
        pids = [int(word) for word in host.run(wait, timeout=120, check=False).out.split()]
        if len(pids) != len(tasks):
            raise LabError(f"{len(pids)} of {len(tasks)} tasks have begun")
        yield pids
    finally:
        host.run(
            "pkill '^pc_task'; for i in $(seq 50); do pgrep '^pc_task' >/dev/null || break; sleep 0.1; done"
        )
