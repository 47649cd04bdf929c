# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
A Perfetto trace that shows whether vCPUs wait for host CPUs. Each configuration has a section. It
shows the states of every vCPU thread (running, waiting for a CPU, halted), its boosts, and what
each host CPU runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackDescriptor, TrackEvent
from perfetto.trace_builder.proto_builder import TraceProtoBuilder

from . import ftrace
from .ftrace import Switch, Waking

RUNNING, WAITING, HALTED = "running", "runnable, waits for a CPU", "halted"
BOOSTED = "real-time"
# The kernel's priorities of real-time tasks are below this.
NORMAL_PRIO_MIN = 100
SECTION_GAP_NS = 100_000_000
_SEQUENCE = 1


@dataclass(frozen=True)
class Slice:
    """A time [start, end) in one state."""

    start_ns: int
    end_ns: int
    name: str


def vcpu_slices(events: list[Switch | Waking], tid: int) -> tuple[list[Slice], list[Slice]]:
    """The states of one vCPU thread, and the times in which it ran with a real-time policy."""
    states: list[Slice] = []
    boosts: list[Slice] = []
    state, since, real_time = None, 0, False
    for event in events:
        new = state
        if isinstance(event, Waking):
            if event.tid == tid and state == HALTED:
                new = WAITING
        elif event.next_tid == tid:
            new, real_time = RUNNING, event.next_prio < NORMAL_PRIO_MIN
        elif event.prev_tid == tid:
            new = WAITING if event.prev_runnable else HALTED
        if new != state:
            if state is not None:
                states.append(Slice(since, event.ns, state))
                if state == RUNNING and real_time:
                    boosts.append(Slice(since, event.ns, BOOSTED))
            state, since = new, event.ns
    return states, boosts


def cpu_slices(events: list[Switch | Waking], cpu: int) -> list[Slice]:
    """What ran on one host CPU, without idle times."""
    slices: list[Slice] = []
    current, since = None, 0
    for event in events:
        if isinstance(event, Switch) and event.cpu == cpu:
            if current and current[0] != 0:
                slices.append(Slice(since, event.ns, f"{current[1]} [{current[0]}]"))
            current, since = (event.next_tid, event.next_comm), event.ns
    return slices


class _Builder:
    def __init__(self):
        self.trace = TraceProtoBuilder()
        self.next_uuid = 1

    def track(self, name: str, parent: int = 0, rank: int = 0) -> int:
        uuid, self.next_uuid = self.next_uuid, self.next_uuid + 1
        descriptor = self.trace.add_packet().track_descriptor
        descriptor.uuid, descriptor.name = uuid, name
        descriptor.sibling_order_rank = rank
        descriptor.child_ordering = TrackDescriptor.EXPLICIT
        if parent:
            descriptor.parent_uuid = parent
        return uuid

    def slices(self, track: int, slices: list[Slice], offset_ns: int) -> None:
        for piece in slices:
            for kind, ns in (
                (TrackEvent.TYPE_SLICE_BEGIN, piece.start_ns),
                (TrackEvent.TYPE_SLICE_END, piece.end_ns),
            ):
                packet = self.trace.add_packet()
                packet.timestamp = ns + offset_ns
                packet.trusted_packet_sequence_id = _SEQUENCE
                packet.track_event.type = kind
                packet.track_event.track_uuid = track
                if kind == TrackEvent.TYPE_SLICE_BEGIN:
                    packet.track_event.name = piece.name


def write(traces: Mapping[str, str], path: Path) -> None:
    """
    Writes a Perfetto trace file from stored ftrace texts. It has one section per configuration.
    """
    builder = _Builder()
    start_ns = 0
    for rank, (configuration, text) in enumerate(traces.items()):
        events = ftrace.parse(text)
        if not events:
            continue
        offset_ns = start_ns - events[0].ns
        section = builder.track(f"{rank + 1}. {configuration}", rank=rank)
        for index, tid in enumerate(ftrace.vcpu_tids(text)):
            states, boosts = vcpu_slices(events, tid)
            builder.slices(builder.track(f"vCPU {index} [{tid}]", section, 2 * index), states, offset_ns)
            builder.slices(
                builder.track(f"vCPU {index} real-time", section, 2 * index + 1), boosts, offset_ns
            )
        for cpu in sorted({e.cpu for e in events if isinstance(e, Switch)}):
            builder.slices(
                builder.track(f"host CPU {cpu}", section, 100 + cpu), cpu_slices(events, cpu), offset_ns
            )
        start_ns = events[-1].ns + offset_ns + SECTION_GAP_NS
    path.write_bytes(builder.trace.serialize())
