# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
Replaces a guest's driver, as far as the host can see. It writes into a guest's region from the
host, where a test says what the guest requests and when. The guest itself must not have the module.
"""

from __future__ import annotations

import shlex
import struct
from dataclasses import dataclass

REGIONS = "/dev/shm/paracord"
FEATURES = {"boost": 1 << 0, "perf_request": 1 << 3, "capacity": 1 << 4}
# Offsets in abi/paracord_abi.h. test_requests.py compares the values at these offsets with the
# output of `paracord region list`.
HEADER_GUEST_LINE = 64
FIRST_SLOT = 4096
SLOT_BYTES = 1024
GUEST_LINE_BYTES = 64
PERF_REQUEST = 20
HOST_LINE = 64
HOST_PLACE = HOST_LINE + 12
HOST_PLACE_FORMAT = "<HHIIHH"
PLACE_BYTES = struct.calcsize(HOST_PLACE_FORMAT)


@dataclass(frozen=True)
class Place:
    """The place that a host line contains. domain: None for no domain."""

    capacity: int
    frequency: int
    physical_cpu: int
    cluster: int
    pressure: int
    domain: int | None


def places(text: str) -> list[Place]:
    """Parses the output of StandIn.looks(), which may contain several lines."""
    words = [struct.unpack(HOST_PLACE_FORMAT, bytes.fromhex(line)) for line in text.splitlines()]
    return [Place(*place, domain - 1 if domain else None) for *place, domain in words]


class StandIn:
    """Acts as the driver of guest `name` while the context is open."""

    def __init__(self, host, name: str, features: tuple[str, ...] = ("perf_request", "capacity")):
        self.host = host
        self.path = f"{REGIONS}/{name}"
        self.features = sum(FEATURES[feature] for feature in features)

    def __enter__(self) -> StandIn:
        self.host.run(self._store(HEADER_GUEST_LINE, struct.pack("<IHHI", 0, 1, 1, GUEST_LINE_BYTES)))
        self.host.run(self._store(HEADER_GUEST_LINE, struct.pack("<I", self.features)))
        return self

    def __exit__(self, *_: object) -> None:
        """Leaves, unless the region is already gone together with the guest."""
        self.leave()

    def leave(self) -> None:
        """
        Withdraws the driver, as `rmmod` does: the guest's lines no longer accept any features.
        Their other content stays.
        """
        leave = self._store(HEADER_GUEST_LINE, struct.pack("<I", 0))
        self.host.run(f"! test -e {shlex.quote(self.path)} || {leave}")

    def asks(self, request: int, limit: int = 0, vcpu: int = 0) -> str:
        """The shell command with which a vCPU requests performance."""
        return self._store(FIRST_SLOT + vcpu * SLOT_BYTES + PERF_REQUEST, struct.pack("<HH", request, limit))

    def ask(self, request: int, limit: int = 0, vcpu: int = 0) -> None:
        self.host.run(self.asks(request, limit, vcpu))

    def place(self, vcpu: int = 0) -> Place:
        """The place that the host reports to the vCPU."""
        (place,) = places(self.host.run(self.looks(vcpu)).out)
        return place

    def looks(self, vcpu: int = 0) -> str:
        """The shell command that prints a line for places()."""
        at = FIRST_SLOT + vcpu * SLOT_BYTES + HOST_PLACE
        return f"od -An -v -w{PLACE_BYTES} -tx1 -j{at} -N{PLACE_BYTES} {shlex.quote(self.path)}"

    def _store(self, offset: int, data: bytes) -> str:
        # Octal numbers, because some shells' printf does not support \x.
        text = "".join(f"\\{byte:03o}" for byte in data)
        path = shlex.quote(self.path)
        words = f"bs={len(data)} seek={offset} oflag=seek_bytes conv=notrunc status=none"
        return f"printf '{text}' | dd of={path} {words}"
