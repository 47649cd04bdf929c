# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
A guest's root reprograms counters as fast as it can. The host must make no more system calls for it
than its quota allows, and a boosted task in another guest must not wait longer.

There are two such guests under paracord's VMM: one with a quota, and one with a quota that no guest
can use up. Everything else that they do uses the time of their own vCPUs, like any exit.
"""

from paracord_lab import cyclictest, host_share, vmm_state
from paracord_lab.needs import PERF_EVENTS
from paracord_lab.plots import Bars, Distribution
from paracord_lab.scenario import Configuration, Scenario, column
from paracord_lab.verdicts import Check, versus

QUIET = Configuration("quiet", daemon=True)
# The other guest computes, which any guest may do.
SPINNING = Configuration("spinning", daemon=True)
# The other guest exits as fast as it can, which any guest may do, and requests nothing.
EXITING = Configuration("exiting", daemon=True)
QUOTA = Configuration("quota", daemon=True)
NO_QUOTA = Configuration("no-quota", daemon=True)

# On an emulated host, a batch takes 10 to 20 ms. With the default quota, the guest would rarely get
# one.
QUOTA_MS_PER_S = 200
LIMITED = ("--pmu-budget-ms", str(QUOTA_MS_PER_S))
UNLIMITED = ("--pmu-budget-ms", "50000", "--pmu-openings", "1000000")
COMMAND, EXITS = "pc_rogue pmu --seconds 3600", "pc_rogue exits --seconds 3600"
INTERVAL_US = 1000
IDLE_S, BUSY_S = 2.5, 6.0

# The rest is for the quota of the first tenth of a second, and for the overrun that is noticed only
# after the last batch.
CALLS_VS_QUOTA_MAX = 1.1
# Otherwise, the attack is not one, and the quota limits nothing.
ATTACK_VS_QUOTA_MIN = 2
# Like the limit of the host's own latency beside a boosted guest (wakeups.py). On an emulated host,
# exits alone increase another guest's latency by up to a quarter.
LATENCY_VS_EXITS_MAX = 1.3


def calls_vs_quota(configuration):
    return lambda one: one[configuration]["calls_per_second_ms"] / QUOTA_MS_PER_S


class RoguePmu(Scenario):
    name = "rogue-pmu"
    summary = "a guest's root reprograms counters as fast as it can: host time in calls, another's latency"
    rounds = 5
    needs = (PERF_EVENTS,)
    configurations = (QUIET, SPINNING, EXITING, QUOTA, NO_QUOTA)
    without = ("pmu-quota",)
    checks = (
        Check("rogue_pmu_calls_vs_quota", calls_vs_quota("quota"), "<=", CALLS_VS_QUOTA_MAX),
        Check("rogue_pmu_attack_vs_quota", calls_vs_quota("no-quota"), ">=", ATTACK_VS_QUOTA_MIN),
        Check("rogue_pmu_boosted_avg_vs_exits", versus("guest_busy_avg_us", "quota", "exiting"), "<=",
              LATENCY_VS_EXITS_MAX,
              beside={f"vs {name}": versus("guest_busy_avg_us", "quota", name)
                      for name in ("quiet", "spinning", "no-quota")}),
    )  # fmt: skip
    columns = (
        column("host ms in calls per s", "calls_per_second_ms"),
        column("perf events opened per s", "openings_per_s_count"),
        column("counters refused per s", "refusals_per_s_count"),
        column("other guest, busy host: avg µs", "guest_busy_avg_us"),
        column("p99 µs", "guest_busy_p99_us"),
        column("idle host: avg µs", "guest_idle_avg_us"),
    )

    def setup(self, session):
        self.guest = session.guest("other", module=True, vcpus=1)
        quota = UNLIMITED if session.options.without == "pmu-quota" else LIMITED
        self.rogues = {
            name: session.guest(name, vcpus=1, vmm="paracord", extra_args=("--pmu", *arguments))
            for name, arguments in (("quota", quota), ("no-quota", UNLIMITED))
        }
        self.load = session.load()

    def measure(self, session, configuration):
        if configuration == QUIET:
            return self._latencies(session)
        if configuration in (SPINNING, EXITING):
            command = "pc_hog" if configuration == SPINNING else EXITS
            with host_share.running(self.rogues["quota"], command, "other"):
                return self._latencies(session)
        rogue = self.rogues[configuration.name]
        with host_share.running(rogue, COMMAND, "rogue"):
            before_s, before = vmm_state.ask(session.host, rogue)
            raw = self._latencies(session)
            after_s, after = vmm_state.ask(session.host, rogue)
        raw["seconds"] = after_s - before_s
        raw["calls_us"] = after.calls_us - before.calls_us
        raw["openings"] = after.openings - before.openings
        raw["refusals"] = after.refusals - before.refusals
        return raw

    def _latencies(self, session):
        raw = {"idle": session.cyclictest(self.guest, "idle", INTERVAL_US, session.seconds(IDLE_S))}
        self.load.busy()
        try:
            raw["busy"] = session.cyclictest(self.guest, "busy", INTERVAL_US, session.seconds(BUSY_S))
        finally:
            self.load.idle()
        return raw

    def metrics(self, configuration, raw):
        measured = {
            **cyclictest.metrics("guest_idle", raw["idle"]),
            **cyclictest.metrics("guest_busy", raw["busy"]),
        }
        if "seconds" in raw:
            measured["calls_per_second_ms"] = raw["calls_us"] / 1e3 / raw["seconds"]
            measured["openings_per_s_count"] = raw["openings"] / raw["seconds"]
            measured["refusals_per_s_count"] = raw["refusals"] / raw["seconds"]
        return measured

    def plots(self):
        return [
            Bars("Host time in perf calls for the rogue", {"calls_per_second_ms": "ms per s"}, "ms"),
            Distribution("Wakeup latency in another guest, busy host", lambda raw: raw.get("busy")),
            Bars(
                "Wakeup latency in another guest, busy host (median of rounds, spread)",
                {f"guest_busy_{s}_us": s for s in ("avg", "p99", "max")},
                "us",
                logarithmic=True,
            ),
        ]


SCENARIO = RoguePmu()
