# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
Compares the simulator with a real kernel. The same mixes are simulated and played, under the
kernel's scheduler and under paracord's. docs/simulator.md contains the table.

The clock of the emulated host counts instructions here, so other work on this machine has no
influence.
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
# Number of mixes, of ten, that may be far from the simulation.
FAR_MAX = 1


def distance(configuration):
    """
    The largest difference between a share and the simulated share, without the FAR_MAX mixes that
    differ most.
    """
    return lambda one: sorted(one[configuration][f"{mix}_distance_share"] for mix in MIXES)[-1 - FAR_MAX]


class SimVsLab(Scenario):
    name = "sim-vs-lab"
    summary = "the simulator's shares beside those of a real kernel, stock and ext, of ten mixes"
    counted = True
    spare = False
    configurations = (STOCK, EXT)
    checks = (
        Check("sim_vs_lab_stock", distance("stock"), "<=", NEAR_SHARE, "share"),
        Check("sim_vs_lab_ext", distance("ext"), "<=", NEAR_SHARE, "share"),
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
