# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
The third scenario of "uclamp sum aggregation": a small task without a cap beside a task that never
sleeps and may request 300. While the small task runs, the kernel uses the larger cap of the two, so
the frequency jumps each time that the task comes or goes.
"""

from paracord_lab.board_load import Task
from paracord_lab.uclamp import UclampScenario
from paracord_lab.verdicts import Check, versus

SWING_MAX = 0.1


class Uclamp3(UclampScenario):
    name = "uclamp-3"
    summary = "an uncapped task that comes and goes beside a capped one that never sleeps"
    # 4 of each 10 ms on a large CPU at its highest frequency.
    tasks = (Task("--work-us 4000 --period-us 10000", cpus="4"), Task(clamp_max=300, cpus="5"))
    first_s = 2.0
    without = ("hold",)
    checks = (Check("swing_vs_max_aggregation", versus("big_swing_mhzps", "ext", "stock"), "<=", SWING_MAX),)

    def change(self, host, pids):
        for pid in pids:
            host.run(f"taskset -pc 5 {pid}")


SCENARIO = Uclamp3()
