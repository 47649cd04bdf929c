# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
The common part of the scenarios of the kernel patches "uclamp sum aggregation": capped tasks on a
board, with the kernel's clamps and with paracord's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

from . import board_load, board_trace
from .board_load import Task
from .boards import JunoR2
from .needs import UCLAMP
from .plots import Bars, Course
from .scenario import EXT, STOCK, Scenario, column
from .verdicts import Check

# The difference between the largest and smallest number of tasks on a small CPU, averaged over
# time, above the ideal.
IMBALANCE_MAX = 0.1
SETTLE_S = 1.0
TOP_MHZ = 1200
# The kernel's scheduler, with the kernel's clamps. paracord's own ones need nothing of the kernel.
STOCK_CLAMPED = replace(STOCK, also_needs=(UCLAMP,))


class UclampScenario(Scenario):
    """
    tasks: they begin one after the other. first_s: how long they run before `change` is made. The
    time that counts begins SETTLE_S after the change and lasts then_s. The commands that end the
    recording also run on these CPUs. Therefore they run only after this time.
    """

    board = JunoR2.name
    arch = JunoR2.arch
    cpus = JunoR2.cpus
    configurations = (STOCK_CLAMPED, EXT)
    tasks: Sequence[Task] = ()
    first_s = 0.0
    then_s = 5.0

    def setup(self, session):
        pass

    def change(self, host, pids: Sequence[int]) -> None:
        """The change in the middle."""

    def measure(self, session, configuration):
        host = session.host
        with (
            board_load.running(host, self.tasks, configuration.is_ext) as pids,
            board_trace.recording(host) as trace,
        ):
            begin = host.read_clock_ns()
            host.run(f"sleep {self.first_s}")
            self.change(host, pids)
            changed = host.read_clock_ns()
            host.run(f"sleep {SETTLE_S + session.seconds(self.then_s)}")
        return {"trace": asdict(trace), "changed_ms": (changed - begin) / 1e6}

    def metrics(self, configuration, raw):
        trace = raw["trace"]
        begin = raw["changed_ms"] + SETTLE_S * 1e3
        end = min(begin + self.then_s * 1e3, trace["duration_ms"])
        little, big = (trace["frequencies"][str(cpus[0])] for cpus in (JunoR2.little, JunoR2.big))
        places = trace["places"]
        return {
            "little_mean_mhz": board_trace.mean(little, begin, end),
            "big_mean_mhz": board_trace.mean(big, begin, end),
            "little_swing_mhzps": board_trace.swing_per_s(little, begin, end),
            "big_swing_mhzps": board_trace.swing_per_s(big, begin, end),
            "big_top_ratio": board_trace.share_at(big, TOP_MHZ, begin, end),
            "imbalance_ratio": board_trace.imbalance(places, JunoR2.little, begin, end),
            "on_little_ratio": board_trace.share_on(places, JunoR2.little, begin, end),
            "energy_mw": trace["energy_mj"] / trace["duration_ms"] * 1e3,
        }

    columns = (
        column("small CPUs, MHz", "little_mean_mhz"),
        column("large CPUs, MHz", "big_mean_mhz"),
        column("swing of the large, MHz/s", "big_swing_mhzps"),
        column("tasks on small CPUs, share", "on_little_ratio"),
        column("imbalance of the small", "imbalance_ratio"),
        column("power of the tasks, mW", "energy_mw"),
    )

    def plots(self):
        return [
            Course("Where the tasks are (CPU)", lambda raw: raw["trace"]["places"], "CPU", apart=0.08),
            Course("Frequencies", lambda raw: _named(raw["trace"]["frequencies"]), "MHz"),
            Course(
                "What CPUs ask for (stock: not shown by the kernel)",
                lambda raw: raw["trace"]["requests"],
                "of 1024",
            ),
            Bars("Power of the tasks by the kernel's energy model", {"energy_mw": "power"}, "mw"),
        ]


def balanced() -> tuple[Check, ...]:
    """Verdicts that the tasks are on small CPUs and evenly distributed."""
    return (
        Check(
            "placement_imbalance",
            lambda one: one["ext"]["imbalance_ratio"],
            "<=",
            IMBALANCE_MAX,
            beside={"stock": lambda one: one["stock"]["imbalance_ratio"]},
        ),
        Check(
            "tasks_on_little_cpus",
            lambda one: one["ext"]["on_little_ratio"],
            ">=",
            1 - IMBALANCE_MAX,
            beside={"stock": lambda one: one["stock"]["on_little_ratio"]},
        ),
    )


def _named(frequencies):
    names = {str(JunoR2.little[0]): "small CPUs", str(JunoR2.big[0]): "large CPUs"}
    return {names[first]: steps for first, steps in frequencies.items()}
