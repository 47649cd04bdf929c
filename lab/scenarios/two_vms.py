# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""Two guests with two vCPUs each share two host CPUs. One is latency-sensitive, and the other computes."""

from paracord_lab import cyclictest, host_share, loads, stats
from paracord_lab.errors import CommandError
from paracord_lab.plots import Bars, Distribution
from paracord_lab.scenario import BOOST, STATIC_RT, VANILLA, Configuration, Scenario, column
from paracord_lab.verdicts import Check, versus
from paracord_lab.wakeups import EXCESS_MAX

INTERVAL_US = 1000
IDLE_S, BUSY_S = 4.0, 9.0


def excess(configuration):
    def value(one):
        vanilla, other = one["vanilla"], one[configuration]
        return stats.excess_ratio(
            other["guest_busy_avg_us"],
            other["guest_idle_avg_us"],
            vanilla["guest_busy_avg_us"],
            vanilla["guest_idle_avg_us"],
        )

    return value


def neighbour(configuration):
    """
    How much the computing guest keeps, relative to what it has beside static real-time vCPUs. Those
    also take the time that the latency-sensitive guest needs, but decide nothing.
    """
    return versus("neighbour_cpu_share", configuration, "static-rt")


class TwoVms(Scenario):
    name = "two-vms"
    summary = "two 2-vCPU guests on 2 host CPUs: a latency-sensitive one beside one that computes"
    configurations: tuple[Configuration, ...] = (VANILLA, BOOST, STATIC_RT)
    without = ("boost",)
    traced = ("vanilla", "boost-rt")
    checks = (
        Check("two_vms_excess_vs_vanilla", excess("boost-rt"), "<=", EXCESS_MAX,
              beside={"static-rt": excess("static-rt")}),
        Check("two_vms_neighbour_share", neighbour("boost-rt"), ">=", host_share.HOST_SHARE_MIN,
              beside={"vanilla": neighbour("vanilla")}),
    )  # fmt: skip
    columns = (
        column("guest avg µs", "guest_busy_avg_us"),
        column("p99 µs", "guest_busy_p99_us"),
        column("max µs", "guest_busy_max_us"),
        column("neighbour idle: avg µs", "guest_idle_avg_us"),
        column("neighbour's CPU share", "neighbour_cpu_share"),
    )

    def setup(self, session):
        self.sensitive = session.guest("sensitive", module=True, vcpus=2)
        # The computing guest is never made real-time, because it would then take the whole host.
        self.computing = session.guest("computing", static_rt=False, vcpus=2)

    def _hogs(self):
        return host_share.running(self.computing, "pc_hog & pc_hog & wait", "hogs")

    def _neighbour(self, session):
        try:
            return loads.read(session.host, self.computing.vcpu_tids)
        except CommandError as error:
            unreadable = error
        # If a guest has died, this call raises the error, and the round is repeated. It is outside
        # of `except`, because the runner uses the error that came first.
        self.computing.run("true")
        raise unreadable

    def measure(self, session, configuration):
        raw = {
            "idle": session.cyclictest(self.sensitive, "idle", INTERVAL_US, session.seconds(IDLE_S)),
        }
        with self._hogs():
            before = self._neighbour(session)
            raw["busy"] = session.cyclictest(self.sensitive, "busy", INTERVAL_US, session.seconds(BUSY_S))
            raw["neighbour"] = loads.share(before, self._neighbour(session), session.host.cpus)
        return raw

    def trace(self, session, configuration):
        with self._hogs():
            session.cyclictest(self.sensitive, "trace", INTERVAL_US, seconds=1.0)

    def metrics(self, configuration, raw):
        return {
            **cyclictest.metrics("guest_idle", raw["idle"]),
            **cyclictest.metrics("guest_busy", raw["busy"]),
            "neighbour_cpu_share": raw["neighbour"],
        }

    def plots(self):
        return [
            Distribution("Wakeup latency beside a computing guest", lambda raw: raw.get("busy")),
            Bars(
                "Wakeup latency beside a computing guest (median of rounds, spread)",
                {f"guest_busy_{s}_us": s for s in ("avg", "p99", "max")},
                "us",
                logarithmic=True,
            ),
            Bars(
                "CPU time that the computing guest gets", {"neighbour_cpu_share": "computing guest"}, "share"
            ),
        ]


SCENARIO = TwoVms()
