# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
What the guest module costs each guest context switch: a pipe between two tasks, with and without it, in one
guest: two guests differ by more than the module costs. The driver is unbound and bound while the guest idles.
"""

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
DRIVER = "/sys/bus/pci/drivers/paracord_guest"


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
        self.guest = session.guest("cost", module=True, vcpus=1)
        self.device = self.guest.run(f"basename {DRIVER}/0000:*").out.strip()
        self.bound = True

    def measure(self, session, configuration):
        if self.bound != (configuration == MODULE):
            self.bound = not self.bound
            self.guest.run(f"echo {self.device} > {DRIVER}/{'bind' if self.bound else 'unbind'}; sleep 1")
        return json.loads(self.guest.run(COMMAND, timeout=120).out)

    def metrics(self, configuration, raw):
        return {METRIC: raw["median_ns"]}

    def plots(self):
        return [Bars("Context switch in the guest (median of rounds, spread)", {METRIC: "pipe"}, "ns")]


SCENARIO = GuestCost()
