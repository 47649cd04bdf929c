# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
The scenario of `make demo`: a real-time task in a guest on a busy host, without help, boosted, and
with today's solution. It also shows how much a busy or malicious guest can take from the host in
each case.
"""

from collections.abc import Mapping

from paracord_lab import host_share, wakeups
from paracord_lab.scenario import (
    BOOST,
    BOOST_EXT,
    BOOST_UNMODIFIED,
    HOST_NATIVE,
    STATIC_RT,
    VANILLA,
    column,
)

INTERVAL_US = 2000
SHARE_S = 2.5
BUSY_GUEST, ROGUE = "host_beside_busy_guest_share", "host_beside_rogue_share"


class Demo(wakeups.WakeupScenario):
    name = "demo"
    summary = "what `make demo` shows: the problem, boosting, today's solution, and a malicious guest"
    configurations = (VANILLA, BOOST_UNMODIFIED, BOOST, BOOST_EXT, STATIC_RT, HOST_NATIVE)
    without = ("boost", "budget")
    traced = ("vanilla", "boost-rt", "boost-ext")
    rounds = 3
    # An emulated wakeup keeps the vCPU busy for half a millisecond, 20 times as long as a real one.
    # With an interval of 1 ms (busy-host), the guest itself would be a load of the host.
    intervals_us = (INTERVAL_US,)
    # The measurements are long enough to decide the verdicts on a noisy machine. The scatter
    # depends on the total time, however it is divided into rounds.
    own_lengths_s: Mapping[str, tuple[float, float]] = {
        VANILLA.name: (4.0, 9.0),
        BOOST_UNMODIFIED.name: (3.0, 4.0),
        BOOST.name: (4.0, 9.0),
        BOOST_EXT.name: (3.0, 6.0),
        STATIC_RT.name: (3.0, 9.0),
        HOST_NATIVE.name: (2.0, 6.0),
    }
    checks = (
        # For the reader, two other values are shown: vanilla, whose guest starves and costs the
        # host nothing, and a plain task.
        *wakeups.checks(INTERVAL_US, hosts_beside=(VANILLA.name, HOST_NATIVE.name)),
        wakeups.ext_excess(INTERVAL_US),
        host_share.check("busy_guest_host_share", BUSY_GUEST),
        host_share.check("busy_guest_ext_host_share", BUSY_GUEST, BOOST_EXT.name),
        # Under static-rt, a malicious guest needs no hints, because spinning is enough.
        host_share.check("rogue_hold_host_share", ROGUE, static_rt_metric=BUSY_GUEST),
        host_share.check("rogue_hold_ext_host_share", ROGUE, BOOST_EXT.name, static_rt_metric=BUSY_GUEST),
    )
    columns = (
        *wakeups.columns(INTERVAL_US),
        column("host share, busy guest", BUSY_GUEST),
        column("host share, rogue guest", ROGUE),
    )

    def measure(self, session, configuration):
        raw = super().measure(session, configuration)
        self.load.busy()
        try:
            raw |= self._shares(session, configuration)
        finally:
            self.load.idle()
        return raw

    def _shares(self, session, configuration):
        seconds = session.seconds(SHARE_S)
        shares = {}
        if configuration == VANILLA:
            with host_share.running(self.guest, "pc_hog", "hog"):
                shares[host_share.REFERENCE] = session.host_share(self.load, seconds)
        if configuration in (BOOST, BOOST_EXT, STATIC_RT):
            with host_share.running(self.guest, "pc_hog", "hog"), self.realtime_task():
                shares[BUSY_GUEST] = session.host_share(self.load, seconds)
        if configuration in (BOOST, BOOST_EXT):
            # pc_rogue itself declares a driver to the host, so paracord's driver would only
            # interfere.
            with host_share.running(self.pair.unmodified, "pc_rogue hold --seconds 3600", "rogue"):
                shares[ROGUE] = session.host_share(self.load, seconds)
        return {"shares": shares}

    def metrics(self, configuration, raw):
        return {**super().metrics(configuration, raw), **raw["shares"]}

    def plots(self):
        return [
            *super().plots(),
            host_share.bars(
                {
                    host_share.REFERENCE: "ordinary\nspinning vCPU",
                    BUSY_GUEST: "busy guest with\na real-time task",
                    ROGUE: "rogue guest holds\nevery hint",
                }
            ),
        ]


SCENARIO = Demo()
