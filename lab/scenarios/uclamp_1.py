# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
Seed 003's first scenario: four tasks that never rest, capped at 200: small CPUs can serve each of them,
alone.
"""

from paracord_lab.board_load import Task
from paracord_lab.uclamp import UclampScenario, balanced


class Uclamp1(UclampScenario):
    name = "uclamp-1"
    summary = "seed 003: four capped tasks that never rest, on small CPUs, one on each"
    # 100 ms of running, a microsecond of sleep: a wakeup, where the kernel places tasks.
    tasks = (Task("--work-us 30000 --sleep-us 1", clamp_max=200),) * 4
    without = ("placement",)
    checks = balanced()


SCENARIO = Uclamp1()
