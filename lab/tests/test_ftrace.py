# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""A vCPU thread (312) that waits 4 ms behind a busy loop as a normal task, and 10 µs when it is real-time."""

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

from paracord_lab import ftrace, perfetto
from paracord_lab.perfetto import HALTED, RUNNING, WAITING, Slice

SWITCH = (
    "sched_switch: prev_comm={} prev_pid={} prev_prio=120 prev_state={} ==> "
    "next_comm={} next_pid={} next_prio={}"
)


def line(comm, tid, cpu, seconds, event):
    return f" {comm:>15}-{tid}   [{cpu:03}] d..2. {seconds:.6f}: {event}\n"


def trace(wait_s, prio):
    vcpu, load = "CPU 0/KVM", "stress-ng-cpu"
    end = 10.001 + wait_s
    return (
        ftrace.header([312])
        + "# tracer: nop\n#\n"
        + line(vcpu, 312, 1, 10.0, SWITCH.format(vcpu, 312, "S", load, 400, 120))
        + line("<idle>", 0, 0, 10.001, f"sched_waking: comm={vcpu} pid=312 prio=120 target_cpu=001")
        + line(load, 400, 1, end, SWITCH.format(load, 400, "R", vcpu, 312, prio))
        + line(vcpu, 312, 1, end + 0.001, SWITCH.format(vcpu, 312, "R+", load, 400, 120))
        + line(load, 400, 1, end + 0.002, SWITCH.format(load, 400, "R", vcpu, 312, prio))
        + line(vcpu, 312, 1, end + 0.003, SWITCH.format(vcpu, 312, "S", "swapper/1", 0, 120))
    )


def test_events_in_order_of_time():
    events = ftrace.parse(trace(0.004, 120))
    assert [e.ns for e in events] == sorted(e.ns for e in events)
    assert len(events) == 6
    assert events[0] == ftrace.Switch(10_000_000_000, 1, 312, "CPU 0/KVM", False, 400, "stress-ng-cpu", 120)


def test_garbage_lines_are_passed_over():
    assert ftrace.parse("CPU:0 [LOST 12 EVENTS]\n\x00\nx [000] d..2. 1.0: sched_switch: prev_comm=\n") == []


def test_a_normal_vcpu_waits():
    states, boosts = perfetto.vcpu_slices(ftrace.parse(trace(0.004, 120)), 312)
    assert states[:3] == [
        Slice(10_000_000_000, 10_001_000_000, HALTED),
        Slice(10_001_000_000, 10_005_000_000, WAITING),
        Slice(10_005_000_000, 10_006_000_000, RUNNING),
    ]
    assert states[3].name == WAITING  # preempted, not halted
    assert boosts == []


def test_a_boosted_vcpu_is_marked_and_does_not_wait():
    states, boosts = perfetto.vcpu_slices(ftrace.parse(trace(0.00001, 91)), 312)
    assert next(s.end_ns - s.start_ns for s in states if s.name == WAITING) == 10_000
    assert len(boosts) == 2


def test_host_cpus_show_what_runs_and_leave_idle_out():
    slices = perfetto.cpu_slices(ftrace.parse(trace(0.004, 120)), 1)
    assert [s.name for s in slices] == [
        "stress-ng-cpu [400]",
        "CPU 0/KVM [312]",
        "stress-ng-cpu [400]",
        "CPU 0/KVM [312]",
    ]


def test_the_file_has_a_section_per_configuration_one_after_the_other(tmp_path):
    path = tmp_path / "trace.pftrace"
    perfetto.write({"vanilla": trace(0.004, 120), "boost-rt": trace(0.00001, 91), "empty": ""}, path)
    written = Trace.FromString(path.read_bytes())
    tracks = {
        p.track_descriptor.name: p.track_descriptor for p in written.packet if p.HasField("track_descriptor")
    }
    assert {"1. vanilla", "2. boost-rt", "vCPU 0 [312]", "host CPU 1"} <= set(tracks)
    assert "3. empty" not in tracks
    depth = {}
    for packet in written.packet:
        if packet.HasField("track_event"):
            step = 1 if packet.track_event.type == TrackEvent.TYPE_SLICE_BEGIN else -1
            uuid = packet.track_event.track_uuid
            depth[uuid] = depth.get(uuid, 0) + step
    assert depth and set(depth.values()) == {0}
