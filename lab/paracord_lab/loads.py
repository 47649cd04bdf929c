# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""Work on the host: busy loops in L1, the CPU time that they get, and the policies of threads."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from .errors import LabError

AUTOGROUP = "/proc/sys/kernel/sched_autogroup_enabled"
# Twice as many loops as CPUs, so that another normal task always waits on every CPU.
LOOPS_PER_CPU = 2


class LoadError(LabError):
    """The work on the host did not start, or no longer exists."""


@dataclass(frozen=True)
class Reading:
    """The CPU time of the loads so far and the time of the host's clock, both in seconds."""

    cpu_s: float
    clock_s: float


class HostLoad:
    """CPU loops of stress-ng in L1. They are stopped (SIGSTOP) while the host should be idle."""

    def __init__(self, host, loops: int | None = None):
        self.host = host
        self.loops = loops or LOOPS_PER_CPU * host.cpus
        self.job = None
        self.pids: list[int] = []

    def start(self) -> "HostLoad":
        self.job = self.host.spawn(
            f"exec stress-ng --temp-path /tmp --cpu {self.loops} --cpu-method loop -q", "stress-ng"
        )
        script = (
            "for i in $(seq 100); do p=$(pgrep -f '^stress-ng-cpu'); "
            f'[ "$(echo $p | wc -w)" -ge {self.loops} ] && break; sleep 0.1; done; echo $p'
        )
        self.pids = [int(pid) for pid in self.host.run(script, timeout=60).out.split()]
        if len(self.pids) < self.loops:
            said = (self.job.err() + self.job.out()).strip()[-200:]
            raise LoadError(f"stress-ng: {len(self.pids)} of {self.loops} loops started: {said}")
        self.idle()
        return self

    def busy(self) -> None:
        self._signal("CONT")

    def idle(self) -> None:
        self._signal("STOP")

    def _signal(self, name: str) -> None:
        self.host.run(f"kill -{name} {' '.join(map(str, self.pids))}", urgent=True)

    def read(self) -> Reading:
        return read(self.host, self.pids)

    def stop(self) -> None:
        if self.job is not None:
            pids = " ".join(map(str, [*self.pids, self.job.pid]))
            self.host.run(f"kill -KILL {pids}", check=False, urgent=True)
            self.job = None


@contextmanager
def without_autogroups(host) -> Iterator[None]:
    """
    Switches autogroups off while the context is open. With a group per session, a single vCPU thread
    would get as much CPU time as all of the host's work together, so there would be no competition.
    (Under systemd, control groups replace autogroups. A PREEMPT_RT kernel has none.)
    """
    before = host.run(f"cat {AUTOGROUP}", check=False).out.strip()
    if before:
        host.run(f"echo 0 > {AUTOGROUP}")
    try:
        yield
    finally:
        # An emulated host that no longer answers takes its setting with it.
        if before and host.kind == "native":
            host.run(f"echo {before} > {AUTOGROUP}")


@contextmanager
def busy(host) -> Iterator[None]:
    """Runs busy loops on the host while the context is open."""
    load = HostLoad(host).start()
    try:
        load.busy()
        yield
    finally:
        load.stop()


def read(host, threads: Sequence[int]) -> Reading:
    """
    Reads the CPU time of threads from /proc/TID/schedstat (run time, ns), and the clock from
    /proc/uptime.
    """
    files = " ".join(f"/proc/{tid}/schedstat" for tid in threads)
    return parse_reading(host.run(f"cat {files} /proc/uptime", urgent=True).out.splitlines(), len(threads))


def parse_reading(lines: list[str], loads: int) -> Reading:
    """Parses `loads` lines of schedstat and one line of uptime."""
    if len(lines) != loads + 1:
        raise LoadError(f"expected {loads} loads and the clock, found {len(lines)} lines")
    cpu_ns = sum(int(line.split()[0]) for line in lines[:-1])
    return Reading(cpu_s=cpu_ns / 1e9, clock_s=float(lines[-1].split()[0]))


def share(before: Reading, after: Reading, cpus: int) -> float:
    """Share (0..1) of the host's CPU time that the loads got between two readings."""
    elapsed_s = after.clock_s - before.clock_s
    if elapsed_s <= 0:
        raise LoadError("no time passed between two readings of the loads")
    return (after.cpu_s - before.cpu_s) / (elapsed_s * cpus)


def policies(host, tids: Iterable[int]) -> dict[int, str]:
    """A dictionary from threads to "SCHED_OTHER 0" and so on. Threads that no longer exist are left out."""
    script = "; ".join(f"chrt -p {tid} 2>/dev/null" for tid in tids)
    return parse_policies(host.run(f"{script}; true").out)


def parse_policies(text: str) -> dict[int, str]:
    """Parses the two lines that chrt -p prints for each thread."""
    found: dict[int, str] = {}
    policy = ""
    for line in text.splitlines():
        words = line.replace("'s", " ").split()
        if "policy:" in words:
            policy = words[-1].split("|")[0]
        elif "priority:" in words:
            found[int(words[1])] = f"{policy} {words[-1]}"
    return found
