# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
A real-time task in a guest on a busy host, at two intervals: without help, boosted, and with
today's solution.
"""

from paracord_lab import wakeups
from paracord_lab.scenario import BOOST, BOOST_EXT, BOOST_UNMODIFIED, HOST_NATIVE, STATIC_RT, VANILLA


class BusyHost(wakeups.WakeupScenario):
    name = "busy-host"
    summary = "cyclictest (RR, 500 and 1000 µs) in a guest, host idle and busy; also as a plain host task"
    configurations = (VANILLA, BOOST_UNMODIFIED, BOOST, BOOST_EXT, STATIC_RT, HOST_NATIVE)
    intervals_us = (500, 1000)
    # The speed of the machine changes within a minute, so there are many short rounds. The results
    # of boost-ext and boost-rt differ by only a few per cent. So these two are measured one
    # directly after the other, and for longer.
    rounds = 9
    lengths_s = (1.5, 3.0)
    own_lengths_s = dict.fromkeys(("boost-rt", "boost-ext"), (1.5, 9.0))
    without = ("boost", "device")
    traced = ("vanilla", "boost-rt", "boost-ext")
    checks = (
        *wakeups.checks(500, "_500us"),
        *wakeups.ext_checks(500, "_500us"),
        *wakeups.checks(1000, "_1000us"),
        *wakeups.ext_checks(1000, "_1000us"),
    )
    columns = (*wakeups.columns(500, "500 µs: "), *wakeups.columns(1000, "1000 µs: "))


SCENARIO = BusyHost()
