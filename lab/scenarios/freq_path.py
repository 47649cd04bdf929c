# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
What it costs a guest to request a frequency, and to read its own frequency at each tick. Three ways
are compared: the shared page, a hypercall that the host's kernel answers, and a device register of
the VMM (with QEMU two registers of ivshmem, with paracord-vmm those of its virtual cpufreq device).
The result is the time in the guest and the VM exits on the host.

The exits of an empty loop of the same length are subtracted, because the guest's timer and the
command channel cause exits, too.
"""

import json

from paracord_lab import stats
from paracord_lab.plots import Bars
from paracord_lab.scenario import Configuration, Scenario, column
from paracord_lab.verdicts import Check, versus

DIRECTORY = "/sys/kernel/debug/pc_freqpath"
PARAMETERS = "/sys/module/pc_freqpath/parameters"
BATCHES = 20
# Operations per batch. An operation with an exit takes some milliseconds in an emulator.
STORES, EXITS = 50_000, 50
UNDISTURBED = 0.1
PAGE, HYPERCALL, MMIO = Configuration("page"), Configuration("hypercall"), Configuration("mmio")
# How each configuration requests and reads, and how often per batch. With a hypercall, the
# frequency is its return value.
WAYS = {
    PAGE.name: ("page", "page_read", STORES),
    HYPERCALL.name: ("hypercall", "hypercall", EXITS),
    MMIO.name: ("mmio", "mmio_read", EXITS),
}
# The shared page with a kick (a VM exit) for each change, as if the host had to notice every change
# at once.
KICKED = ("page_kick", "page_read", EXITS)
# Fewer exits per change count as none. So few cannot be told from the guest's other exits.
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
        """Measures batches of a way, and empty batches of the same length: ns of each, and exits of all."""
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
