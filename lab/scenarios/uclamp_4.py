# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
The fourth scenario of "uclamp sum aggregation": four capped tasks are pinned to small CPUs, and
four to large CPUs. When the latter may use all CPUs, all eight fit on small CPUs, two on each.
"""

from paracord_lab.board_load import Task
from paracord_lab.uclamp import UclampScenario, balanced

WORK = "--work-us 30000 --sleep-us 1"


class Uclamp4(UclampScenario):
    name = "uclamp-4"
    summary = "four capped tasks on small CPUs, and four that come there from large CPUs"
    tasks = (Task(WORK, clamp_max=120, cpus="0-3"),) * 4 + (Task(WORK, clamp_max=120, cpus="4,5"),) * 4
    first_s = 2.0
    without = ("placement",)
    checks = balanced()

    def change(self, host, pids):
        for pid in pids[4:]:
            host.run(f"taskset -pc 0-5 {pid}")


SCENARIO = Uclamp4()
