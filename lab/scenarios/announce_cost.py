# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
What an announcement of a region in a guest's own memory costs the host, and what it costs to answer it in the
host line, with 1 and with 200 VMs (pc_vms), from the kernel's own BPF statistics.
"""

from paracord_lab import bpf_stats
from paracord_lab.host_share import running
from paracord_lab.needs import BPFTOOL
from paracord_lab.plots import Bars
from paracord_lab.scenario import Configuration, Raw, Scenario, column
from paracord_lab.session import time_limit
from paracord_lab.stats import ratio
from paracord_lab.verdicts import Check, versus
from paracord_lab.waiting import await_equal

SECONDS = 24
PREFIX = "sensor_"
EXIT = "sensor_exit"
ANNOUNCE = {"x86_64": "sensor_announce_msr", "aarch64": "sensor_announce_hvc"}
ONE = Configuration("boost-rt-1-vm", daemon=True)
MANY = Configuration("boost-rt-200-vms", daemon=True)
# The number of VMs, and the time in ms between two announcements of each. The host looks at ten a second of a
# VM at most. There are as many announcements in all with 200 VMs as with one: what is rare has cold caches.
VMS = {ONE.name: (1, 110), MANY.name: (200, 22_000)}
# Exits for each announcement, beside the exit that it causes itself.
EXITS = 2
ANNOUNCEMENT, LINE, QUIET = "announcement_ns", "with_answer_ns", "other_exit_ns"
DAEMON = "daemon_cpu_share"
# Nothing per event may grow with the number of VMs. The rest is cold caches, and noise.
GROWTH_MAX = 1.5


class AnnounceCost(Scenario):
    name = "announce-cost"
    summary = "what an announcement and its answer in the host line cost the host, with 1 and 200 VMs"
    needs = (BPFTOOL,)
    configurations = (ONE, MANY)
    checks = (
        Check("announcement_200_vs_1", versus(ANNOUNCEMENT, MANY.name, ONE.name), "<=", GROWTH_MAX),
        Check("answer_200_vs_1", versus(LINE, MANY.name, ONE.name), "<=", GROWTH_MAX),
    )
    columns = (
        column("announcement: ns", ANNOUNCEMENT),
        column("per s", "announcements_per_s_count"),
        column("answer and other work at its exits: ns", LINE),
        column("other exit: ns", QUIET),
        column("share of a CPU that the daemon takes", DAEMON),
    )

    def setup(self, session) -> None:
        """The virtual machines are made for each measurement."""

    def measure(self, session, configuration: Configuration) -> Raw:
        vms, announce_ms = VMS[configuration.name]
        return {
            "program": ANNOUNCE[session.host.arch],
            "quiet": self._measure(session, vms, announce_ms, 0),
            "announcing": self._measure(session, vms, announce_ms, announce_ms),
        }

    def _measure(self, session, vms: int, period_ms: int, announce_ms: int) -> Raw:
        host, seconds = session.host, session.seconds(SECONDS)
        exit_us = period_ms * 1000 // EXITS
        command = f"pc_vms --seconds 3600 --vms {vms} --exit_us {exit_us} --announce_ms {announce_ms}"
        with running(host, command, "pc_vms"):
            self._await_vms(session, vms, with_regions=announce_ms > 0)
            with bpf_stats.measuring(host, PREFIX) as raw:
                before = _daemon_ns(host)
                host.run(f"sleep {seconds}", timeout=time_limit(seconds))
                daemon_ns = _daemon_ns(host) - before
            return {**raw, "daemon_share": daemon_ns / (seconds * 1e9)}

    @staticmethod
    def _await_vms(session, vms: int, with_regions: bool) -> None:
        def known() -> int:
            shown = session.daemon.status()["vms"]
            return sum(bool(one["region"]) or not with_regions for one in shown)

        await_equal(known, vms, 120)

    def metrics(self, configuration: str, raw: Raw) -> dict[str, float]:
        quiet, announcing = bpf_stats.metrics(raw["quiet"]), bpf_stats.metrics(raw["announcing"])
        exits, program = f"{EXIT}_runs_per_s_count", raw["program"]
        announced = announcing[f"{program}_runs_per_s_count"]
        more = announcing[f"{EXIT}_run_ns"] - quiet[f"{EXIT}_run_ns"]
        return {
            ANNOUNCEMENT: announcing[f"{program}_run_ns"],
            "announcements_per_s_count": announced,
            LINE: ratio(more * announcing[exits], announced),
            QUIET: quiet[f"{EXIT}_run_ns"],
            DAEMON: raw["announcing"]["daemon_share"],
        }

    def plots(self):
        return [
            Bars(
                "Time (an emulated host shows only the ratio)",
                {
                    ANNOUNCEMENT: "announcement",
                    LINE: "answer at its exits",
                    QUIET: "other exit",
                },
                "ns",
            )
        ]


def _daemon_ns(host) -> int:
    """The CPU time of all threads of the daemon so far."""
    return int(
        host.run("cat /proc/$(pgrep -nx paracord)/task/*/schedstat | awk '{n += $1} END {print n}'").out
    )


SCENARIO = AnnounceCost()
