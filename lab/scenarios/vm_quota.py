# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
A guest whose VMM has a CPU quota spins, or sets every hint. Boosts must not give it more than its
quota.
"""

import re

from paracord_lab.fairness import CGROUPS
from paracord_lab.host_share import running
from paracord_lab.plots import Bars
from paracord_lab.rogue import ROGUE_BOOST, ROGUE_BOOST_EXT
from paracord_lab.scenario import VANILLA, Scenario, column
from paracord_lab.session import time_limit
from paracord_lab.verdicts import Check

# The parent group has the quota, because an operator who limits a VM need not know the group of its
# threads.
PARENT, GROUP = f"{CGROUPS}/limited", f"{CGROUPS}/limited/vm"
PERIOD_US = 100_000
QUOTA_US = 20_000
EXCESS_MAX = 0.05
# Boosts per second. A guest that is never boosted keeps its quota without any mechanism.
BOOSTS_MIN = 1.0
SECONDS, LEAD_S = 60.0, 2.0
# What the guest does, and the program that it runs for this.
GUESTS = {"spinning": "pc_hog", "rogue": "pc_rogue hold --seconds 3600"}


def use(said: str) -> tuple[int, float]:
    """
    The CPU time of a group's tasks in µs, and the host's clock in s, from cpu.stat and then
    /proc/uptime.
    """
    return int(re.search(r"usage_usec (\d+)", said)[1]), float(said.split()[-2])


def excess(configuration: str, guest: str):
    """
    |used / quota - 1|, minus the kernel's own error. Using less than under stock is also an error.
    """

    def error(one, name):
        return abs(one[name][f"{guest}_of_quota_ratio"] - 1)

    return lambda one: error(one, configuration) - error(one, VANILLA.name)


class VmQuota(Scenario):
    name = "vm-quota"
    summary = "a guest with a CPU quota spins, or sets every hint: how much of the quota it uses"
    rounds = 1
    configurations = (VANILLA, ROGUE_BOOST, ROGUE_BOOST_EXT)
    checks = (
        *(
            Check(f"vm_quota_excess_{actuator}_{guest}", excess(name, guest), "<=", EXCESS_MAX, every=True)
            for actuator, name in (("rt", ROGUE_BOOST.name), ("ext", ROGUE_BOOST_EXT.name))
            for guest in GUESTS
        ),
        Check(
            "vm_quota_boosts_ext_rogue",
            lambda one: one[ROGUE_BOOST_EXT.name]["rogue_boosts_per_s"],
            ">=",
            BOOSTS_MIN,
            every=True,
        ),
    )
    columns = (
        *(column(f"{guest} guest: used of its quota", f"{guest}_of_quota_ratio") for guest in GUESTS),
        # rt boosts with what the quota leaves, which is nothing here. ext charges the running time
        # of boosted vCPUs.
        *(column(f"{guest} guest: boosts a second", f"{guest}_boosts_per_s") for guest in GUESTS),
    )

    def setup(self, session):
        self.guest = session.guest("limited", vcpus=1)
        self.load = session.load()
        enable = f"echo +cpu > {CGROUPS}/cgroup.subtree_control"
        session.host.run(f"{enable} && mkdir -p {GROUP} && echo +cpu > {PARENT}/cgroup.subtree_control")
        session.host.run(f"echo {QUOTA_US} {PERIOD_US} > {PARENT}/cpu.max")
        session.host.run(f"echo {self.guest.pid} > {GROUP}/cgroup.procs")

    def measure(self, session, configuration):
        seconds = session.seconds(SECONDS)
        self.load.busy()
        try:
            return {name: self._used(session, command, seconds) for name, command in GUESTS.items()}
        finally:
            self.load.idle()

    def _used(self, session, command: str, seconds: float) -> dict[str, float]:
        """
        How much of the quota all threads of the VMM have used (1: all of it), and the boosts per
        second.
        """

        def read():
            used = use(session.host.run(f"cat {PARENT}/cpu.stat /proc/uptime", urgent=True).out)
            boosts = session.daemon.status()["actuator"]["boosts"] if session.daemon else 0
            return *used, boosts

        with running(self.guest, command, "guest"):
            session.host.run(f"sleep {LEAD_S}")
            before_us, before_s, boosts_before = read()
            session.host.run(f"sleep {seconds}", timeout=time_limit(seconds))
            after_us, after_s, boosts_after = read()
        elapsed_s = after_s - before_s
        return {
            "of_quota_ratio": (after_us - before_us) / 1e6 / elapsed_s * PERIOD_US / QUOTA_US,
            "boosts_per_s": (boosts_after - boosts_before) / elapsed_s,
        }

    def metrics(self, configuration, raw):
        return {f"{guest}_{name}": value for guest, used in raw.items() for name, value in used.items()}

    def plots(self):
        return [
            Bars(
                "CPU time that the guest uses of its quota",
                {f"{name}_of_quota_ratio": f"{name} guest" for name in GUESTS},
                "ratio",
            )
        ]


SCENARIO = VmQuota()
