# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
The simulator beside a real kernel: the same mixes, simulated and played, under the kernel's scheduler and
under paracord's. docs/simulator.md has the table.

An emulated host's clock counts instructions here, so that what else this machine does has no influence.
"""

from paracord_lab import simulator
from paracord_lab.scenario import EXT, STOCK, Scenario, column
from paracord_lab.verdicts import Check

MIXES = (
    "three-loops",
    "nice-two-cpus",
    "nice-minus-ten",
    "bound-quota",
    "idle-group",
    "groups-6-2",
    "fork-chain-short",
    "fork-chain-long",
    "turns",
    "locks",
)
NEAR_SHARE = 0.03
NEAR_MIN = 9


def near(configuration):
    """How many mixes have all shares within NEAR_SHARE of the simulated ones."""
    return lambda one: sum(one[configuration][f"{mix}_distance_share"] <= NEAR_SHARE for mix in MIXES)


class SimVsLab(Scenario):
    name = "sim-vs-lab"
    summary = "the simulator's shares beside those of a real kernel, stock and ext, of ten mixes"
    counted = True
    spare = False
    configurations = (STOCK, EXT)
    checks = (
        Check("sim_vs_lab_stock", near("stock"), ">=", NEAR_MIN, "count"),
        Check("sim_vs_lab_ext", near("ext"), ">=", NEAR_MIN, "count"),
    )
    columns = tuple(column(mix, f"{mix}_distance_share") for mix in MIXES)

    def setup(self, session):
        self.simulated = {mix: simulator.simulate(simulator.of_lab(mix)) for mix in MIXES}

    def measure(self, session, configuration):
        played = {mix: simulator.play(session.host, simulator.of_lab(mix)) for mix in MIXES}
        return {"played": played, "simulated": self.simulated}

    def metrics(self, configuration, raw):
        return simulator.metrics(configuration, raw)


SCENARIO = SimVsLab()
