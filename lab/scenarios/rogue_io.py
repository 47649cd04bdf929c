# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
A guest's root reads its disks as fast as it can, so its VMM's threads wake all the time. The
scenario measures how long these threads run boosted, what the host's work keeps, and the latency of
another VM.
"""

from paracord_lab import cyclictest, host_share, stats
from paracord_lab.daemon import BUDGETS
from paracord_lab.host_share import running
from paracord_lab.io_guest import disks, make_disks
from paracord_lab.plots import Bars
from paracord_lab.scenario import BOOST, BOOST_EXT, VANILLA, Scenario, column
from paracord_lab.verdicts import Check, versus

INTERVAL_US = 4000
SECONDS = 6.0
ROGUE, SECOND = "rogue", "second"
LATENCY_MAX = 1.3
# The rest is for an overrun of one period, and for the error of two readings.
BUDGET_MAX = 1.1
ATTACK = "pc_disk /dev/vda --deep 16 --period_us 0 --seconds 3600"
BOTH = f"{ATTACK} & {ATTACK.replace('vda', 'vdb')} & wait"
SHARE = "host_beside_rogue_share"
BUDGET = "boost.io_budget_pct"


def second_latency(configuration: str):
    """The latency of the second VM, relative to its latency while the first VM only computes."""
    return lambda one: stats.ratio(
        one[configuration]["second_beside_rogue_avg_us"], one[configuration]["second_beside_hog_avg_us"]
    )


def _checks(actuator: str, configuration: str):
    def used(one):
        return one[configuration]["io_boosted_of_budget_ratio"]

    yield Check(f"rogue_io_budget_{actuator}", used, "<=", BUDGET_MAX)
    yield Check(
        f"rogue_io_second_latency_{actuator}",
        second_latency(configuration),
        "<=",
        LATENCY_MAX,
        beside={"vanilla": second_latency(VANILLA.name)},
    )
    yield Check(
        f"rogue_io_host_share_{actuator}",
        versus(SHARE, configuration, VANILLA.name),
        ">=",
        host_share.HOST_SHARE_MIN,
    )


class RogueIo(Scenario):
    name = "rogue-io"
    summary = "a guest's root reads its disks as fast as it can: its VMM's threads, the host, another VM"
    configurations = (VANILLA, BOOST, BOOST_EXT)
    without = ("budget",)
    checks = (*_checks("rt", BOOST.name), *_checks("ext", BOOST_EXT.name))
    columns = (
        column("host's share beside the rogue", SHARE),
        column("another VM: avg µs beside a loop", "second_beside_hog_avg_us"),
        column("beside the rogue", "second_beside_rogue_avg_us"),
        column("p99", "second_beside_rogue_p99_us"),
        column("of its I/O budget", "io_boosted_of_budget_ratio"),
    )

    def setup(self, session):
        make_disks(session.host)
        self.rogue = session.guest(ROGUE, vcpus=1, extra_args=disks())
        self.second = session.guest(SECOND, module=True, vcpus=1)
        self.load = session.load()

    def measure(self, session, configuration):
        budget_pct = self._limit(session)
        raw = {"used": 0.0}
        self.load.busy()
        try:
            with running(self.rogue, "pc_hog", "hog"):
                raw["hog"] = self._latency(session, "hog")
            with running(self.rogue, BOTH, "rogue"):
                before = self._boosted(session)
                raw["rogue"] = self._latency(session, "rogue")
                raw["share"] = session.host_share(self.load, session.seconds(SECONDS))
                if session.daemon:
                    raw["used"] = share_of(before, self._boosted(session)) * 100 / budget_pct
        finally:
            self.load.idle()
        return raw

    def _limit(self, session) -> int:
        """
        Gives the malicious guest the budgets that operators have, because the larger budgets for an
        emulator would limit nothing here. Returns its I/O budget in percent.
        """
        if not session.daemon:
            return 0
        of_vms = session.daemon.defaults(key for key in BUDGETS if key != "boost.cpu_kept_pct")
        if session.host.kind == "emulated" and session.options.without != "budget":
            own = {key.replace("boost.", f'vm."{ROGUE}".', 1): value for key, value in of_vms.items()}
            session.daemon.reload(own)
        return of_vms[BUDGET]

    def _latency(self, session, name):
        return session.cyclictest(self.second, name, INTERVAL_US, session.seconds(SECONDS))

    @staticmethod
    def _boosted(session) -> tuple[int, int] | None:
        """
        The boosted time of the other threads of the guest's VMM, and the time of the daemon's
        clock, in ns.
        """
        if not session.daemon:
            return None
        status = session.daemon.status()
        vm = next(vm for vm in status["vms"] if vm["name"] == ROGUE)
        return vm["io_total"]["boosted_ns"], status["taken_ns"]

    def metrics(self, configuration, raw):
        return {
            SHARE: raw["share"],
            "io_boosted_of_budget_ratio": raw["used"],
            **cyclictest.metrics("second_beside_hog", raw["hog"]),
            **cyclictest.metrics("second_beside_rogue", raw["rogue"]),
        }

    def plots(self):
        return [
            Bars(
                "Another VM's wakeup latency (median of rounds, spread)",
                {f"second_beside_{what}_avg_us": f"beside a {what}" for what in ("hog", "rogue")},
                "us",
            ),
            host_share.bars({SHARE: "reads without end"}),
        ]


def share_of(before: tuple[int, int], after: tuple[int, int]) -> float:
    """The number of CPUs that were used between two readings of (time, clock)."""
    return (after[0] - before[0]) / (after[1] - before[1])


SCENARIO = RogueIo()
