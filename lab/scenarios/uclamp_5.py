# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
The fifth scenario of "uclamp sum aggregation": eight capped tasks run all the time, on small CPUs,
two on each.
"""

from paracord_lab.board_load import Task
from paracord_lab.uclamp import UclampScenario, balanced


class Uclamp5(UclampScenario):
    name = "uclamp-5"
    summary = "eight capped tasks that run all the time, on small CPUs, two on each"
    tasks = (Task("--work-us 30000 --sleep-us 1", clamp_max=120),) * 8
    without = ("placement",)
    checks = balanced()


SCENARIO = Uclamp5()
