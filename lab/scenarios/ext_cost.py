# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
The cost of the operations of paracord's scheduler on the host, from the kernel's own BPF
statistics. The load consists of threads that send each other messages, because it has the most
context switches. On an emulated host, a nanosecond is half an instruction, because its clock counts
instructions.
"""

from paracord_lab import bpf_stats
from paracord_lab.needs import BPFTOOL
from paracord_lab.plots import Bars
from paracord_lab.scenario import EXT, Scenario, column
from paracord_lab.verdicts import Check

PREFIX = "ext_"
# The statistics themselves cost about as much again. An emulator slows the programs like everything
# else.
CPU_SHARE_MAX = 0.15
OPERATIONS = ("select_cpu", "enqueue", "dispatch", "running", "stopping", "quiescent", "tick")


class ExtCost(Scenario):
    name = "ext-cost"
    summary = "ns per run of each operation of paracord's scheduler, and their share of CPU time"
    counted = True
    needs = (BPFTOOL,)
    configurations = (EXT,)
    checks = (Check("ext_cpu_share", lambda one: one["ext"]["all_cpu_share"], "<=", CPU_SHARE_MAX, "share"),)
    columns = (
        *(column(f"{operation}: ns", f"ext_{operation}_run_ns") for operation in OPERATIONS),
        column("dispatch: per s", "ext_dispatch_runs_per_s_count"),
        column("all: share of CPU time", "all_cpu_share"),
    )

    def setup(self, session):
        pass

    def measure(self, session, configuration):
        host = session.host
        with bpf_stats.measuring(host, PREFIX) as raw:
            host.run("hackbench -g 2 -f 5 -l 2000", timeout=240)
        return raw

    def metrics(self, configuration, raw):
        return bpf_stats.metrics(raw)

    def plots(self):
        shown = {f"ext_{operation}_run_ns": operation for operation in OPERATIONS}
        return [Bars("Time per run (emulated host)", shown, "ns")]


SCENARIO = ExtCost()
