# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
VMMs killed at random moments, many times, while their vCPUs are boosted: the daemon goes on, forgets them,
and no thread keeps a policy. Most victims run only their firmware, which is up within a second and sets
timers and halts; the last one is a full guest in the middle of a measurement.
"""

import random
import time

from paracord_lab import kills
from paracord_lab.scenario import BOOST, Scenario

KILLS = 12
LIFE_S = (0.3, 3.0)
VICTIM = "victim"


class KillVm(Scenario):
    name = "kill-vm"
    summary = "VMMs killed at random moments while boosted: nothing stays boosted, the daemon goes on"
    rounds = 2
    configurations = (BOOST,)
    without = ("boost",)
    checks = kills.checks("kill_vm")
    columns = kills.columns()

    def setup(self, session):
        self.guest = session.guest("survivor", module=True, vcpus=1)
        self.load = session.load()

    def measure(self, session, configuration):
        host, seen = session.host, kills.Tally()
        before = kills.realtime_threads(host)
        self.load.busy()
        try:
            for number in range(KILLS if not session.options.quick else KILLS // 2):
                job = host.spawn(kills.FIRMWARE_VM.format(name=f"{VICTIM}{number}"), f"{VICTIM}{number}")
                time.sleep(random.uniform(*LIFE_S))
                seen.boosted += kills.boosted(session.daemon.status())
                job.kill("KILL")
                seen.kills += 1
                seen.judge(host, before, session.daemon, self.guest.vcpu_tids, gone=VICTIM)
            seen.boosted += self._kill_guest(session)
            seen.kills += 1
            seen.judge(host, before, session.daemon, self.guest.vcpu_tids, gone=VICTIM)
        finally:
            self.load.idle()
        return seen.raw()

    def _kill_guest(self, session):
        """A guest that dies while its real-time task runs; its vCPUs that were boosted then."""
        self.load.idle()  # only while it boots
        guest = session.host.guest(VICTIM, vcpus=1)
        self.load.busy()
        try:
            session.daemon.await_vcpus(guest.vcpu_tids)
            guest.spawn("cyclictest -q -m --default-system -i 1000 --policy=rr -p 50", "cyclictest")
            time.sleep(random.uniform(1.0, 2.0))
            return kills.boosted(session.daemon.status(), guest.vcpu_tids)
        finally:
            guest.kill("KILL")
            guest.stop()  # removes its region, which outlives it

    def metrics(self, configuration, raw):
        return kills.metrics(raw)


SCENARIO = KillVm()
