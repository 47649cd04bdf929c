# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
A VM without a device migrates before each measurement, to another QEMU of the same host. The
real-time task in it must be as quick as before, and paracord must know the VM again at once.
"""

from paracord_lab import host_share, wakeups
from paracord_lab.scenario import BOOST, BOOST_EXT, VANILLA, Configuration, Raw, column
from paracord_lab.verdicts import Check, of

NAMES = ("life-here", "life-there")
HEAL = "heal_s"
DOWNTIME = "downtime_ms"
VMS = "vms_count"
# From the end of the migration until the host reads the guest's hints again.
HEAL_MAX_S = 2


class Life(wakeups.WakeupScenario):
    name = "life"
    summary = "a VM without a device migrates to another QEMU: latency and hints afterwards"
    configurations = (VANILLA, BOOST, BOOST_EXT)
    without = ("boost",)
    traced = ()
    checks = (
        Check(
            "migrated_boost_excess",
            wakeups.excess("boost-rt", 1000),
            "<=",
            wakeups.EXCESS_MAX,
            beside={"boost-ext": wakeups.excess("boost-ext", 1000)},
        ),
        Check(HEAL, of(HEAL, "boost-rt"), "<=", HEAL_MAX_S, "s"),
        Check("vms_after_migration", of(VMS, "boost-rt"), "<=", 1, "count", every=True),
    )
    columns = (
        *wakeups.columns(1000),
        column("downtime ms", DOWNTIME),
        column("seconds until hints", HEAL),
    )

    def setup(self, session) -> None:
        self.moving = session.guest(NAMES[0], module=True, vcpus=1, region=False)
        self.load = session.load()

    @property
    def guest(self):
        return self.moving

    def measure(self, session, configuration: Configuration) -> Raw:
        name = next(name for name in NAMES if name != self.moving.name)
        # An idle guest announces nothing.
        with host_share.running(self.moving, "pc_hog --busy_ms 2 --sleep_ms 20", "worker"):
            migration = self.moving.migrate(name, session.daemon)
        raw: Raw = {"downtime_s": migration.downtime_s, "heal_s": migration.heal_s}
        raw |= super().measure(session, configuration)
        if session.daemon:
            raw["vms"] = len(session.daemon.status()["vms"])
        return raw

    def metrics(self, configuration: str, raw: Raw) -> dict[str, float]:
        measured = super().metrics(configuration, raw) | {DOWNTIME: raw["downtime_s"] * 1000}
        if raw["heal_s"] is not None:
            measured |= {HEAL: raw["heal_s"], VMS: raw["vms"]}
        return measured


SCENARIO = Life()
