# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
How long a vCPU stays boosted after its real-time task has gone to sleep and a normal task
continues. In one configuration, the guest's kick (a VM exit) ends the boost. In the other one,
there is no kick, and the next exit that happens anyway ends the boost.
"""

from paracord_lab.host_share import running
from paracord_lab.plots import Bars
from paracord_lab.scenario import Configuration, Scenario, column
from paracord_lab.session import time_limit
from paracord_lab.verdicts import Check, versus

SECONDS = 6
# 1.5 ms of real-time work per 10 ms. This is longer than the threshold, so a kick is worth its cost
# at the end of each boost.
AUDIO = "pc_audio --period_us 10000 --work_permille 150 --seconds 3600"
COUNTERS = ("stale_boosts", "stale_ns", "stale_max_ns", "kicks")
DIRECTORY = "/sys/bus/*/drivers/paracord_guest/*/paracord"
MEAN, KICKS = "stale_boost_mean_us", "kicks_per_s_count"
# Without a kick, a stale boost ends at the next exit, which is at the latest a tick of the host
# after 4 ms.
MEAN_VS_NO_KICK_MAX = 0.5

KICK_ON = Configuration("kick-on", daemon=True, module=True)
KICK_OFF = Configuration("kick-off", daemon=True, module=True)


class StaleBoost(Scenario):
    name = "stale-boost"
    summary = "how long a boost outlives its reason, with the guest's kick and without it"
    configurations = (KICK_OFF, KICK_ON)
    without = ("kick", "device")
    checks = (
        Check(
            "stale_boost_mean_vs_no_kick",
            versus(MEAN, "kick-on", "kick-off"),
            "<=",
            MEAN_VS_NO_KICK_MAX,
        ),
        Check("stale_boost_kicks_sent", lambda one: one["kick-on"][KICKS], ">=", 1, "count", every=True),
    )
    columns = (
        column("stale boost: mean µs", MEAN),
        column("max µs", "stale_boost_max_us"),
        column("stale boosts/s", "stale_boosts_per_s_count"),
        column("kicks/s", KICKS),
    )

    def setup(self, session):
        self.guest = session.guest("stale", vcpus=1)
        # With these hooks, the module counts every interrupt that ended a stale boost.
        self.guest.load_module(hooks="all")
        self.load = session.load()

    def _counters(self):
        words = self.guest.run("cat " + " ".join(f"{DIRECTORY}/{name}" for name in COUNTERS)).out.split()
        return dict(zip(COUNTERS, map(int, words), strict=True))

    def measure(self, session, configuration):
        kick = configuration == KICK_ON and session.options.without != "kick"
        self.guest.run(f"echo {'Y' if kick else 'N'} > /sys/module/paracord_guest/parameters/kick")
        seconds = session.seconds(SECONDS)
        self.load.busy()
        try:
            with running(self.guest, "pc_hog", "hog"), running(self.guest, AUDIO, "audio"):
                before = self._counters()
                session.host.run(f"sleep {seconds}", timeout=time_limit(seconds))
                after = self._counters()
        finally:
            self.load.idle()
        return {"seconds": seconds, "before": before, "after": after}

    def metrics(self, configuration, raw):
        grown = {name: raw["after"][name] - raw["before"][name] for name in COUNTERS}
        return {
            MEAN: grown["stale_ns"] / 1000 / max(1, grown["stale_boosts"]),
            "stale_boost_max_us": raw["after"]["stale_max_ns"] / 1000,
            "stale_boosts_per_s_count": grown["stale_boosts"] / raw["seconds"],
            KICKS: grown["kicks"] / raw["seconds"],
        }

    def plots(self):
        return [Bars("Time from the end of a boost's reason to the end of the boost", {MEAN: "mean"}, "us")]


SCENARIO = StaleBoost()
