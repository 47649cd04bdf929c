# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
The second scenario of "uclamp sum aggregation": two tasks that run all the time. Their request is
fixed at slightly more than a small CPU can do. They should be on large CPUs, below the highest
frequency.
"""

from paracord_lab.board_load import Task
from paracord_lab.uclamp import UclampScenario
from paracord_lab.verdicts import Check

BELOW_TOP_MIN = 0.9


def of_ext(metric):
    return lambda one: 1 - one["ext"][metric]


class Uclamp2(UclampScenario):
    name = "uclamp-2"
    summary = "two tasks that request more than a small CPU has, on large CPUs below their top frequency"
    tasks = (Task("--work-us 30000 --sleep-us 1", clamp_min=428, clamp_max=429),) * 2
    without = ("placement",)
    checks = (
        Check("tasks_on_big_cpus", of_ext("on_little_ratio"), ">=", BELOW_TOP_MIN),
        Check("big_cpus_below_top", of_ext("big_top_ratio"), ">=", BELOW_TOP_MIN),
    )


SCENARIO = Uclamp2()
