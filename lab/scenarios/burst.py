# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
The workload of the kernel patch "cpufreq: governor: Be friendly towards latency-sensitive bursty
workloads": long bursts with sleeps between them, for 10 to 60 % of the time. There is also a mostly
idle pattern, with short works after a burst. The scenario checks whether a burst starts at the
frequency at which the last one ended, and whether small tasks after it keep the frequency high.
"""

from dataclasses import asdict
from itertools import pairwise

from paracord_lab import board_load, board_trace
from paracord_lab.board_load import Task
from paracord_lab.boards import JunoR2, set_governor
from paracord_lab.plots import Bars
from paracord_lab.scenario import STOCK, Configuration, Scenario, column
from paracord_lab.verdicts import Check, versus

CPU = JunoR2.big[1]
DOMAIN = str(JunoR2.big[0])
ONDEMAND = Configuration("stock-ondemand")
CARRY = Configuration("carry", daemon=True, settings={"actuator": "ext"})
NO_CARRY = Configuration("no-carry", daemon=True, settings={"actuator": "ext", "perf.carry": False})
BURST_US = 60_000
SHARES = (10, 20, 40, 60)
BLIPS, PAUSE_US = 12, 60_000
SECONDS = 4
# A burst with the small works after it takes 0.9 s.
MOSTLY_SECONDS = 8
# The length of a busy window of that patch's governor.
WINDOW_MS = 10.0
# A request follows the utilisation, so it always changes a little.
TOLERANCE = 0.9
RETURN_WINDOWS_MAX = 2
MEAN_VS_NO_CARRY_MAX = 1.02
# Another task may use the CPU for this long during a burst. Its part of the request is then less
# than a tenth.
SHARED_MS = 2.0
# Shorter runs are small works, not bursts.
LONG_MS = 25.0


def tasks():
    """The tasks by name. Each is a single task that is pinned to a large CPU."""
    pinned = {"cpus": str(CPU)}
    found = {}
    for share in SHARES:
        sleep_us = BURST_US * (100 - share) // share
        found[f"u{share}"] = Task(f"--work-us {BURST_US} --sleep-us {sleep_us}", **pinned)
    blips = f"--work-us {BURST_US} --sleep-us {PAUSE_US} --blips {BLIPS}"
    return {**found, "mostly": Task(blips, **pinned)}


def vs_no_carry(metric):
    return versus(metric, "carry", "no-carry")


class Burst(Scenario):
    name = "burst"
    summary = "bursts after sleeps start at the frequency that they need, and small works do not keep it"
    board = JunoR2.name
    arch = JunoR2.arch
    cpus = JunoR2.cpus
    configurations = (STOCK, ONDEMAND, CARRY, NO_CARRY)
    without = ("carry",)
    checks = (
        Check("needless_drops_after_idle", lambda one: one["carry"]["drops_count"], "<=", 0, "count",
              beside={"no-carry": lambda one: one["no-carry"]["drops_count"]}, every=True),
        Check("needless_drops_without_carry", lambda one: one["no-carry"]["drops_count"], ">=", 1, "count"),
        Check("mostly_idle_return_windows", lambda one: one["carry"]["return_count"], "<=",
              RETURN_WINDOWS_MAX, "count"),
        Check("mostly_idle_mean_vs_no_carry", vs_no_carry("mostly_mhz"), "<=", MEAN_VS_NO_CARRY_MAX,
              beside={"while busy": vs_no_carry("mostly_busy_mhz")}),
    )  # fmt: skip
    columns = (
        column("requests dropped", "drops_count"),
        column("frequency dropped", "frequency_drops_count"),
        column("bursts", "bursts_count"),
        *(column(f"{share} %: bursts at MHz", f"u{share}_busy_mhz") for share in SHARES),
        column("mostly idle: busy at MHz", "mostly_busy_mhz"),
        column("all of the time", "mostly_mhz"),
    )

    def setup(self, session):
        session.host.run("modprobe cpufreq_ondemand")

    def measure(self, session, configuration):
        host = session.host
        governor = "ondemand" if configuration == ONDEMAND else "schedutil"
        set_governor(host, governor)
        traces = {}
        try:
            for name, task in tasks().items():
                with (
                    board_load.running(host, (task,), configuration.is_ext),
                    board_trace.recording(host) as trace,
                ):
                    host.run(f"sleep {session.seconds(MOSTLY_SECONDS if name == 'mostly' else SECONDS)}")
                traces[name] = asdict(trace)
        finally:
            set_governor(host)
        return {"traces": traces}

    def metrics(self, configuration, raw):
        drops = frequency_drops = bursts = 0
        found = {}
        for name, trace in raw["traces"].items():
            runs = [run for one in trace["runs"].values() for run in one]
            frequency, request = trace["frequencies"][DOMAIN], trace["requests"].get(str(CPU), [])
            found[f"{name}_busy_mhz"] = _busy_mean(frequency, runs)
            found[f"{name}_mhz"] = board_trace.mean(frequency, 0, trace["duration_ms"])
            if name == "mostly":
                found["return_count"] = _returns(request, runs)
                continue
            # The first burst has no predecessor, and the second one may be the first whose request
            # was carried over.
            for before, after in list(pairwise(runs))[1:]:
                if _shared(trace["pauses"], before):
                    continue
                bursts += 1
                drops += _dropped(request, before, after)
                frequency_drops += _dropped(frequency, before, after)
        return {
            **found,
            "drops_count": float(drops),
            "frequency_drops_count": float(frequency_drops),
            "bursts_count": float(bursts),
        }

    def plots(self):
        shown = {f"u{share}_busy_mhz": f"{share} %" for share in SHARES}
        return [
            Bars("Frequency during bursts, by the share of time that they take", shown, "mhz"),
            Bars(
                "Bursts that begin with less than the one before ended with",
                {
                    "drops_count": "requests",
                    "frequency_drops_count": "frequency",
                    "bursts_count": "all bursts",
                },
                "count",
            ),
        ]


def _shared(pauses, run):
    """
    Whether another task ran on the CPU during the burst. If so, the request at the end of the burst
    was for both tasks.
    """
    inside = [(begin, end) for one in pauses.values() for begin, end in one if run[0] <= begin < run[1]]
    return sum(end - begin for begin, end in inside) > SHARED_MS


def _dropped(steps, before, after):
    """Whether the value falls below that at the end of the previous run, within a window after a sleep."""
    level = board_trace.at(steps, before[1] - 1)
    least = board_trace.least(steps, after[0] + 1, min(after[0] + WINDOW_MS, after[1]))
    return level is not None and least is not None and least < TOLERANCE * level


def _busy_mean(frequency, runs):
    busy = sum(end - begin for begin, end in runs)
    return (
        sum(board_trace.mean(frequency, begin, end) * (end - begin) for begin, end in runs if end > begin)
        / busy
    )


def _returns(request, runs):
    """
    The largest number of small works in a row after a burst that still request half of the burst's
    request.
    """
    most = high = 0
    level, counting = 0.0, False
    for begin, end in runs:
        if end - begin >= LONG_MS:
            level, counting, high = board_trace.at(request, end - 1) or 0.0, True, 0
        elif counting:
            counting = (board_trace.at(request, end) or 0.0) >= level / 2
            high += counting
            most = max(most, high)
    return float(most)


SCENARIO = Burst()
