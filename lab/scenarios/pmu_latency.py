# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
How long perf in a guest waits for the host when it changes counters. Three modes are compared: the
host's events are opened anew each time, reused by the counter that used them last (as in the kernel
patches "reusing last created perf_event"), or reused by what they count. There is one guest for
each mode under paracord's VMM, with the two uses that those patches measure: ten events that sample
and take turns on four counters, and one event that counts several tasks, which take turns on a CPU.

The time is measured by the guest's clock, from before the exit to after it. The exit itself is part
of it in all modes. On an emulated host an exit is slow, so the ratios are smaller than on a real
one.
"""

from paracord_lab import vmm_state
from paracord_lab.needs import PERF_EVENTS
from paracord_lab.plots import Bars
from paracord_lab.scenario import Configuration, Scenario, column
from paracord_lab.verdicts import Check, versus

DRIVER = "/sys/bus/pci/drivers/paracord_guest/0*/paracord"
RECREATE, LAST, KEYED = Configuration("recreate"), Configuration("last"), Configuration("keyed")
# As many counters as a small hardware PMU has.
COUNTERS = 4
# For a host without hardware counters. A clock event that samples is the same in all modes.
CLOCKS = ("cpu-clock", "task-clock")
NAMES = ("page-faults", "context-switches", "cpu-migrations", "major-faults")
TEN = [f"paracord/{name}/" for name in CLOCKS] + [
    f"paracord/{name}/{modes}" for name in NAMES for modes in ("", "u")
]
# The period is long, so there are few samples of the clocks. With more samples, an emulated host
# would do nothing else.
MULTIPLEXED = f"pc_count {','.join(TEN)} --cpu 0 --ms 3000 --period 50000000"
SWITCHED = "pc_count paracord/task-clock/u --cpu 0 --tasks 4 --ms 800"
# System calls take a hundred times as long on an emulated host.
UNLIMITED = ("--pmu-budget-ms", "50000", "--pmu-openings", "100000")
# The patches report 104923 and 48393 ns on average, without and with reuse.
REUSE_SPEEDUP_MIN = 2.16
POOL_VS_LAST_MIN = 2


def speedup(one):
    """The speedup over both uses together."""
    recreate, keyed = (
        one[name]["multiplexed_ns"] + one[name]["switched_ns"] for name in ("recreate", "keyed")
    )
    return recreate / keyed


class PmuLatency(Scenario):
    name = "pmu-latency"
    summary = "how long a guest's perf waits for its host: events opened anew, last event reused, keyed pool"
    rounds = 5
    needs = (PERF_EVENTS,)
    configurations = (RECREATE, LAST, KEYED)
    checks = (
        Check("reuse_speedup", speedup, ">=", REUSE_SPEEDUP_MIN),
        Check("pool_vs_last_config_multiplexed", versus("multiplexed_ns", "last", "keyed"), ">=",
              POOL_VS_LAST_MIN, beside={"recreate": versus("multiplexed_ns", "recreate", "keyed")}),
        Check("cold_opens", lambda one: one["keyed"]["cold_openings_count"], "<=", 0, "count", every=True,
              beside={"recreate": lambda one: one["recreate"]["cold_openings_count"]}),
    )  # fmt: skip
    columns = (
        column("ns per change, ten events on four counters (emulated)", "multiplexed_ns"),
        column("ns per change, one event of four tasks", "switched_ns"),
        column("99 % of them below, ten events", "multiplexed_p99_ns"),
        column("99 % of them below, one event", "switched_p99_ns"),
        column("opened, ten events", "multiplexed_openings_count"),
        column("changes, ten events", "multiplexed_changes_count"),
        column("changes, one event", "switched_changes_count"),
    )

    def setup(self, session):
        self.guests = {}
        for mode in self.configurations:
            arguments = (f"--pmu={mode.name}", *UNLIMITED)
            guest = session.guest(mode.name, vcpus=1, vmm="paracord", extra_args=arguments)
            guest.load_module(counters=COUNTERS)
            self.guests[mode.name] = guest

    def measure(self, session, configuration):
        guest = self.guests[configuration.name]
        uses = {"multiplexed": MULTIPLEXED, "switched": SWITCHED}
        return {use: _changes(session.host, guest, command) for use, command in uses.items()}

    def metrics(self, configuration, raw):
        figures = {}
        for use, one in raw.items():
            figures[f"{use}_ns"] = one["ns"] / one["changes"]
            figures[f"{use}_p99_ns"] = _percentile(one["distribution"], 0.99)
            figures[f"{use}_changes_count"] = one["changes"]
            figures[f"{use}_openings_count"] = one["openings"]
        figures["cold_openings_count"] = sum(one["cold"] for one in raw.values())
        return figures

    def plots(self):
        return [
            Bars(
                "A change of counters, in the guest (emulated host; median of rounds, spread)",
                {"multiplexed_ns": "ten events on four counters", "switched_ns": "one event of four tasks"},
                "ns",
            )
        ]


def _changes(host, guest, command):
    """
    Exits for counters, their time, their distribution ({ns: number}), and the events that were
    opened for them.
    """
    before, shape = _state(guest)
    _, opened = vmm_state.ask(host, guest)
    guest.run(command, timeout=120)
    after, later = _state(guest)
    _, opened_later = vmm_state.ask(host, guest)
    return {
        "openings": opened_later.openings - opened.openings,
        "cold": opened_later.cold_openings - opened.cold_openings,
        "changes": after[0] - before[0],
        "ns": after[1] - before[1],
        "distribution": {str(ns): number - shape.get(ns, 0) for ns, number in later.items()},
    }


def _state(guest):
    words = guest.run(f"cat {DRIVER}/counters").out.split()
    lines = guest.run(f"cat {DRIVER}/counters_latency_ns").out.splitlines()
    shape = {int(ns): int(number) for ns, number in map(str.split, lines)}
    return (int(words[2]), int(words[8])), shape


def _percentile(distribution, share):
    """The end, in ns, of the power of two that contains the percentile."""
    below, all_of_them = 0, sum(distribution.values())
    # JSON has only texts as keys.
    for ns in sorted(map(int, distribution)):
        below += distribution[str(ns)]
        if below >= share * all_of_them:
            return 2 * ns
    return 0


SCENARIO = PmuLatency()
