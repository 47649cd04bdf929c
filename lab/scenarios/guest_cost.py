# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""What the guest module costs each guest context switch: a pipe between two tasks, with and without it."""

import json

from paracord_lab import stats
from paracord_lab.plots import Bars
from paracord_lab.scenario import VANILLA, Configuration, Scenario, column
from paracord_lab.verdicts import Check

MODULE = Configuration("module", module=True)
# The module stores a few words at a switch; more than this would be work on the path.
SWITCH_COST_MAX = 1.03
COMMAND = "pc_pipe --rounds 5 --transfers 1500"
METRIC = "switch_median_ns"


class GuestCost(Scenario):
    name = "guest-cost"
    summary = "a context switch in the guest with the module loaded and without it"
    rounds = 9
    configurations = (VANILLA, MODULE)
    checks = (
        Check(
            "module_context_switch_cost",
            lambda one: stats.ratio(one["module"][METRIC], one["vanilla"][METRIC]),
            "<=",
            SWITCH_COST_MAX,
        ),
    )
    columns = (column("ns per context switch (emulated)", METRIC),)

    def setup(self, session):
        self.pair = session.pair("cost", vcpus=1)

    def measure(self, session, configuration):
        return json.loads(self.pair.chosen.run(COMMAND, timeout=120).out)

    def metrics(self, configuration, raw):
        return {METRIC: raw["median_ns"]}

    def plots(self):
        return [Bars("Context switch in the guest (median of rounds, spread)", {METRIC: "pipe"}, "ns")]


SCENARIO = GuestCost()
