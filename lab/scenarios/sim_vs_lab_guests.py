# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
Compares the simulator with a real kernel for mixes with a guest, under the kernel's scheduler and
under paracord's.

An emulated host that runs guests has the usual clock, which other work on this machine influences.
"""

from paracord_lab import simulator
from paracord_lab.host_share import running
from paracord_lab.scenario import EXT, STOCK, Scenario, column
from paracord_lab.verdicts import Check

# Each mix has a VM `guest`, whose two vCPUs compute all the time.
MIXES = ("guest-loops", "guest-quota")
DISTANCE_MAX_SHARE = 0.03


def largest(configuration):
    return lambda one: max(one[configuration][f"{mix}_distance_share"] for mix in MIXES)


class SimVsLabGuests(Scenario):
    name = "sim-vs-lab-guests"
    summary = "the simulator's shares beside those of a real kernel, stock and ext, of two mixes with a guest"
    configurations = (STOCK, EXT)
    # Under ext, the ticks of a real guest boost its vCPUs. The simulated guest has no ticks.
    # Therefore ext is shown, but not judged.
    checks = (
        Check(
            "sim_vs_lab_guests_stock",
            largest("stock"),
            "<=",
            DISTANCE_MAX_SHARE,
            "share",
            beside={"ext": largest("ext")},
        ),
    )
    columns = tuple(column(mix, f"{mix}_distance_share") for mix in MIXES)

    def setup(self, session):
        self.simulated = {mix: simulator.simulate(simulator.of_lab(mix)) for mix in MIXES}
        self.guest = session.guest("guest", vcpus=2)

    def measure(self, session, configuration):
        vcpus = {"guest": self.guest.vcpu_tids}
        with running(self.guest, "pc_hog --cpu 0", "hog0"), running(self.guest, "pc_hog --cpu 1", "hog1"):
            played = {mix: simulator.play(session.host, simulator.of_lab(mix), vcpus) for mix in MIXES}
        return {"played": played, "simulated": self.simulated}

    def metrics(self, configuration, raw):
        return simulator.metrics(configuration, raw)


SCENARIO = SimVsLabGuests()
