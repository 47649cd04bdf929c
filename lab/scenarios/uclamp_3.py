# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
Seed 003's third scenario: a small task, uncapped, beside one that never sleeps and may ask for 300. The
kernel takes the largest cap of the two while the small one runs, so the frequency jumps each time that it
comes or goes.
"""

from paracord_lab.board_load import Task
from paracord_lab.uclamp import UclampScenario
from paracord_lab.verdicts import Check, versus

SWING_MAX = 0.1


class Uclamp3(UclampScenario):
    name = "uclamp-3"
    summary = "seed 003: an uncapped task that comes and goes beside a capped one that never sleeps"
    # 4 ms of each 10 on a large CPU at its highest frequency.
    tasks = (Task("--work-us 4000 --period-us 10000", cpus="4"), Task(clamp_max=300, cpus="5"))
    first_s = 2.0
    without = ("hold",)
    checks = (Check("swing_vs_max_aggregation", versus("big_swing_mhzps", "ext", "stock"), "<=", SWING_MAX),)

    def change(self, host, pids):
        for pid in pids:
            host.run(f"taskset -pc 5 {pid}")


SCENARIO = Uclamp3()
