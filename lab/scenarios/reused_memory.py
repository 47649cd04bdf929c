# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
VMMs take memory away from VMs and use it for something else, in the midst of the guests' announcements
(pc_vms). paracord must neither write there nor believe what it reads there, and must not make pages present
that a VMM has given back. It must not write behind the last page of a VM's memory either.
"""

from paracord_lab.boards import X86PStates
from paracord_lab.daemon import BUDGETS, COUNTERS_UNLIMITED, boosts_for, counter
from paracord_lab.plots import Bars
from paracord_lab.scenario import BOOST, BOOST_EXT, Configuration, Raw, Scenario, column
from paracord_lab.session import time_limit
from paracord_lab.verdicts import Check, of
from paracord_lab.waiting import await_equal

SECONDS = 12
VMS = 4
# The guests announce as often as the host looks at announcements. Boosts come and go, and change host lines.
BUSY = f"pc_vms --vms {VMS} --exit_us 0 --announce_ms 110 --class_ms 10"
# The host also writes the counts of the guests that ask for counters.
COUNTS = "--count 1"
UNPLUGGED, BALLOON = 1, 2
OWN_ASKS = 500
ANSWERED, COUNTED = "answered_per_vm_and_s_count", "counted_per_vm_and_s_count"
TAKEN, DOMAINS = "taken_per_vm_and_s_count", "domains_count"
FOREIGN_WRITES, WRITES_BEHIND, FOREIGN_READS, MADE_PRESENT = (
    "foreign_writes_count",
    "writes_behind_memory_count",
    "foreign_reads_count",
    "made_present_count",
)
READS_SEEN, EDGE_BOOSTS = "reads_of_own_memory_count", "boosts_with_a_line_at_the_edge_count"
# Per VM and second. Without this many, the zeros would mean little.
ANSWERED_MIN, COUNTED_MIN, TAKEN_MIN = 2, 1, 2


def _checks(suffix: str, name: str):
    yield Check(f"foreign_writes{suffix}", of(FOREIGN_WRITES, name), "<=", 0, "count", every=True)
    yield Check(f"writes_behind{suffix}", of(WRITES_BEHIND, name), "<=", 0, "count", every=True)
    yield Check(f"foreign_reads{suffix}", of(FOREIGN_READS, name), "<=", 0, "count", every=True)
    yield Check(f"made_present{suffix}", of(MADE_PRESENT, name), "<=", 0, "count", every=True)
    # Without these, the zeros above would show nothing.
    yield Check(f"answered{suffix}", of(ANSWERED, name), ">=", ANSWERED_MIN, "count", every=True)
    yield Check(f"counted{suffix}", of(COUNTED, name), ">=", COUNTED_MIN, "count", every=True)
    yield Check(f"taken{suffix}", of(TAKEN, name), ">=", TAKEN_MIN, "count", every=True)
    yield Check(f"reads_would_be_seen{suffix}", of(READS_SEEN, name), ">=", 1, "count", every=True)
    yield Check(f"edge_is_read{suffix}", of(EDGE_BOOSTS, name), ">=", 1, "count", every=True)
    yield Check(f"domains_are_written{suffix}", of(DOMAINS, name), ">=", VMS, "count", every=True)


class ReusedMemory(Scenario):
    name = "reused-memory"
    summary = "VMMs take memory away from VMs and use it for something else: nothing is written or read there"
    # The host has frequencies, so it also writes performance domains.
    board = X86PStates.name
    configurations = (BOOST, BOOST_EXT)
    checks = (*_checks("", BOOST.name), *_checks("_ext", BOOST_EXT.name))
    columns = (
        column("memory taken", TAKEN),
        column("announcements answered", ANSWERED),
        column("counts written", COUNTED),
        column("foreign writes", FOREIGN_WRITES),
        column("writes behind memory", WRITES_BEHIND),
        column("foreign reads", FOREIGN_READS),
        column("pages made present", MADE_PRESENT),
    )

    def setup(self, session) -> None:
        """The virtual machines are made for each measurement."""

    def measure(self, session, configuration: Configuration) -> Raw:
        # Under an emulator's budgets, four VMs that wake all the time would leave the daemon no time.
        session.daemon.reload(session.daemon.defaults(BUDGETS) | COUNTERS_UNLIMITED)
        return {
            "unplugged": self._run(session, f"--take {UNPLUGGED} {COUNTS}"),
            "balloon": self._run(session, f"--take {BALLOON} {COUNTS}"),
            "own": self._run(session, f"--asks {OWN_ASKS}"),
            "edge": self._run(session, "--edge 1"),
        }

    def _run(self, session, arguments: str) -> dict[str, int]:
        """What pc_vms counted, and its guests' requests and real-time boosts that the daemon has seen."""
        seconds = session.seconds(SECONDS)
        job = session.host.spawn(f"{BUSY} --seconds {seconds:.0f} {arguments}", "pc_vms")
        requests = boosts = 0
        while job.running:
            session.host.run("sleep 1")
            # The counters of a VM end with it.
            status = session.daemon.status()
            requests = max(requests, counter(status, "requests"))
            boosts = max(boosts, boosts_for(status, "rt"))
        words = job.result(time_limit(seconds), check=True).out.split()
        counted = dict(zip(words[::2], map(int, words[1::2]), strict=True))
        # The next virtual machines are counted alone.
        await_equal(lambda: session.daemon.status()["vms"], [])
        seen = {"requests": requests, "boosts": boosts}
        return {**counted, **seen, "per_vm_and_s": 1 / (VMS * seconds)}

    def metrics(self, configuration: str, raw: Raw) -> dict[str, float]:
        unplugged, balloon = raw["unplugged"], raw["balloon"]
        return {
            ANSWERED: min(one["answered"] * one["per_vm_and_s"] for one in (unplugged, balloon)),
            COUNTED: min(one["counted"] * one["per_vm_and_s"] for one in (unplugged, balloon)),
            TAKEN: min(one["taken"] * one["per_vm_and_s"] for one in (unplugged, balloon)),
            DOMAINS: raw["own"]["domains"],
            FOREIGN_WRITES: unplugged["foreign_writes"],
            WRITES_BEHIND: raw["edge"]["foreign_writes"],
            EDGE_BOOSTS: raw["edge"]["boosts"],
            FOREIGN_READS: unplugged["requests"],
            MADE_PRESENT: balloon["made_present"],
            READS_SEEN: raw["own"]["requests"],
        }

    def plots(self):
        names = {TAKEN: "memory taken", ANSWERED: "announcements answered", COUNTED: "counts written"}
        return [Bars("Events per VM and second", names, "count")]


SCENARIO = ReusedMemory()
