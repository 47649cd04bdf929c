# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""Seed 003's fifth scenario: eight capped tasks that never rest: small CPUs, two on each."""

from paracord_lab.board_load import Task
from paracord_lab.uclamp import UclampScenario, balanced


class Uclamp5(UclampScenario):
    name = "uclamp-5"
    summary = "seed 003: eight capped tasks that never rest, on small CPUs, two on each"
    tasks = (Task("--work-us 30000 --sleep-us 1", clamp_max=120),) * 8
    without = ("placement",)
    checks = balanced()


SCENARIO = Uclamp5()
