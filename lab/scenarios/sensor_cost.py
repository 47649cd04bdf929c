# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
The cost of the sensor's BPF programs on the host, from the kernel's own BPF statistics: ns and
instructions per run of each program, and their share of the host's CPU time, while a guest does
real-time work.
"""

from paracord_lab import bpf_stats
from paracord_lab.host_share import running
from paracord_lab.needs import BPFTOOL
from paracord_lab.plots import Bars
from paracord_lab.scenario import BOOST, Configuration, Scenario, column
from paracord_lab.session import time_limit
from paracord_lab.verdicts import Check

SECONDS = 5
PREFIX = "sensor_"
# An emulator slows the programs about as much as everything else, so their share is the same on a
# real host.
CPU_SHARE_MAX = 0.05
OBSERVE = Configuration("observe", daemon=True, module=True, settings={"mode": "observe"})
EXIT, SWITCH = "sensor_exit", "sensor_switch"


class SensorCost(Scenario):
    name = "sensor-cost"
    summary = "ns and instructions of the sensor's BPF programs per run, and their share of CPU time"
    needs = (BPFTOOL,)
    configurations = (OBSERVE, BOOST)
    checks = (
        Check(
            "sensor_cpu_share", lambda one: one["boost-rt"]["sensor_cpu_share"], "<=", CPU_SHARE_MAX, "share"
        ),
    )
    columns = (
        column("VM exit: ns", f"{EXIT}_run_ns"),
        column("per s", f"{EXIT}_runs_per_s_count"),
        column("instructions", f"{EXIT}_instructions_count"),
        column("context switch: ns", f"{SWITCH}_run_ns"),
        column("per s", f"{SWITCH}_runs_per_s_count"),
        column("instructions", f"{SWITCH}_instructions_count"),
        column("share of CPU time", "sensor_cpu_share"),
    )

    def setup(self, session):
        self.guest = session.guest("cost", module=True, vcpus=1)
        self.load = session.load()

    def measure(self, session, configuration):
        host, seconds = session.host, session.seconds(SECONDS)
        self.load.busy()
        try:
            with (
                running(self.guest, "cyclictest -q -m -i 1000 --policy=rr -p 50", "cyclictest"),
                bpf_stats.measuring(host, PREFIX) as raw,
            ):
                host.run(f"sleep {seconds}", timeout=time_limit(seconds))
        finally:
            self.load.idle()
        return raw

    def metrics(self, configuration, raw):
        measured = bpf_stats.metrics(raw)
        return {**measured, "sensor_cpu_share": measured["all_cpu_share"]}

    def plots(self):
        return [
            Bars(
                "Time per run (emulated host)",
                {f"{EXIT}_run_ns": "VM exit", f"{SWITCH}_run_ns": "context switch"},
                "ns",
            )
        ]


SCENARIO = SensorCost()
