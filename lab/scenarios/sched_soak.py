# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
Tests paracord's scheduler under everything that a host does to a scheduler: CPUs go offline and
online, affinities, control groups and classes change, tasks fork, stress-ng's scheduler class runs,
and guests boot and are killed. The kernel ejects a scheduler that loses a task, lets a task wait
too long, or does something illegal.
"""

import random
import shlex
import time
from dataclasses import replace

from paracord_lab import fairness, kills, sched_ext
from paracord_lab.host_share import running
from paracord_lab.scenario import EXT, Scenario, column
from paracord_lab.verdicts import Check

SECONDS = 600
GUESTS_PER_MINUTE = 5
LIFE_S = (0.2, 2.0)
# The highest CPU, because the first ones have duties of the emulated host.
CPU = "/sys/devices/system/cpu/cpu$(($(nproc --all) - 1))/online"
STRESSORS = "stress-ng --temp-path /tmp --class scheduler --seq 1 --timeout 4s -q"
HOTPLUG = f"sleep 3; echo 0 > {CPU}; sleep 1; echo 1 > {CPU}"
AFFINITY = "for p in $hogs; do taskset -p $((RANDOM % 3 + 1 << 1)) $p; done; sleep 0.05"
GROUPS = {"soak-a": 100, "soak-b": 1000}
MOVE = " ".join(
    (
        f"for p in $hogs; do echo $p > {fairness.CGROUPS}/soak-$([ $((RANDOM % 2)) = 0 ] && echo a || echo b)"
        "/cgroup.procs; done;",
        f"echo $((RANDOM % 9999 + 1)) > {fairness.CGROUPS}/soak-a/cpu.weight; sleep 0.1",
    )
)
# This shell is itself real-time. Beside real-time loops, all ordinary tasks together get 5 % of a
# CPU, so an ordinary shell could not end the loops for minutes.
CLASSES = " ".join(
    (
        "chrt -r -p 2 $$;",
        "for p in $hogs; do chrt -b -p 0 $p; chrt -r -p 1 $p; done; sleep 0.3;",
        "for p in $hogs; do chrt -o -p 0 $p; chrt -i -p 0 $p; done; sleep 0.3",
    )
)
FORKS = "for n in $(seq 20); do true & done; wait"


class SchedSoak(Scenario):
    name = "sched-soak"
    summary = (
        "paracord's scheduler for ten minutes: hotplug, affinity, groups, classes, forks, 50 guests killed"
    )
    rounds = 1
    configurations = (replace(EXT, ejections_counted=True),)
    checks = (
        Check("soak_ejections", lambda one: one["ext"]["ejections_count"], "<=", 0, "count", every=True),
        Check(
            "soak_guests_killed_per_minute",
            lambda one: one["ext"]["guests_killed_count"] / one["ext"]["length_s"] * 60,
            ">=",
            GUESTS_PER_MINUTE,
            "count",
            every=True,
        ),
    )
    columns = (
        column("seconds", "length_s"),
        column("ejections", "ejections_count"),
        column("guests killed", "guests_killed_count"),
    )

    def setup(self, session):
        self.guest = session.guest("soak", module=True, vcpus=1)

    def measure(self, session, configuration):
        host, seconds = session.host, SECONDS if not session.options.quick else SECONDS / 10
        jobs = []
        with fairness.groups(host, GROUPS), running(self.guest, "pc_hog", "guest's hog"):
            try:
                hogs = [host.spawn("exec pc_hog", f"hog{n}") for n in range(4)]
                jobs += hogs
                pids = " ".join(str(hog.pid) for hog in hogs)
                for n, script in enumerate((HOTPLUG, AFFINITY, MOVE, CLASSES, FORKS, STRESSORS)):
                    loop = f"hogs='{pids}'; while true; do {script}; done >/dev/null 2>&1"
                    jobs.append(host.spawn(f"exec setsid bash -c {shlex.quote(loop)}", f"soak{n}"))
                killed, started = 0, time.monotonic()
                while time.monotonic() - started < seconds:
                    vm = host.spawn(kills.FIRMWARE_VM.format(name=f"victim{killed}"), f"victim{killed}")
                    time.sleep(random.uniform(*LIFE_S))
                    vm.kill("KILL")
                    killed += 1
            finally:
                every = " ".join(f"-{job.pid} {job.pid}" for job in jobs)
                # dash's kill does not know "--".
                end = f"kill -KILL {every}; pkill -KILL stress-ng; sleep 1; echo 1 > {CPU}"
                host.run(end, timeout=120, urgent=True)
        said = session.daemon.job.err()
        lost = sched_ext.state(host) != "enabled"
        return {
            "seconds": time.monotonic() - started,
            "killed": killed,
            "ejections": said.count("has unloaded paracord's scheduler") + lost,
            "said": said[-2000:],
        }

    def metrics(self, configuration, raw):
        return {
            "length_s": raw["seconds"],
            "ejections_count": raw["ejections"],
            "guests_killed_count": raw["killed"],
        }


SCENARIO = SchedSoak()
