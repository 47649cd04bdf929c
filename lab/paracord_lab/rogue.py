# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
A malicious guest (pc_rogue, run by root in the guest): what the host keeps of its CPUs, and whether
the daemon stays healthy.
"""

from collections.abc import Sequence

from . import daemon, host_share
from .daemon import EMULATED_HOST
from .scenario import BOOST_EXT, STATIC_RT, VANILLA, Configuration, Raw, Scenario, column
from .verdicts import Check

SHARE_S = 5.0
INTACT = "/tmp/region-intact"
# A region in the guest's own memory, instead of a device's (--without device).
OWN_MEMORY = "/paracord/pc_region.ko"
SHARE = "host_beside_rogue_share"
RATE_LIMIT = "boost.actuation_min_us"
# Relative to the rate that the limit allows. The rest is the error of the two readings.
RATE_VS_LIMIT_MAX = 1.1

# pc_rogue itself declares a driver to the host, so paracord's driver would only interfere.
ROGUE_BOOST = Configuration("boost-rt", daemon=True)
ROGUE_BOOST_EXT = Configuration("boost-ext", daemon=True, settings=BOOST_EXT.settings)


def _checks(prefix: str, configuration: str) -> Sequence[Check]:
    def of(metric):
        return lambda one: one[configuration][metric]

    return (
        host_share.check(f"{prefix}_host_share", SHARE, configuration),
        Check(f"{prefix}_daemon_answers", of("daemon_answers_count"), ">=", 1, "count", every=True),
        Check(f"{prefix}_boost_rate_vs_limit", of("boost_rate_vs_limit_ratio"), "<=", RATE_VS_LIMIT_MAX),
    )


class RogueScenario(Scenario):
    """One guest, in which root runs `pc_rogue <mode>` while the host is busy."""

    mode: str = ""
    in_memory = False
    configurations: Sequence[Configuration] = (VANILLA, ROGUE_BOOST, ROGUE_BOOST_EXT, STATIC_RT)
    traced: Sequence[str] = ("boost-rt", "static-rt")
    columns = (
        column("host's share beside the rogue", SHARE),
        column("beside an ordinary spinning vCPU", host_share.REFERENCE),
        column("boosts/s", "boosts_per_s_count"),
        column("throttles", "throttles_count"),
    )

    @property
    def checks(self) -> Sequence[Check]:
        prefix = "rogue_" + self.mode
        return (*_checks(prefix, ROGUE_BOOST.name), *_checks(f"{prefix}_ext", ROGUE_BOOST_EXT.name))

    def command(self) -> str:
        return f"pc_rogue {self.mode} --seconds 3600"

    def setup(self, session) -> None:
        self.guest = session.guest("rogue", vcpus=1)
        self.load = session.load()
        self.region = f"/dev/shm/paracord/{self.guest.name}"
        self.in_memory = session.options.without == "device"
        if self.in_memory:
            self.guest.run(f"insmod {OWN_MEMORY}")
        else:
            session.host.run(f"cp {self.region} {INTACT}")

    def _repair(self, session) -> None:
        """
        Restores an intact region for the next round, in the same memory, so that each attack starts
        with a region that the daemon has attached.
        """
        if self.in_memory:
            self.guest.run(f"rmmod pc_region && insmod {OWN_MEMORY}")
        else:
            session.host.run(f"dd if={INTACT} of={self.region} conv=notrunc status=none")

    def measure(self, session, configuration: Configuration) -> Raw:
        seconds = session.seconds(SHARE_S)
        raw: Raw = {}
        self.load.busy()
        try:
            if configuration == VANILLA:
                with host_share.running(self.guest, "pc_hog", "hog"):
                    raw["spinning"] = session.host_share(self.load, seconds)
            with host_share.running(self.guest, self.command(), "rogue"):
                before = session.daemon.status() if session.daemon else None
                raw["share"] = session.host_share(self.load, seconds)
                if before is not None:
                    limit_us = _rate_limit_us(session)
                    raw["daemon"] = self.activity(before, session.daemon.status(), limit_us)
        finally:
            self.load.idle()
            self._repair(session)
        return raw

    def trace(self, session, configuration: Configuration) -> None:
        self.load.busy()
        try:
            with host_share.running(self.guest, self.command(), "rogue"):
                session.host.run("sleep 1")
        finally:
            self.load.idle()
            self._repair(session)

    def metrics(self, configuration: str, raw: Raw) -> dict[str, float]:
        measured = {SHARE: raw["share"]}
        if "spinning" in raw:
            measured[host_share.REFERENCE] = raw["spinning"]
        if "daemon" in raw:
            measured |= raw["daemon"]
        return measured

    def activity(self, before: dict, after: dict, limit_us: int) -> dict[str, float]:
        """What the daemon did between two states. Because it returned both states, it was alive."""
        seconds = (after["taken_ns"] - before["taken_ns"]) / 1e9
        boosts = after["actuator"]["boosts"] - before["actuator"]["boosts"]
        return {
            "daemon_answers_count": 1,
            "boosts_per_s_count": boosts / seconds,
            "boost_rate_vs_limit_ratio": boosts / seconds * limit_us / 1e6,
            "throttles_count": daemon.counter(after, "throttles") - daemon.counter(before, "throttles"),
        }

    def plots(self):
        return [
            host_share.bars({host_share.REFERENCE: "ordinary spinning vCPU", SHARE: f"pc_rogue {self.mode}"})
        ]


def _rate_limit_us(session) -> int:
    """The shortest time between two boosts of a vCPU while no mechanism is switched off."""
    if session.host.kind == "emulated":
        return EMULATED_HOST[RATE_LIMIT]
    return session.daemon.default(RATE_LIMIT)
