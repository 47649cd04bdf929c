# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
The daemon, its supervisor, or both are killed with -9 at random times while a vCPU is boosted.
Within a second, no thread may have a policy that it did not have before, and a new start must find
a clean state and work.

`--without supervisor` runs only the daemon. When it is killed, nothing restores the threads, so the
verdict must fail.
"""

import random
import time

from paracord_lab import kills
from paracord_lab.daemon import BINARY, START_TIMEOUT_S, Daemon
from paracord_lab.needs import BTF
from paracord_lab.scenario import Configuration, Scenario, column
from paracord_lab.verdicts import Check

KILLS_EACH = 4
UNBOOSTED_S = (0.0, 0.5)
VICTIMS = ("daemon", "supervisor", "both")
# Without a restart, every boost that remains afterwards was left by the dead daemon.
SETTINGS = {"supervisor.restart": False}
# The scenario starts its daemons itself.
CONFIGURATION = Configuration("boost-rt", module=True, also_needs=(BTF,))


class KillDaemon(Scenario):
    name = "kill-daemon"
    summary = "daemon, supervisor or both killed with -9 while a vCPU is boosted: 1 s later all is restored"
    rounds = 2
    configurations = (CONFIGURATION,)
    without = ("supervisor",)
    checks = (
        *kills.checks("kill_daemon"),
        Check("kill_daemon_restarted", lambda one: one["boost-rt"]["restarts_failed_count"], "<=", 0, "count",
              every=True),
    )  # fmt: skip
    columns = (*kills.columns(), column("restarts that failed", "restarts_failed_count"))

    def setup(self, session):
        self.guest = session.guest("guest", module=True, vcpus=1)
        self.load = session.load()
        self.before = kills.realtime_threads(session.host)
        self.guest.spawn("cyclictest -q -m --default-system -i 1000 --policy=rr -p 50", "cyclictest")

    def measure(self, session, configuration):
        tally = kills.Tally()
        self.load.busy()
        try:
            each = KILLS_EACH if not session.options.quick else 1
            victims = VICTIMS if session.options.without != "supervisor" else ("daemon",)
            for victim in victims * each:
                self._kill(session, tally, victim)
            failed = self._restart(session) if session.options.without != "supervisor" else 0
        finally:
            self.load.idle()
        return {**tally.raw(), "restarts_failed": failed}

    def _kill(self, session, tally, victim):
        host = session.host
        alone = session.options.without == "supervisor"
        running = Daemon(host, SETTINGS, "--no-supervisor" if alone else "").start(self.guest.vcpu_tids)
        time.sleep(random.uniform(*UNBOOSTED_S))
        pids = processes(running, alone)
        # This is one command, and kill is built into the shell, so nothing runs between seeing the
        # boost and the kill.
        tid = self.guest.vcpu_tids[0]
        wait = f"for i in $(seq 2000); do chrt -p {tid} | grep SCHED_RR && break; done"
        targets = {"daemon": "daemon", "supervisor": "supervisor", "both": "supervisor daemon"}[victim]
        numbers = " ".join(str(pids[name]) for name in targets.split())
        seen = host.run(f"{wait}; kill -KILL {numbers}", timeout=60).out
        tally.kills += 1
        tally.boosted += "SCHED_RR" in seen
        after = f" after a kill of {victim}"
        if victim == "both":
            # No process is left that could restore. systemd's ExecStopPost does this.
            after += f"; restore said: {host.run(f'{BINARY} restore 2>&1', check=False).out.strip()}"
        time.sleep(kills.RESTORED_WITHIN_S)
        left = tally.leftovers
        tally.count_leftovers(host, self.before)
        if tally.leftovers > left:
            tally.notes += after
        running.stop()
        host.run(f"{BINARY} restore", check=False)

    def _restart(self, session):
        """
        With restart on (the default), a killed daemon is started again. Returns 1 if it is not.
        """
        with Daemon(session.host).start(self.guest.vcpu_tids) as running:
            first = processes(running)["daemon"]
            session.host.run(f"kill -KILL {first}")
            deadline = time.monotonic() + START_TIMEOUT_S
            while time.monotonic() < deadline:
                status = running.status(check=False)
                if status and status["pid"] != first and status["vms"]:
                    return 0
                time.sleep(0.3)
        return 1

    def metrics(self, configuration, raw):
        return {**kills.metrics(raw), "restarts_failed_count": raw["restarts_failed"]}


def processes(running, alone=False):
    """
    Process IDs of the daemon and, unless the daemon runs alone, of the supervisor (its parent).
    """
    pid = running.status()["pid"]
    if alone:
        return {"daemon": pid}
    parent = int(running.host.run(f"sed -n 's/^PPid:[[:space:]]*//p' /proc/{pid}/status").out)
    return {"daemon": pid, "supervisor": parent}


SCENARIO = KillDaemon()
