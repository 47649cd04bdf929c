# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
What the sensor's BPF programs cost on the host, by the kernel's own BPF statistics: ns and instructions per
run of each program, and their share of the host's CPU time, with a guest that does real-time work.
"""

import json

from paracord_lab.host_share import running
from paracord_lab.plots import Bars
from paracord_lab.scenario import BOOST, Configuration, Scenario, column
from paracord_lab.session import time_limit
from paracord_lab.verdicts import Check

SECONDS = 5
PREFIX = "sensor_"
# An emulator runs the programs about as much slower as everything else: the share is what carries over.
CPU_SHARE_MAX = 0.05
INSTRUCTION_BYTES = 8
OBSERVE = Configuration("observe", daemon=True, module=True, settings={"mode": "observe"})
EXIT, SWITCH = "sensor_exit", "sensor_switch"


class SensorCost(Scenario):
    name = "sensor-cost"
    summary = "ns and instructions of the sensor's BPF programs per run, and their share of CPU time"
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

    @staticmethod
    def _programs(host):
        listed = json.loads(host.run("bpftool prog show -j").out)
        return {p["name"]: p for p in listed if p.get("name", "").startswith(PREFIX)}

    def measure(self, session, configuration):
        host, seconds = session.host, session.seconds(SECONDS)
        self.load.busy()
        try:
            with running(self.guest, "cyclictest -q -m -i 1000 --policy=rr -p 50", "cyclictest"):
                host.run("echo 1 > /proc/sys/kernel/bpf_stats_enabled")
                before = self._programs(host)
                host.run(f"sleep {seconds}", timeout=time_limit(seconds))
                after = self._programs(host)
                host.run("echo 0 > /proc/sys/kernel/bpf_stats_enabled")
        finally:
            self.load.idle()
        return {"seconds": seconds, "cpus": host.cpus, "before": before, "after": after}

    def metrics(self, configuration, raw):
        measured, total_ns = {}, 0
        for name, after in raw["after"].items():
            before = raw["before"].get(name, {})
            runs = after.get("run_cnt", 0) - before.get("run_cnt", 0)
            ns = after.get("run_time_ns", 0) - before.get("run_time_ns", 0)
            total_ns += ns
            measured[f"{name}_run_ns"] = ns / max(1, runs)
            measured[f"{name}_runs_per_s_count"] = runs / raw["seconds"]
            measured[f"{name}_instructions_count"] = after["bytes_xlated"] / INSTRUCTION_BYTES
        measured["sensor_cpu_share"] = total_ns / (raw["seconds"] * 1e9 * raw["cpus"])
        return measured

    def plots(self):
        return [
            Bars(
                "Time per run (emulated host)",
                {f"{EXIT}_run_ns": "VM exit", f"{SWITCH}_run_ns": "context switch"},
                "ns",
            )
        ]


SCENARIO = SensorCost()
