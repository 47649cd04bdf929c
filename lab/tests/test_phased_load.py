# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""What vm-vs-host makes of a load's own words and of the host's trace."""

import pytest

from paracord_lab import board_guest, phased_load, scenario
from paracord_lab.phased_load import Phase
from paracord_lab.stats import StatsError
from paracord_lab.verdicts import PASS, UNDECIDED

TASK = (Phase(1000, 20_000, 3000), Phase(11_000, 20_000, 3000))
TRACE = """\
     kworker/0:1-9   [000] d..2.   12.000500000: cpu_frequency: state=450000 cpu_id=0
          <idle>-0   [001] d.s3.   13.25: cpu_frequency: state=1200000 cpu_id=1
 pc_task.0-80 [001] .....   13.300000: sched_switch: prev_comm=a prev_pid=1
"""


def phase(begin_ns, first_big_ns, busy_us, done_us=10_000):
    """Ten rounds of it, on CPUs at half of the highest speed."""
    first_ns = [1, 0, 0, 0, first_big_ns, 0]
    times = {"busy_us": busy_us, "done_us": done_us, "speed_us": sum(busy_us) / 2}
    return {"begin_ns": begin_ns, "first_ns": first_ns, "rounds": 10, **times}


def test_command_line():
    expected = "pc_load --sample-ms 93 --lead-ms 1000 1000/20000:1500,11000/20000:1500"
    assert phased_load.command([TASK], 0.5) == expected


def test_only_settled_windows_count():
    windows = phased_load.windows(TASK)
    assert windows == [(750, 3000), (3750, 6000)]
    util = [[100, 1024], [800, 512], [2900, 256], [3100, 0], [4000, 1024]]
    assert phased_load.utilisations({"util": util}, windows) == [0.375, 1.0]
    trace = {"frequencies": {"4": [[0.0, 600.0], [4250.0, 1200.0]]}}
    assert phased_load.frequencies(trace, 500.0, windows) == {"4": [600.0, 1200.0]}


def test_a_share_is_of_the_time_that_the_task_ran():
    task = {"phases": [phase(0, 0, [300, 0, 0, 0, 100, 0]), phase(0, 0, [0] * 6)]}
    assert phased_load.shares(task, (4, 5)) == [0.25, 0]


def test_errors():
    assert phased_load.relative_error([110, 0], [100, 100]) == pytest.approx(0.55)
    assert phased_load.mean_distance([0.1, 1], [0.2, 0.8]) == pytest.approx(0.15)
    with pytest.raises(StatsError):
        phased_load.relative_error([1], [0])


def test_excess_work_is_of_the_rounds_that_there_were():
    load = {"tasks": [{"phases": [phase(0, 0, [], 10_000), phase(0, 0, [], 140_000)]}]}
    assert phased_load.excess(load, [TASK]) == pytest.approx(150 / 120)


def test_requests_of_a_guest():
    assert board_guest.parse_requests(TRACE) == [[12_000_500_000, 450_000, 0], [13_250_000_000, 1_200_000, 1]]


def measured(first_big_ns=5_200_000_000, asked=(), **more):
    """5 s on the guest's clock is where the ramp task becomes large."""
    small = {"util": [[1000, 154]], "phases": [phase(0, 0, [100, 0, 0, 0, 0, 0])]}
    phases = [
        phase(2_000_000_000, 0, [100, 0, 0, 0, 0, 0]),
        phase(5_000_000_000, first_big_ns, [50, 0, 0, 0, 150, 0]),
        phase(8_000_000_000, 0, [100, 0, 0, 0, 0, 0]),
    ]
    ramp = {"util": [[1000, 51], [4000, 512], [7000, 51]], "phases": phases}
    trace = {"frequencies": {"0": [[0.0, 450.0]], "4": [[0.0, 600.0]]}, "duration_ms": 10_000}
    load = {"begin_ns": 2_000_000_000, "tasks": [small, ramp]}
    loads = {"load": load, "boosted": {"tasks": [small]}}
    return {"trace": trace, **loads, "begin_ms": 500.0, "factor": 1, "asked": asked, **more}


def metrics(**raw):
    return scenario.load("vm-vs-host").metrics("vm-paracord", measured(**raw))


def test_vm_vs_host_metrics():
    found = metrics(rogue={"free": {"tasks": [{"phases": [phase(0, 0, [0, 0, 0, 0, 3, 1])]}]}})
    assert found["small_0_util_ratio"] == pytest.approx(154 / 1024)
    assert (found["ramp_1_util_ratio"], found["ramp_1_big_ratio"]) == (0.5, 0.75)
    assert (found["little_0_mhz"], found["big_2_mhz"]) == (450, 600)
    assert found["rogue_free_big_ratio"] == 1
    assert found["boosted_speed_ratio"] == 0.5


def test_migration_counts_from_the_first_request_for_more_than_small_cpus_have():
    # 448 MHz is 382 of 1024, 450 MHz 384; before the phase it does not count.
    asked = [[4_900_000_000, 1_200_000, 0], [5_100_000_000, 448_000, 0], [5_170_000_000, 450_000, 1]]
    found = metrics(asked=asked)
    assert (found["change_to_big_ms"], found["migration_ms"]) == (200, 30)
    # It was there before it asked.
    assert metrics(asked=asked, first_big_ns=5_160_000_000)["migration_ms"] == 0
    # The whole phase: nothing was asked for, or it never got there.
    assert metrics()["migration_ms"] == 3000
    assert metrics(asked=asked, first_big_ns=0)["migration_ms"] == 3000


def test_a_disturbed_round_says_nothing():
    quiet = {"excess_work_ratio": 1.1, "migration_ms": 20}
    disturbed = {"excess_work_ratio": 1.6, "migration_ms": 20}
    check = next(c for c in scenario.load("vm-vs-host").checks if c.name == "migration_ms")
    rounds = [{"vm-paracord": quiet}] * 3
    assert check.judge(rounds).status == PASS
    assert check.judge([*rounds, {"vm-paracord": disturbed}]).status == PASS
    verdict = check.judge([{"vm-paracord": disturbed}] * 3)
    assert verdict.status == UNDECIDED and "disturbed" in verdict.reason
