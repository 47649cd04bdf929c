# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
A vCPU that holds a spinlock loses its host CPU, and a real-time task on another vCPU spins on this
lock. The scenario measures this with the reason CRITICAL on and off.
"""

import json

from paracord_lab.plots import Bars
from paracord_lab.scenario import VANILLA, Configuration, Scenario, column
from paracord_lab.session import time_limit
from paracord_lab.verdicts import Check, versus

SECONDS = 8
HOLD_US = 1000
PERIOD_US = 4000
RESULT = "/sys/kernel/debug/pc_locktest/result"
MODULE = "/paracord/pc_locktest.ko"
# If a wait is longer than this many critical sections, the holder was not running.
LONG_WAIT_NS = 4 * HOLD_US * 1000
# At least half of the long waits must disappear. Grants cannot prevent the others, because of
# budgets and the emulator.
LONG_WAITS_VS_OFF_MAX = 0.5

# The holder of the lock is in its critical section for a quarter of the time, which is more than
# the default budget allows. The minimum time between boosts is also shorter here, because most
# boosts would be held back with the emulated host's long minimum time.
HOLDER = {"boost.critical.budget_pct": 60, "boost.actuation_min_us": 200}
CRITICAL_ON = Configuration("critical-on", daemon=True, module=True, settings=HOLDER)
CRITICAL_OFF = Configuration(
    "critical-off", daemon=True, module=True, settings={**HOLDER, "boost.critical.enabled": False}
)


def metric(configuration, name):
    return lambda one: one[configuration][name]


def long_waits_vs_off(configuration):
    return versus("lock_long_wait_share", configuration, "critical-off")


class Inversion(Scenario):
    name = "inversion"
    summary = (
        "a spinlock's holder loses its host CPU while another vCPU waits for the lock: CRITICAL on and off"
    )
    configurations = (VANILLA, CRITICAL_OFF, CRITICAL_ON)
    without = ("critical",)
    traced = ("critical-off", "critical-on")
    checks = (
        Check("inversion_long_waits_vs_critical_off", long_waits_vs_off("critical-on"), "<=",
              LONG_WAITS_VS_OFF_MAX, beside={"vanilla": long_waits_vs_off("vanilla")}),
    )  # fmt: skip
    columns = (
        column("wait for the lock: avg µs", "lock_wait_avg_us"),
        column("max µs", "lock_wait_max_us"),
        column("share of waits > 4 critical sections", "lock_long_wait_share"),
        column("waits", "lock_waits_count"),
    )

    def setup(self, session):
        self.guest = session.guest("lock", module=True, vcpus=2)
        self.load = session.load()
        self.guest.run(f"insmod {MODULE} hold_us={HOLD_US} period_us={PERIOD_US}")

    def measure(self, session, configuration):
        self.load.busy()
        try:
            seconds = session.seconds(SECONDS)
            self.guest.run(f"echo 0 > {RESULT}")
            session.host.run(f"sleep {seconds}", timeout=time_limit(seconds))
            return json.loads(self.guest.run(f"cat {RESULT}").out)
        finally:
            self.load.idle()

    def trace(self, session, configuration):
        self.load.busy()
        try:
            session.host.run("sleep 1")
        finally:
            self.load.idle()

    def metrics(self, configuration, raw):
        waits = max(1, raw["waits"])
        long = sum(count for n, count in enumerate(raw["log2_ns"]) if 2**n >= LONG_WAIT_NS)
        return {
            "lock_wait_avg_us": raw["sum_ns"] / waits / 1000,
            "lock_wait_max_us": raw["max_ns"] / 1000,
            "lock_long_wait_share": long / waits,
            "lock_waits_count": raw["waits"],
        }

    def plots(self):
        return [
            Bars(
                "Wait for a spinlock whose holder's vCPU may lose its host CPU",
                {"lock_wait_avg_us": "avg", "lock_wait_max_us": "max"},
                "us",
                logarithmic=True,
            )
        ]


SCENARIO = Inversion()
