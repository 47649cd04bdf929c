# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
What the guest module costs at each context switch in the guest. A pipe between two tasks is
measured with and without the module in the same guest, because two guests differ by more than the
module costs. The driver is unbound and bound while the guest is idle.

The verdict is about two threads. Between processes, an emulated CPU drops all translations at each
switch, which a real CPU (with PCID and global pages) does not. Each page that the module accesses
is then a walk through two emulated page tables. The report shows that result beside the verdict.
"""

import json

from paracord_lab import stats
from paracord_lab.plots import Bars
from paracord_lab.scenario import VANILLA, Configuration, Scenario, column
from paracord_lab.verdicts import Check, versus

MODULE = Configuration("module", module=True)
# The module stores a few words per switch. A higher cost would mean that it does more.
SWITCH_COST_MAX = 1.03
# The pieces are short, and only the undisturbed ones count. A slow time often lasts for thirty
# pieces, and after the driver was bound for more.
COMMAND = "pc_pipe --transfers 100"
UNDISTURBED = 0.1
THREADS, PROCESSES = "threads_switch_ns", "processes_switch_ns"
DRIVER = "/sys/bus/pci/drivers/paracord_guest"


def cost(metric):
    return versus(metric, "module", "vanilla")


class GuestCost(Scenario):
    name = "guest-cost"
    summary = "a context switch in the guest with the module loaded and without it"
    # There are many short rounds. Each binding rewrites kernel text, and the emulator's
    # translations of it can make a difference of 8 %.
    rounds = 50
    configurations = (VANILLA, MODULE)
    checks = (
        Check(
            "module_context_switch_cost",
            cost(THREADS),
            "<=",
            SWITCH_COST_MAX,
            beside={"between processes": cost(PROCESSES)},
        ),
    )
    columns = (
        column("ns per switch between threads (emulated)", THREADS),
        column("between processes", PROCESSES),
    )

    def setup(self, session):
        self.guest = session.guest("cost", module=True, vcpus=1)
        self.device = self.guest.run(f"basename {DRIVER}/0000:*").out.strip()
        self.bound = True

    def measure(self, session, configuration):
        if self.bound != (configuration == MODULE):
            self.bound = not self.bound
            self.guest.run(f"echo {self.device} > {DRIVER}/{'bind' if self.bound else 'unbind'} && sleep 0.3")
        return {
            metric: json.loads(self.guest.run(f"{COMMAND} {how}", timeout=120).out)
            for metric, how in ((THREADS, "--threads 1 --rounds 240"), (PROCESSES, "--rounds 15"))
        }

    def metrics(self, configuration, raw):
        return {metric: stats.undisturbed(run["ns_per_switch"], UNDISTURBED) for metric, run in raw.items()}

    def plots(self):
        return [
            Bars(
                "Context switch in the guest (median of rounds, spread)",
                {THREADS: "two threads", PROCESSES: "two processes"},
                "ns",
            )
        ]


SCENARIO = GuestCost()
