# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
Guests of a board. Their work must take as long as on the physical CPU on which each vCPU runs.

The board's driver writes the speeds of vCPU threads into a file of shared memory (pc_speeds). The
guest has this file as the memory of an ivshmem device. Stock guests have the device, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from .errors import LabError
from .ftrace import TRACEFS

PAGE_BYTES = 4096
START_S = 20
GUEST_BUFFER_KB = 512


def speed_file(name: str) -> str:
    """Path of the file of the guest `name`, in the host."""
    return f"/dev/shm/speeds-{name}"


def device(host, name: str) -> Sequence[str]:
    """Makes the file and returns QEMU's arguments for it."""
    path = speed_file(name)
    host.run(f"rm -f {path} && truncate -s {PAGE_BYTES} {path}")
    backend = f"memory-backend-file,id=speeds,share=on,size={PAGE_BYTES},mem-path={path}"
    return ("-object", backend, "-device", "ivshmem-plain,memdev=speeds")


def follow(host, guest):
    """Starts the program that keeps the guest's file up to date. It ends with the host."""
    tids = " ".join(map(str, guest.vcpu_tids))
    job = host.spawn(f"exec pc_speeds {speed_file(guest.name)} {tids}", f"speeds of {guest.name}")
    host.channel.wait_for(lambda: "ready" in job.out() or not job.running, START_S, job.name)
    if not job.running:
        raise LabError(f"pc_speeds ended: {job.err().strip() or 'without a message'}")
    return job


@dataclass
class Asked:
    """The requests of the guest's governor: [ns of the guest's CLOCK_MONOTONIC, kHz, vCPU]."""

    requests: list[list[int]] = field(default_factory=list)


@contextmanager
def requests(guest) -> Iterator[Asked]:
    """Records requests in the guest while the context is open. Empty if the guest has no cpufreq driver."""
    asked = Asked()
    event = f"{TRACEFS}/events/power/cpu_frequency/enable"
    guest.run(
        f"cd {TRACEFS} && echo mono > trace_clock && echo {GUEST_BUFFER_KB} > buffer_size_kb && "
        f"echo > trace && echo 1 > {event} && echo 1 > tracing_on"
    )
    try:
        yield asked
        asked.requests = parse_requests(guest.run(f"echo 0 > {event}; cat {TRACEFS}/trace").out)
    finally:
        guest.run(f"echo 0 > {event}; echo > {TRACEFS}/trace", check=False)


_REQUEST = re.compile(r"\s(\d+)\.(\d+): cpu_frequency: state=(\d+) cpu_id=(\d+)")


def parse_requests(text: str) -> list[list[int]]:
    """Parses the text of tracefs. The requests are in order of time."""
    found = [
        [int(m[1]) * 10**9 + int(m[2].ljust(9, "0")[:9]), int(m[3]), int(m[4])]
        for m in _REQUEST.finditer(text)
    ]
    return sorted(found)
