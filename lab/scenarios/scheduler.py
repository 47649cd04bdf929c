# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
Tests paracord's scheduler as a scheduler: the cost of a host's ordinary work, compared with the
kernel's own scheduler and with a minimal sched_ext scheduler, and how it shares a CPU among tasks
and control groups.

The clock of the emulated host counts instructions here. Other work on the machine therefore does
not change the result, and a few short rounds show differences of some per cent. Effects of caches
are not measured either.
"""

import json
import re
import statistics

from paracord_lab import fairness, loads, stats
from paracord_lab.plots import Bars
from paracord_lab.scenario import EXT, PLAIN, STOCK, Scenario, column
from paracord_lab.verdicts import Check, versus

# Limits for ordinary work, for programs that do nothing but switch, and for wakeups beside loops.
VS_STOCK_MAX, SWITCH_VS_STOCK_MAX, WAKEUP_VS_STOCK_MAX = 1.05, 1.15, 1.1
REQUESTS_VS_STOCK_MIN = 0.95
FAIRNESS_ERROR_MAX = 0.05
# Each set runs on one CPU. The smallest share in each set is large enough to be measured.
NICE_SETS = ((-20, -19, -16), (0, 3, 5), (15, 17, 19))
GROUPS = {"light": 100, "heavy": 300}
MEMBERS, MEMBER_WEIGHTS = ("heavy", "light", "light"), (6, 1, 1)
SHARE_S = 1.0
# The part of a load's pieces that counts.
UNDISTURBED = 0.2
SOURCES = 24
COMPILE = f"make -s -j 4 -C /tmp/compile -f Makefile -B $(seq -f 'f%g.o' {SOURCES})"
STRESS_OPS_PER_S = re.compile(r"\bswitch\s+\d+(?:\s+[0-9.]+){3}\s+([0-9.]+)")
HACKBENCH_S = re.compile(r"Time:\s*([0-9.]+)")


def vs_stock(name, metric, relation, limit):
    """
    A check of paracord's scheduler. The minimal sched_ext scheduler (bpf/tests/plain.bpf.c) is
    shown beside it.
    """
    plain = {"plain": versus(metric, "plain", "stock")}
    return Check(f"{name}_vs_stock", versus(metric, "ext", "stock"), relation, limit, beside=plain)


def of_ext(metric):
    return lambda one: one["ext"][metric]


class SchedulerScenario(Scenario):
    name = "scheduler"
    summary = (
        "paracord's scheduler beside the stock one: pipe, hackbench, stress-ng, wakeups, compiling, fairness"
    )
    counted = True
    configurations = (STOCK, EXT, PLAIN)
    checks = (
        vs_stock("sched_pipe", "pipe_switch_ns", "<=", VS_STOCK_MAX),
        vs_stock("hackbench", "hackbench_s", "<=", VS_STOCK_MAX),
        vs_stock("schbench_p99", "wakeups_p99_us", "<=", VS_STOCK_MAX),
        vs_stock("requests", "wakeups_requests_per_s_count", ">=", REQUESTS_VS_STOCK_MIN),
        vs_stock("wakeup_p99", "beside_loops_p99_us", "<=", WAKEUP_VS_STOCK_MAX),
        vs_stock("stress_switch", "stress_switch_ns", "<=", SWITCH_VS_STOCK_MAX),
        vs_stock("compile", "compile_s", "<=", VS_STOCK_MAX),
        Check("nice_fairness_error", of_ext("nice_fairness_error_share"), "<=", FAIRNESS_ERROR_MAX,
              unit="share", beside={"stock": lambda one: one["stock"]["nice_fairness_error_share"]}),
        Check("cgroup_fairness_error", of_ext("cgroup_fairness_error_share"), "<=", FAIRNESS_ERROR_MAX,
              unit="share", beside={"stock": lambda one: one["stock"]["cgroup_fairness_error_share"]}),
    )  # fmt: skip
    columns = (
        column("pipe: ns per switch", "pipe_switch_ns"),
        column("hackbench s", "hackbench_s"),
        column("stress-ng: ns per switch", "stress_switch_ns"),
        column("wakeups: p50 µs", "wakeups_p50_us"),
        column("p99 µs", "wakeups_p99_us"),
        column("requests/s", "wakeups_requests_per_s_count"),
        column("beside loops: p99 µs", "beside_loops_p99_us"),
        column("compiling s", "compile_s"),
        column("nice error", "nice_fairness_error_share"),
        column("cgroup error", "cgroup_fairness_error_share"),
    )

    def setup(self, session):
        """Makes sources to compile, with so many functions that the compiler has work to do."""
        rule = "%%.o: %%.c\\n\\ttcc -c -o $@ $<\\n"
        function = "int f$n(int a, int b) { int i, s = $f; for (i = 0; i < a; i++) s += i * b ^ s >> $n % 7;"
        session.host.run(
            f"mkdir -p /tmp/compile && cd /tmp/compile && printf '{rule}' > Makefile && "
            f"for f in $(seq {SOURCES}); do for n in $(seq 400); do "
            f'echo "{function} return s; }}"; done > f$f.c; done',
            timeout=180,
        )

    def measure(self, session, configuration):
        host = session.host
        raw = {
            "pipe": host.run("pc_pipe --cpu 1 --rounds 40 --transfers 250", timeout=120).out,
            "hackbench": [host.run("hackbench -g 2 -f 5 -l 300", timeout=120).out for _ in range(6)],
            "stress": [
                host.run("stress-ng --temp-path /tmp --switch 2 --timeout 1s --metrics-brief 2>&1").out
                for _ in range(2)
            ],
            "wakeups": [
                host.run("pc_wakeups --seconds 1 --messengers 2 --workers 3 --loops 20000").out
                for _ in range(6)
            ],
            "compile": [self._timed(host, COMPILE) for _ in range(2)],
            "nice": [fairness.nice_shares(host, levels, session.seconds(SHARE_S)) for levels in NICE_SETS],
        }
        # The plain scheduler has no wakeup preemption, so little is left of a second beside loops.
        if configuration != PLAIN:
            with loads.busy(host):
                raw["beside_loops"] = [
                    host.run("pc_wakeups --seconds 1 --messengers 1 --workers 2 --loops 2000").out
                    for _ in range(6)
                ]
        with fairness.groups(host, GROUPS):
            raw["cgroup"] = fairness.group_shares(host, MEMBERS, session.seconds(SHARE_S))
        return raw

    @staticmethod
    def _timed(host, command):
        """The time in seconds, by the host's own clock."""
        timed = f"s=$(date +%s%N); {command} || exit; e=$(date +%s%N); echo $((e - s))"
        return int(host.run(timed, timeout=180).out.split()[-1]) / 1e9

    def metrics(self, configuration, raw):
        wakeups, beside = ([json.loads(out) for out in raw.get(of, ())] for of in ("wakeups", "beside_loops"))
        hackbench = [float(HACKBENCH_S.search(out)[1]) for out in raw["hackbench"]]
        nice = zip(raw["nice"], NICE_SETS, strict=True)
        beside_us = [run["p99_us"] for run in beside]
        return {
            **({"beside_loops_p99_us": stats.undisturbed(beside_us, UNDISTURBED)} if beside_us else {}),
            "pipe_switch_ns": stats.undisturbed(json.loads(raw["pipe"])["ns_per_switch"], UNDISTURBED),
            "hackbench_s": stats.undisturbed(hackbench, UNDISTURBED),
            "stress_switch_ns": min(1e9 / float(STRESS_OPS_PER_S.search(out)[1]) for out in raw["stress"]),
            "wakeups_p50_us": stats.undisturbed([run["p50_us"] for run in wakeups], UNDISTURBED),
            "wakeups_p99_us": stats.undisturbed([run["p99_us"] for run in wakeups], UNDISTURBED),
            "wakeups_requests_per_s_count": statistics.median(run["requests_per_s"] for run in wakeups),
            "compile_s": min(raw["compile"]),
            "nice_fairness_error_share": max(fairness.nice_error(s, levels) for s, levels in nice),
            "cgroup_fairness_error_share": fairness.error(raw["cgroup"], MEMBER_WEIGHTS),
        }

    def plots(self):
        return [
            Bars(
                "Wait of a woken thread (emulated host; median of rounds, spread)",
                {"wakeups_p50_us": "p50", "wakeups_p99_us": "p99"},
                "us",
            )
        ]


SCENARIO = SchedulerScenario()
