# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
Two tasks run all the time on one CPU. One may request almost no performance, and the other may
request the maximum. The kernel's maintainers asked for this case in the discussion of "uclamp sum
aggregation". The capped task must not take time from the other one, whatever its nice value is.
"""

from paracord_lab import fairness
from paracord_lab.daemon import BINARY
from paracord_lab.plots import Bars
from paracord_lab.scenario import EXT, Scenario, column
from paracord_lab.uclamp import STOCK_CLAMPED
from paracord_lab.verdicts import Check

CAP = 1
NICE = (-10, 0, 10)
SECONDS = 8.0
UNCAPPED_SHARE_MIN = 0.9


def metric(nice):
    return f"uncapped_nice_{nice}_share".replace("-", "minus_")


def worst(configuration):
    return lambda one: min(one[configuration][metric(nice)] for nice in NICE)


class UclampUncapped(Scenario):
    name = "uclamp-uncapped"
    summary = "two tasks on one CPU, one capped at 1, at nice -10, 0 and 10: the other keeps its time"
    rounds = 3
    configurations = (STOCK_CLAMPED, EXT)
    without = ("charge",)
    checks = (
        Check(
            "uncapped_time_share",
            worst("ext"),
            ">=",
            UNCAPPED_SHARE_MIN,
            "share",
            beside={"stock": worst("stock")},
        ),
    )
    columns = tuple(column(f"uncapped one's share, capped at nice {nice}", metric(nice)) for nice in NICE)

    def setup(self, session):
        pass

    def measure(self, session, configuration):
        host = session.host
        seconds = session.seconds(SECONDS)
        clamp = f"{BINARY} clamp set --max {CAP} --task" if configuration == EXT else f"uclampset -M {CAP} -p"

        def cap(pids):
            host.run(f"{clamp} {pids[1]}")

        return {
            metric(nice): fairness.cpu_shares(host, ("", f"nice -n {nice}"), seconds, cap) for nice in NICE
        }

    def metrics(self, configuration, raw):
        return {name: shares[0] for name, shares in raw.items()}

    def plots(self):
        return [
            Bars(
                "Share of the CPU's time of the task that nobody capped",
                {metric(nice): f"the other at nice {nice}" for nice in NICE},
                "share",
                reference=UNCAPPED_SHARE_MIN,
                reference_name="limit",
            )
        ]


SCENARIO = UclampUncapped()
