# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""A guest whose VMM has a CPU quota spins, or holds every hint: boosts get it nothing beyond its quota."""

import re

from paracord_lab.fairness import CGROUPS
from paracord_lab.host_share import running
from paracord_lab.plots import Bars
from paracord_lab.rogue import ROGUE_BOOST, ROGUE_BOOST_EXT
from paracord_lab.scenario import VANILLA, Scenario, column
from paracord_lab.session import time_limit
from paracord_lab.verdicts import Check

# The quota is the parent's: who limits a VM does not ask in which group its threads are.
PARENT, GROUP = f"{CGROUPS}/limited", f"{CGROUPS}/limited/vm"
PERIOD_US = 100_000
QUOTA_US = 20_000
EXCESS_MAX = 0.05
SECONDS, LEAD_S = 60.0, 2.0
# What it does -> what the guest runs for that.
GUESTS = {"spinning": "pc_hog", "rogue": "pc_rogue hold --seconds 3600"}


def use(said: str) -> tuple[int, float]:
    """CPU time of a group's tasks in µs, the host's clock in s: from cpu.stat, and /proc/uptime after it."""
    return int(re.search(r"usage_usec (\d+)", said)[1]), float(said.split()[-2])


def excess(configuration: str, guest: str):
    """|used / quota - 1| beyond the kernel's own; what uses less than stock lets it is wrong as well."""

    def error(one, name):
        return abs(one[name][f"{guest}_of_quota_ratio"] - 1)

    return lambda one: error(one, configuration) - error(one, VANILLA.name)


class VmQuota(Scenario):
    name = "vm-quota"
    summary = "a guest with a CPU quota spins, or holds every hint: what it uses of the quota"
    rounds = 1
    configurations = (VANILLA, ROGUE_BOOST, ROGUE_BOOST_EXT)
    checks = tuple(
        Check(f"vm_quota_excess_{actuator}_{guest}", excess(name, guest), "<=", EXCESS_MAX, every=True)
        for actuator, name in (("rt", ROGUE_BOOST.name), ("ext", ROGUE_BOOST_EXT.name))
        for guest in GUESTS
    )
    columns = tuple(
        column(f"{guest} guest: used of its quota", f"{guest}_of_quota_ratio") for guest in GUESTS
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

    def _used(self, session, command: str, seconds: float) -> float:
        """What all threads of the VMM have used of the quota, 1 being all of it."""

        def read():
            return use(session.host.run(f"cat {PARENT}/cpu.stat /proc/uptime", urgent=True).out)

        with running(self.guest, command, "guest"):
            session.host.run(f"sleep {LEAD_S}")
            before_us, before_s = read()
            session.host.run(f"sleep {seconds}", timeout=time_limit(seconds))
            after_us, after_s = read()
        return (after_us - before_us) / 1e6 / (after_s - before_s) * PERIOD_US / QUOTA_US

    def metrics(self, configuration, raw):
        return {f"{name}_of_quota_ratio": used for name, used in raw.items()}

    def plots(self):
        return [
            Bars(
                "CPU time that the guest uses of its quota",
                {f"{name}_of_quota_ratio": f"{name} guest" for name in GUESTS},
                "ratio",
            )
        ]


SCENARIO = VmQuota()
