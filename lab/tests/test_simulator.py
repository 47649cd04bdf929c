# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""What crates/sim leaves is what others read: results.json of schema 1, and a trace of Perfetto's packets."""

import os
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

from paracord_lab import results

REPOSITORY = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target"))
MIX = """\
machine cpus=2
run 200ms warmup=50ms
queue work
task loop count=2 : run forever
task feeder : run 200us, post work sync, sleep 5ms
task worker : wait work, run 1ms
"""


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    binaries = [TARGET / profile / "paracord-sim" for profile in ("debug", "release")]
    binary = max((b for b in binaries if b.exists()), key=lambda b: b.stat().st_mtime, default=None)
    if binary is None:
        pytest.fail("paracord-sim is not built: cargo build -p paracord-sim")
    directory = tmp_path_factory.mktemp("sim")
    (directory / "small.mix").write_text(MIX)
    arguments = ("compare", "small.mix", "--trace", "small.pftrace", "--json", "results.json")
    subprocess.run([binary, *arguments], cwd=directory, check=False, timeout=60)
    return directory


def test_results_are_read_by_the_lab(outputs):
    read = results.read(outputs / "results.json")
    assert (read.scenario, read.host, read.arch, read.kernel) == ("small", "simulated", "any", "7.3")
    assert read.configs() == ["ext", "stock"]
    assert all(results.unit_of(series.metric) == series.unit for series in read.results)
    assert 1 < read.series("ext", "cpu_loop_share").median < 2


def test_trace_has_what_runs_and_who_wakes_whom(outputs):
    trace = Trace()
    trace.ParseFromString((outputs / "small.pftrace").read_bytes())
    tracks = {
        p.track_descriptor.uuid: p.track_descriptor for p in trace.packet if p.HasField("track_descriptor")
    }

    def path(uuid):
        track = tracks[uuid]
        return (path(track.parent_uuid) if track.parent_uuid else ()) + (track.name,)

    slices, depth, arrows = defaultdict(set), defaultdict(int), defaultdict(set)
    last_ns = 0
    for packet in trace.packet:
        if not packet.HasField("track_event"):
            continue
        event = packet.track_event
        last_ns = max(last_ns, packet.timestamp)
        if event.type == TrackEvent.TYPE_SLICE_END:
            depth[event.track_uuid] -= 1
        else:
            slices[path(event.track_uuid)].add(event.name)
            depth[event.track_uuid] += event.type == TrackEvent.TYPE_SLICE_BEGIN
        assert depth[event.track_uuid] in (0, 1)
        for flow in event.flow_ids:
            arrows[flow].add(event.name)
        for flow in event.terminating_flow_ids:
            assert arrows[flow], "an arrow ends that did not begin"
            arrows[flow].add(event.name.rsplit(" ", 1)[0])
    assert not any(depth.values())
    assert last_ns == 200_000_000
    assert {"loop.0", "loop.1"} <= slices["ext", "CPUs", "CPU 0"] | slices["ext", "CPUs", "CPU 1"]
    worker = slices["ext", "tasks", "worker"]
    assert "sleeps" in worker and worker & {"runs on CPU 0", "runs on CPU 1"}
    assert {"wakes worker", "waits for CPU"} in arrows.values()
    assert ("stock", "CPUs", "CPU 0") in {path(uuid) for uuid in tracks}
