# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""How far what a real kernel gave to the tasks of a mix is from what was simulated."""

import pytest

from paracord_lab import simulator

SAID = {
    "measured_ns": 1000,
    "kinds": [
        {"name": "loop", "ran_ns": 1500, "there": 2, "ended": 0, "least_ns": 700, "most_ns": 800},
        {"name": "link", "ran_ns": 450, "there": 1, "ended": 7, "least_ns": 3, "most_ns": 3},
        {"name": "first", "ran_ns": 0, "there": 0, "ended": 1},
    ],
}
SIMULATED = {
    "results": [
        {"config": config, "metric": f"{metric}_share", "median": median}
        for config, metric, median in (
            ("stock", "cpu_loop", 1.5),
            ("stock", "least_loop", 0.68),
            ("stock", "most_loop", 0.82),
            ("stock", "cpu_link", 0.5),
            ("stock", "least_link", 0.5),
            ("stock", "cpu_first", 0.0),
            ("ext", "cpu_loop", 1.5),
            ("ext", "least_loop", 0.5),
            ("ext", "most_loop", 1.0),
            ("ext", "cpu_link", 0.45),
        )
    ]
}


def test_who_has_least_and_most_is_compared_and_of_forks_the_sum():
    played = simulator.played_kinds(SAID)
    assert played["loop"] == {"all": 1.5, "least": 0.7, "most": 0.8}
    assert played["link"] == {"all": 0.45}
    stock, ext = (simulator.simulated_kinds(SIMULATED, config, played) for config in ("stock", "ext"))
    assert simulator.distance(played, stock) == pytest.approx(0.05)
    assert simulator.distance(played, ext) == pytest.approx(0.2), "the sum of both loops is the same"


def test_metrics_have_both_sides_and_their_distance():
    found = simulator.metrics("ext", {"played": {"a-mix": SAID}, "simulated": {"a-mix": SIMULATED}})
    assert found["a-mix_distance_share"] == pytest.approx(0.2)
    assert (found["a-mix_loop_most_lab_share"], found["a-mix_loop_most_sim_share"]) == (0.8, 1.0)
