# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""How far what a real kernel gave to the tasks of a mix is from what was simulated."""

import pytest

from paracord_lab import simulator

SAID = {
    "measured_ns": 1000,
    "kinds": [
        {"name": "loop", "ran_ns": 1350, "there": 2, "ended": 0, "least_ns": 630, "most_ns": 720},
        {"name": "link", "ran_ns": 360, "there": 1, "ended": 7, "least_ns": 3, "most_ns": 3},
        {"name": "first", "ran_ns": 0, "there": 0, "ended": 1},
        {"name": "noise", "ran_ns": 200, "there": 1, "ended": 0, "least_ns": 200, "most_ns": 200},
    ],
}
SIMULATED = {
    "stock": {
        "loop": {"all": 1.5, "least": 0.68, "most": 0.82},
        "link": {"all": 0.5, "least": 0.5, "most": 0.5},
        "first": {"all": 0.0},
    },
    "ext": {
        "loop": {"all": 1.5, "least": 0.5, "most": 1.0},
        "link": {"all": 0.4},
        "first": {"all": 0.0},
        "noise": {"all": 0.0},
    },
}


def test_shares_are_of_what_the_noise_left():
    left = simulator.of_what_noise_left(simulator.played_kinds(SAID))
    assert left["loop"] == pytest.approx({"all": 1.5, "least": 0.7, "most": 0.8})
    assert left["link"] == pytest.approx({"all": 0.4}) and "noise" not in left


def test_who_has_least_and_most_is_compared_and_of_forks_the_sum():
    raw = {"played": {"a-mix": SAID}, "simulated": {"a-mix": SIMULATED}}
    stock, ext = (simulator.metrics(scheduler, raw) for scheduler in ("stock", "ext"))
    assert stock["a-mix_distance_share"] == pytest.approx(0.1), "of the links"
    assert ext["a-mix_distance_share"] == pytest.approx(0.2), "the sum of both loops is the same"
    assert (ext["a-mix_loop_most_lab_share"], ext["a-mix_loop_most_sim_share"]) == (pytest.approx(0.8), 1.0)
