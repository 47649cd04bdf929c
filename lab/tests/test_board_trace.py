# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""T0: what a recording of a board says: places, frequencies, requests, energy."""

import pytest

from paracord_lab import board_trace
from paracord_lab.board_trace import BoardTrace, Domain

LITTLE = {450.0: 40.0, 950.0: 133.0}
BIG = {600.0: 180.0, 1200.0: 540.0}


def switch(ms, cpu, before, after):
    return (
        f"  <...>-1  [{cpu:03}] d..2. {ms / 1e3:.6f}: sched_switch: prev_comm={before} prev_pid=1 "
        f"prev_prio=120 prev_state=R ==> next_comm={after} next_pid=2 next_prio=120"
    )


def frequency(ms, cpu, khz):
    return f"  <...>-1  [000] d..2. {ms / 1e3:.6f}: cpu_frequency: state={khz} cpu_id={cpu}"


def request(ms, cpu, perf):
    return (
        f"  <...>-1  [000] d..2. {ms / 1e3:.6f}: cpuperf: (scx_bpf_cpuperf_set+0x0/0x1) cpu={cpu} perf={perf}"
    )


def reduced(*lines, until_ms=100):
    trace = BoardTrace()
    domains = [Domain([0, 1], 450.0, LITTLE), Domain([2], 600.0, BIG)]
    board_trace.reduce(trace, "\n".join(lines), domains, 0, int(until_ms * 1e6))
    return trace


def test_places_runs_and_energy():
    trace = reduced(
        switch(10, 0, "swapper/0", "pc_task.0"),
        switch(20, 0, "pc_task.0", "swapper/0"),
        switch(21, 2, "swapper/2", "pc_task.0"),
        frequency(41, 2, 1200000),
        switch(61, 2, "pc_task.0", "swapper/2"),
        switch(90, 2, "swapper/2", "pc_task.0"),
    )
    assert trace.places == {"pc_task.0": [[10, 0], [21, 2]]}
    assert trace.runs == {"pc_task.0": [[10, 61], [90, 100]]}
    assert trace.pauses == {"pc_task.0": [[20, 21]]}
    assert trace.busy_ms["pc_task.0"] == pytest.approx(60)
    assert trace.frequencies == {"0": [[0.0, 450.0]], "2": [[0.0, 600.0], [41, 1200.0]]}
    assert trace.energy_mj == pytest.approx((10 * 40 + 20 * 180 + 20 * 540 + 10 * 540) / 1e3)


def test_requests_within_a_step_are_one():
    trace = reduced(request(1, 2, 100), request(2, 2, 300), request(10, 2, 300), request(20, 2, 200))
    assert trace.requests == {"2": [[1, 300], [20, 200]]}


def test_time_means_and_swing():
    steps = [[0.0, 600.0], [50, 1200.0], [75, 600.0]]
    assert board_trace.mean(steps, 0, 100) == pytest.approx(750)
    assert board_trace.swing_per_s(steps, 0, 100) == pytest.approx(12000)
    assert board_trace.swing_per_s(steps, 0, 50) == 0
    assert board_trace.share_at(steps, 1200, 0, 100) == pytest.approx(0.25)
    assert board_trace.at(steps, 60) == 1200
    assert board_trace.at([[5, 1]], 4) is None
    assert board_trace.least(steps, 60, 80) == 600


@pytest.mark.parametrize(
    ("places", "imbalance"),
    [
        ({"a": [[0, 0]], "b": [[0, 1]]}, 0),
        ({"a": [[0, 0]], "b": [[0, 0]]}, 2),
        # Half of the time; a task elsewhere does not count, an odd one is nobody's fault.
        ({"a": [[0, 0]], "b": [[0, 0], [50, 1]]}, 1),
        ({"a": [[0, 0]], "b": [[0, 1]], "c": [[0, 0]]}, 0),
        ({"a": [[0, 0]], "b": [[0, 1]], "c": [[0, 2]]}, 0),
    ],
)
def test_imbalance(places, imbalance):
    assert board_trace.imbalance(places, (0, 1), 0, 100) == pytest.approx(imbalance)


def test_share_of_tasks_on_some_cpus():
    assert board_trace.share_on({"a": [[0, 0]], "b": [[0, 2], [75, 1]]}, (0, 1), 0, 100) == pytest.approx(
        0.625
    )
