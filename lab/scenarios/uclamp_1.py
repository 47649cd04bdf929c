# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
The first scenario of the kernel patches "uclamp sum aggregation": four tasks that run all the time,
capped at 200. A small CPU has enough capacity for one of them.
"""

from paracord_lab.board_load import Task
from paracord_lab.uclamp import UclampScenario, balanced


class Uclamp1(UclampScenario):
    name = "uclamp-1"
    summary = "four capped tasks that run all the time, on small CPUs, one on each"
    # The task runs for 100 ms and sleeps for a microsecond, because the kernel places tasks at
    # wakeups.
    tasks = (Task("--work-us 30000 --sleep-us 1", clamp_max=200),) * 4
    without = ("placement",)
    checks = balanced()


SCENARIO = Uclamp1()
