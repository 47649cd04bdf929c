# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
Ten capped tasks on one CPU must not look like one task. The kernel uses the maximum of their caps,
which is the cap of a single task. Together, they may request ten times that.
"""

from paracord_lab.board_load import Task
from paracord_lab.uclamp import UclampScenario
from paracord_lab.verdicts import Check, versus

TASKS = 10
FASTER_MIN = 1.5


class UclampMany(UclampScenario):
    name = "uclamp-many"
    summary = "ten capped tasks on one CPU, which is as fast as ten tasks need"
    tasks = (Task("--work-us 30000 --sleep-us 1", clamp_max=80, cpus="5"),) * TASKS
    then_s = 3.0
    without = ("requests",)
    checks = (
        Check("many_capped_vs_max_aggregation", versus("big_mean_mhz", "ext", "stock"), ">=", FASTER_MIN),
        Check("many_capped_below_top", lambda one: one["ext"]["big_top_ratio"], "<=", 0.1),
    )


SCENARIO = UclampMany()
