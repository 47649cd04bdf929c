# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
Like busy-host, but a normal task also spins in the guest. Static real-time gives the host to this
task. Boosting must not do so.
"""

from paracord_lab import host_share, wakeups
from paracord_lab.scenario import BOOST, BOOST_UNMODIFIED, STATIC_RT, VANILLA, column

SHARE_S = 4.0


class BusyGuest(wakeups.WakeupScenario):
    name = "busy-guest"
    summary = (
        "cyclictest (RR, 1000 µs) beside a spinning normal task in the guest; the host's share of its CPUs"
    )
    configurations = (VANILLA, BOOST_UNMODIFIED, BOOST, STATIC_RT)
    without = ("boost", "budget")
    traced = ("vanilla", "boost-rt", "static-rt")
    checks = (
        host_share.check("busy_guest_host_share", "host_beside_busy_guest_share"),
        *wakeups.checks(1000),
    )
    columns = (
        *wakeups.columns(1000),
        column("host's share of CPU time", "host_beside_busy_guest_share"),
    )

    def measure(self, session, configuration):
        with host_share.running(self.guest, "pc_hog", "hog"):
            raw = super().measure(session, configuration)
            self.load.busy()
            try:
                raw["spinning"] = session.host_share(self.load, session.seconds(SHARE_S))
                with self.realtime_task():
                    raw["busy_guest"] = session.host_share(self.load, session.seconds(SHARE_S))
            finally:
                self.load.idle()
        return raw

    def trace(self, session, configuration):
        with host_share.running(self.guest, "pc_hog", "hog"):
            super().trace(session, configuration)

    def metrics(self, configuration, raw):
        return {
            **super().metrics(configuration, raw),
            host_share.REFERENCE: raw["spinning"],
            "host_beside_busy_guest_share": raw["busy_guest"],
        }

    def plots(self):
        return [*super().plots(), host_share.bars({"host_beside_busy_guest_share": "busy guest"})]


SCENARIO = BusyGuest()
