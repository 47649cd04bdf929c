# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
The vCPUs of a guest wait for each other, on a busy host that has half as many CPUs for them. If a
vCPU needs an answer from another vCPU that the host has preempted, it asks the host to run the
preempted vCPU (KVM_HC_SCHED_YIELD). The kernel's own scheduler follows this request, and paracord's
scheduler must do so, too. The plain scheduler of bpf/tests ignores the request.
"""

import json

from paracord_lab import host_share
from paracord_lab.plots import Bars
from paracord_lab.scenario import EXT, PLAIN, STOCK, Scenario, column
from paracord_lab.session import time_limit
from paracord_lab.verdicts import Check, versus

SECONDS = 5.0
VCPUS = 4
# The guest's timer interrupts the first vCPU only. On a slow emulated host, the handler of this interrupt
# takes as long as a turn of a vCPU, and then barriers would mostly wait for it.
TICKLESS = f"1-{VCPUS - 1}"
STATISTICS = ("directed_yield_attempted", "directed_yield_successful")
SUCCESS_VS_STOCK_MIN = 0.8
BARRIERS_VS_PLAIN_MIN = 1.3


class DirectedYield(Scenario):
    name = "directed-yield"
    summary = f"barriers among {VCPUS} vCPUs on two busy CPUs: yields to the vCPU for which another one waits"
    configurations = (STOCK, EXT, PLAIN)
    checks = (
        Check(
            "directed_yield_vs_stock",
            versus("yield_success_share", "ext", "stock"),
            ">=",
            SUCCESS_VS_STOCK_MIN,
            beside={"plain": versus("yield_success_share", "plain", "stock")},
        ),
        Check(
            "barriers_vs_plain",
            versus("barriers_per_s_count", "ext", "plain"),
            ">=",
            BARRIERS_VS_PLAIN_MIN,
            beside={"stock": versus("barriers_per_s_count", "stock", "plain")},
        ),
    )
    columns = (
        column("barriers/s", "barriers_per_s_count"),
        column("p99 µs", "barrier_p99_us"),
        column("yields asked for/s", "yields_per_s_count"),
        column("of them followed", "yield_success_share"),
        column("host's share of CPU time", "host_share"),
    )

    def setup(self, session):
        self.guest = session.guest("yields", vcpus=VCPUS, region=False, cmdline=f"nohz_full={TICKLESS}")
        self.guest.run(f"grep -qx {TICKLESS} /sys/devices/system/cpu/nohz_full")
        self.load = session.load()

    def measure(self, session, configuration):
        seconds = int(session.seconds(SECONDS))
        self.load.busy()
        try:
            before = self._statistics(session.host)
            out = self.guest.run(f"/paracord/pc_barrier --seconds {seconds}", timeout=time_limit(seconds)).out
            after = self._statistics(session.host)
            # The guest's program runs while the host works.
            with host_share.running(self.guest, "/paracord/pc_barrier --seconds 3600", "barriers"):
                share = session.host_share(self.load, session.seconds(SECONDS))
        finally:
            self.load.idle()
        return {
            "barriers": json.loads(out),
            "yields": {name: after[name] - before[name] for name in STATISTICS},
            "share": share,
        }

    def _statistics(self, host):
        """KVM's counters of this guest."""
        read = " ".join(f"/sys/kernel/debug/kvm/{self.guest.pid}-*/{name}" for name in STATISTICS)
        return dict(zip(STATISTICS, map(int, host.run(f"cat {read}").out.split()), strict=True))

    def metrics(self, configuration, raw):
        asked, followed = (raw["yields"][name] for name in STATISTICS)
        seconds = raw["barriers"]["elapsed_ns"] / 1e9
        return {
            "barriers_per_s_count": raw["barriers"]["barriers"] / seconds,
            "barrier_p99_us": raw["barriers"]["p99_us"],
            "yields_per_s_count": asked / seconds,
            "host_share": raw["share"],
            # Without requests, there is no result.
            **({"yield_success_share": followed / asked} if asked else {}),
        }

    def plots(self):
        return [
            Bars(
                "Barriers per second (emulated host; median of rounds, spread)",
                {"barriers_per_s_count": "barriers/s"},
                "count",
            )
        ]


SCENARIO = DirectedYield()
