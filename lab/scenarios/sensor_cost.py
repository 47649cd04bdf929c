# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
The cost of the sensor's BPF programs on the host, from the kernel's own BPF statistics: ns and
instructions per run of each program, and their share of the host's CPU time, while a guest does
real-time work. The same guest then works without a device: its hints, its requests and its host lines
are in its own memory.
"""

from paracord_lab import bpf_stats
from paracord_lab.host_share import running
from paracord_lab.needs import BPFTOOL
from paracord_lab.plots import Bars
from paracord_lab.scenario import BOOST, Configuration, Scenario, column
from paracord_lab.session import time_limit
from paracord_lab.verdicts import Check

SECONDS = 5
FORKS_S = 1
PREFIX = "sensor_"
# An emulator slows the programs about as much as everything else, so their share is the same on a
# real host.
CPU_SHARE_MAX = 0.05
OBSERVE = Configuration("observe", daemon=True, module=True, settings={"mode": "observe"})
OBSERVE_IN_MEMORY = Configuration("observe-in-memory", daemon=True, module=True, settings=OBSERVE.settings)
IN_MEMORY = Configuration("boost-rt-in-memory", daemon=True, module=True)
OF_PLAIN = (OBSERVE_IN_MEMORY, IN_MEMORY)
EXIT, SWITCH, FORK = "sensor_exit", "sensor_switch", "sensor_fork"
# The sensor's work at an exit with hints in the guest's own memory, compared with a device's. When a boost
# begins or ends, the sensor also writes the host line in the guest's own memory, but the daemon writes that
# of a device. In observe mode there are no boosts to write.
IN_MEMORY_MAX = 1.1
ANNOUNCED = "announcements_per_s_count"
# Once a second, and the error of the two readings.
ANNOUNCED_MAX = 1.2


def _exit_vs(one, in_memory, device) -> float:
    return one[in_memory.name][f"{EXIT}_run_ns"] / one[device.name][f"{EXIT}_run_ns"]


class SensorCost(Scenario):
    name = "sensor-cost"
    summary = "ns and instructions of the sensor's BPF programs per run, and their share of CPU time"
    needs = (BPFTOOL,)
    configurations = (OBSERVE, OBSERVE_IN_MEMORY, BOOST, IN_MEMORY)
    checks = (
        Check(
            "sensor_cpu_share", lambda one: one["boost-rt"]["sensor_cpu_share"], "<=", CPU_SHARE_MAX, "share"
        ),
        Check(
            "line_read_cost_vs_ivshmem",
            lambda one: _exit_vs(one, IN_MEMORY, BOOST),
            "<=",
            IN_MEMORY_MAX,
            beside={"observe mode": lambda one: _exit_vs(one, OBSERVE_IN_MEMORY, OBSERVE)},
        ),
        Check(
            "announcements_per_s",
            lambda one: one[IN_MEMORY.name][ANNOUNCED],
            "<=",
            ANNOUNCED_MAX,
            beside={"idle guest": lambda one: one[BOOST.name][ANNOUNCED]},
        ),
    )
    columns = (
        column("VM exit: ns", f"{EXIT}_run_ns"),
        column("per s", f"{EXIT}_runs_per_s_count"),
        column("instructions", f"{EXIT}_instructions_count"),
        column("context switch: ns", f"{SWITCH}_run_ns"),
        column("per s", f"{SWITCH}_runs_per_s_count"),
        column("instructions", f"{SWITCH}_instructions_count"),
        column("fork of another process: ns", f"{FORK}_run_ns"),
        column("per s", f"{FORK}_runs_per_s_count"),
        column("share of CPU time", "sensor_cpu_share"),
        column("announcements/s", ANNOUNCED),
    )

    def setup(self, session):
        self.guest = session.guest("cost", module=True, vcpus=1)
        self.plain = session.guest("cost-plain", module=True, vcpus=1, region=False)
        self.load = session.load()

    def measure(self, session, configuration):
        host, seconds = session.host, session.seconds(SECONDS)
        guest = self.plain if configuration in OF_PLAIN else self.guest
        self.load.busy()
        try:
            with running(guest, "cyclictest -q -m -i 1000 --policy=rr -p 50", "cyclictest"):
                if guest is self.plain:
                    session.daemon.await_region_in_memory(guest.name)
                with bpf_stats.measuring(host, PREFIX) as raw:
                    before = self._announcements(session)
                    host.run(f"sleep {seconds}", timeout=time_limit(seconds))
                    announced = self._announcements(session) - before
        finally:
            self.load.idle()
        return {**raw, "announced": announced, "forks": self._forks(session)}

    def _forks(self, session) -> bpf_stats.Raw:
        """What the sensor costs a process of the host that only makes other processes."""
        seconds = session.seconds(FORKS_S)
        with bpf_stats.measuring(session.host, FORK) as raw:
            session.host.run(f"timeout {seconds} sh -c 'while :; do ( : ); done'", check=False)
        return raw

    def _announcements(self, session) -> int:
        """All announcements of the guest without a device so far."""
        vms = session.daemon.status()["vms"]
        return next(vm["announcements"]["all"] for vm in vms if vm["name"] == self.plain.name)

    def metrics(self, configuration, raw):
        measured = bpf_stats.metrics(raw)
        forks = bpf_stats.metrics(raw["forks"])
        return {
            **measured,
            **{name: value for name, value in forks.items() if name.startswith(FORK)},
            "sensor_cpu_share": measured["all_cpu_share"],
            ANNOUNCED: raw["announced"] / raw["seconds"],
        }

    def plots(self):
        return [
            Bars(
                "Time per run (emulated host)",
                {f"{EXIT}_run_ns": "VM exit", f"{SWITCH}_run_ns": "context switch"},
                "ns",
            )
        ]


SCENARIO = SensorCost()
