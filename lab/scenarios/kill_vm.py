# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
VMMs are killed many times, at random times, while their vCPUs are boosted. The daemon must continue
and forget them, and no thread may keep a policy. Most of these VMs run only their firmware, which
starts within a second, sets timers and halts. The last one is a full guest in the middle of a
measurement.
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
    summary = "VMMs killed at random moments while boosted: nothing stays boosted, and the daemon continues"
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
        """Kills a guest while its real-time task runs. Returns the vCPUs that were boosted at that time."""
        self.load.idle()  # only while the guest boots
        guest = session.host.guest(VICTIM, vcpus=1)
        self.load.busy()
        try:
            session.daemon.await_vcpus(guest.vcpu_tids)
            guest.spawn("cyclictest -q -m --default-system -i 1000 --policy=rr -p 50", "cyclictest")
            time.sleep(random.uniform(1.0, 2.0))
            return kills.boosted(session.daemon.status(), guest.vcpu_tids)
        finally:
            guest.kill("KILL")
            guest.stop()  # removes the region, which outlives the guest

    def metrics(self, configuration, raw):
        return kills.metrics(raw)


SCENARIO = KillVm()
