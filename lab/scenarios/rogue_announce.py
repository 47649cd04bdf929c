# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
A guest's kernel announces regions as fast as it can: beyond its memory, in devices, of other pages,
and nothing. No VM but this one may notice.
"""

from paracord_lab.rogue import ROGUE_BOOST, ROGUE_BOOST_EXT, RogueScenario
from paracord_lab.scenario import column
from paracord_lab.verdicts import Check, of

MODULE = "/paracord/pc_announce.ko"
LOOKED_AT = "announcements_looked_at_per_s_count"
# Ten a second are looked at (bpf/announce.h). The rest is the error of the two readings.
LOOKED_AT_MAX = 12


class RogueAnnounce(RogueScenario):
    name = "rogue-announce"
    mode = "announce"
    summary = "a guest's kernel announces hostile addresses of its own memory as fast as it can"
    without = ("budget",)
    columns = (*RogueScenario.columns, column("announcements/s that were looked at", LOOKED_AT))

    @property
    def checks(self):
        looked = (
            Check(name, of(LOOKED_AT, configuration), "<=", LOOKED_AT_MAX)
            for name, configuration in (
                ("rogue_announce_looked_at", ROGUE_BOOST.name),
                ("rogue_announce_ext_looked_at", ROGUE_BOOST_EXT.name),
            )
        )
        return (*super().checks, *looked)

    def command(self) -> str:
        return f"while insmod {MODULE} rounds=3000; do rmmod pc_announce; done"

    def setup(self, session) -> None:
        self.guest = session.guest("rogue", vcpus=1, region=False)
        self.load = session.load()

    def _repair(self, session) -> None:
        # The loop may have been killed before its last command.
        self.guest.run("! grep -q ^pc_announce /proc/modules || rmmod pc_announce")

    def activity(self, before: dict, after: dict, limit_us: int) -> dict[str, float]:
        seconds = (after["taken_ns"] - before["taken_ns"]) / 1e9
        looked = _looked_at(after) - _looked_at(before)
        return {**super().activity(before, after, limit_us), LOOKED_AT: looked / seconds}


def _looked_at(status: dict) -> int:
    """Announcements that were looked at. A sixth of all are withdrawals, which cost nothing."""
    counts = [vm["announcements"] for vm in status["vms"]]
    return sum(one["all"] * 5 // 6 - one["ignored"] for one in counts)


SCENARIO = RogueAnnounce()
