# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
What kill-vm and kill-daemon check: no thread may keep a real-time policy, and the daemon must
continue.
"""

import time
from collections.abc import Container, Iterable
from dataclasses import asdict, dataclass

from . import daemon
from .scenario import Column, Raw, column
from .verdicts import Check

# The longest time after which everything must be in its earlier state again.
RESTORED_WITHIN_S = 1.0
# A VM that runs only its firmware. It is a real VMM with a real KVM vCPU, and it starts at once.
FIRMWARE_VM = (
    "exec qemu-system-x86_64 -name {name},debug-threads=on -accel kvm -cpu host -m 64 "
    "-nodefaults -display none"
)


@dataclass
class Tally:
    """The counts over all kills of a round."""

    kills: int = 0
    boosted: int = 0
    leftovers: int = 0
    daemon_lost: int = 0
    ghosts: int = 0
    notes: str = ""

    def judge(self, host, before: Iterable[int], running, survivors: Iterable[int], gone: str) -> None:
        """
        Called after a kill. Waits RESTORED_WITHIN_S, and then counts everything that is not as it
        should be.
        """
        time.sleep(RESTORED_WITHIN_S)
        # On a busy host, a killed process may need longer than this to end. As long as it exists,
        # it does not count as left over.
        alive = set(host.run("echo /proc/[0-9]*").out.split())
        status = running.status(check=False)
        if status is None:
            self.daemon_lost += 1
            self.notes = f"daemon: {running.last_words()}"
            return
        self.ghosts += sum(
            vm["name"].startswith(gone) and f"/proc/{vm['pid']}" not in alive for vm in status["vms"]
        )
        self.count_leftovers(host, {*before, *survivors})

    def count_leftovers(self, host, allowed: Container[int]) -> None:
        left = {tid: name for tid, name in realtime_threads(host).items() if tid not in allowed}
        self.leftovers += len(left)
        if left:
            self.notes = f"real-time threads left: {left}"

    def raw(self) -> Raw:
        return asdict(self)


def realtime_threads(host) -> dict[int, str]:
    """
    Threads of the host with a real-time policy, and their names, without paracord's own threads and
    the kernel's.
    """
    # Fields: class, thread, parent process, command. Kernel threads are children of kthreadd (2).
    listed = host.run("ps -eLo cls=,tid=,ppid=,comm=").out
    return parse_realtime_threads(listed)


def parse_realtime_threads(text: str) -> dict[int, str]:
    found = {}
    for line in text.splitlines():
        fields = line.split(None, 3)
        if len(fields) == 4 and fields[0] in ("RR", "FF") and fields[2] != "2" and fields[3] != "paracord":
            found[int(fields[1])] = fields[3]
    return found


def boosted(status: dict, tids: Iterable[int] | None = None) -> int:
    """Number of vCPUs (among these threads) whose boost was carried out, not only decided."""
    wanted = None if tids is None else set(tids)
    return sum(vcpu["actuated"] for vcpu in daemon.vcpus(status) if wanted is None or vcpu["tid"] in wanted)


def metrics(raw: Raw) -> dict[str, float]:
    return {
        "kills_count": raw["kills"],
        "kills_while_boosted_count": raw["boosted"],
        "leftover_policies_count": raw["leftovers"],
        "daemon_lost_count": raw["daemon_lost"],
        "ghost_vms_count": raw["ghosts"],
    }


def checks(prefix: str, configuration: str = "boost-rt") -> list[Check]:
    def metric(name: str):
        return lambda one: one[configuration][name]

    return [
        Check(f"{prefix}_leftover_policies", metric("leftover_policies_count"), "<=", 0, "count", every=True),
        Check(f"{prefix}_daemon_lost", metric("daemon_lost_count"), "<=", 0, "count", every=True),
        Check(f"{prefix}_ghost_vms", metric("ghost_vms_count"), "<=", 0, "count", every=True),
        # Otherwise, the kills would not have hit boosted vCPUs.
        Check(
            f"{prefix}_kills_while_boosted", metric("kills_while_boosted_count"), ">=", 1, "count", every=True
        ),
    ]


def columns() -> list[Column]:
    return [
        column("kills", "kills_count"),
        column("while boosted", "kills_while_boosted_count"),
        column("policies left after 1 s", "leftover_policies_count"),
        column("daemon lost", "daemon_lost_count"),
        column("ghost VMs", "ghost_vms_count"),
    ]
