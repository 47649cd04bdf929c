# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
What it costs a guest to ask for a frequency, and to hear its own at each tick: through the shared page, a
hypercall that the host's kernel answers, and a device register of the VMM's (two of ivshmem's, under
paracord-vmm those of its virtual cpufreq device). Time in the guest, VM exits on the host.

A loop of nothing, as long and asked for in the same way, is subtracted from the exits: the guest's timer and
the command channel make some too.
"""

import json

from paracord_lab import stats
from paracord_lab.plots import Bars
from paracord_lab.scenario import Configuration, Scenario, column
from paracord_lab.verdicts import Check, versus

DIRECTORY = "/sys/kernel/debug/pc_freqpath"
PARAMETERS = "/sys/module/pc_freqpath/parameters"
BATCHES = 20
# Of a batch; each takes some milliseconds in an emulator.
STORES, EXITS = 50_000, 50
UNDISTURBED = 0.1
PAGE, HYPERCALL, MMIO = Configuration("page"), Configuration("hypercall"), Configuration("mmio")
# How a configuration asks and hears, and how often in a batch. A hypercall hears what it returns.
WAYS = {
    PAGE.name: ("page", "page_read", STORES),
    HYPERCALL.name: ("hypercall", "hypercall", EXITS),
    MMIO.name: ("mmio", "mmio_read", EXITS),
}
# Without the page's own way: each change needs the host's attention.
KICKED = ("page_kick", "page_read", EXITS)
# No exit, in more digits than the rest of the guest's life leaves.
EXITS_MAX = 0.01
PAGE_VS_MMIO_MAX = 0.02


class FreqPath(Scenario):
    name = "freq-path"
    summary = "exits and time per frequency change of a guest: shared page, hypercall, device register"
    rounds = 5
    configurations = (PAGE, HYPERCALL, MMIO)
    without = ("page",)
    checks = (
        Check("page_exits_per_change", lambda one: one["page"]["change_exits_count"], "<=", EXITS_MAX,
              "count", every=True, beside={
                  name: lambda one, name=name: one[name]["change_exits_count"] for name in WAYS
              }),
        Check("page_vs_mmio_cost", versus("change_ns", "page", "mmio"), "<=", PAGE_VS_MMIO_MAX,
              beside={"hypercall": versus("change_ns", "hypercall", "mmio")}),
        Check("page_vs_mmio_tick_cost", versus("read_ns", "page", "mmio"), "<=", PAGE_VS_MMIO_MAX,
              beside={"hypercall": versus("read_ns", "hypercall", "mmio")}),
        Check("mmio_exits_per_change", lambda one: one["mmio"]["change_exits_count"], ">=", 0.5, "count"),
    )  # fmt: skip
    columns = (
        column("exits per change", "change_exits_count"),
        column("ns per change (emulated)", "change_ns"),
        column("exits per tick's reading", "read_exits_count"),
        column("ns per tick's reading (emulated)", "read_ns"),
    )

    def setup(self, session):
        self.guest = session.guest("path", vcpus=1)
        self.guest.run(f"insmod /paracord/pc_freqpath.ko batches={BATCHES}")

    def measure(self, session, configuration):
        change, read, operations = WAYS[configuration.name]
        if configuration == PAGE and session.options.without == "page":
            change, _, operations = KICKED
        return {
            "change": self._way(session.host, change, operations),
            "read": self._way(session.host, read, operations),
        }

    def _way(self, host, way, operations):
        """Batches of a way, and batches of nothing that are as long: ns of each, exits of all."""
        self.guest.run(f"echo {operations} > {PARAMETERS}/operations")
        run = self._counted(host, way)
        batch_ns = sum(run["ns"]) // len(run["ns"])
        self.guest.run(f"echo {batch_ns} > {PARAMETERS}/batch_ns")
        return {"way": way, **run, "nothing": self._counted(host, "nothing")}

    def _counted(self, host, way):
        read = f"cat /sys/kernel/debug/kvm/{self.guest.pid}-*/exits"
        before = int(host.run(read).out)
        run = json.loads(self.guest.run(f"cat {DIRECTORY}/{way}", timeout=120).out)
        return {**run, "exits": int(host.run(read).out) - before}

    def metrics(self, configuration, raw):
        return {
            f"{what}_{metric}": value
            for what in ("change", "read")
            for metric, value in _per_operation(raw[what]).items()
        }

    def plots(self):
        return [
            Bars(
                "Time in the guest (emulated host; median of rounds, spread)",
                {"change_ns": "a change of frequency", "read_ns": "a tick's reading"},
                "ns",
                logarithmic=True,
            ),
            Bars(
                "VM exits",
                {"change_exits_count": "a change of frequency", "read_exits_count": "a tick's reading"},
                "count",
            ),
        ]


def _per_operation(way):
    operations = way["operations"] * len(way["ns"])
    exits = way["exits"] - way["nothing"]["exits"]
    return {
        "ns": stats.undisturbed(way["ns"], UNDISTURBED) / way["operations"],
        "exits_count": max(0.0, exits / operations),
    }


SCENARIO = FreqPath()
